package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
)

const mechanismAnonymous = "ANONYMOUS"

// secure takes the TLS handshake, where the listener has TLS.
func (c *conn) secure(ctx context.Context) bool {
	if c.tls == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.TLSTimeout)
	defer cancel()
	_ = c.nc.SetDeadline(time.Now().Add(c.s.cfg.TLSTimeout)) // bounds the alert of a refusal, too
	if err := c.tls.HandshakeContext(ctx); err != nil {
		c.s.log.Debug("TLS handshake failed", "peer", c.host, "error", err)
		return false
	}
	return true
}

// sasl runs the SASL layer on the connection's own goroutine, before reader and writer start. It gives the bytes that came
// behind it and the principal. With --dev, which is loopback only, everybody may be ANONYMOUS, also who skips SASL.
func (c *conn) sasl(ctx context.Context) (rest []byte, principal string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.SASLTimeout)
	defer cancel()
	_ = c.nc.SetDeadline(time.Now().Add(c.s.cfg.SASLTimeout))
	x := c.newExchange()
	layer := engine.NewSASLServer(x.offered...)
	layer.AllowSkip = c.s.cfg.Dev
	buf := make([]byte, 2<<10)
	n := 0
	for {
		k, err := c.nc.Read(buf[n:])
		n += k
		if k == 0 && err != nil {
			return nil, "", false
		}
		n, ok = c.saslStep(ctx, layer, x, buf, n)
		if !ok {
			return nil, "", false
		}
		if code, skipped, done := layer.Done(); done {
			if skipped {
				return buf[:n], frontend.Anonymous, true
			}
			x.audit(code)
			if code != amqp.SASLCodeOK {
				c.farewell()
			}
			return buf[:n], x.principal, code == amqp.SASLCodeOK
		}
		if n == len(buf) {
			return nil, "", false // no SASL frame is so large
		}
	}
}

// saslStep hands bytes in until none are consumed, answers the client's steps, and writes. It gives how many bytes are left.
func (c *conn) saslStep(ctx context.Context, layer *engine.SASLServer, x *exchange, buf []byte, n int) (left int, ok bool) {
	for {
		eaten, fault := layer.Input(buf[:n])
		n = copy(buf, buf[eaten:n])
		stepped := false
		for step, more := layer.Next(); more; step, more = layer.Next() {
			stepped = true
			x.step(ctx, layer, step)
		}
		if out := layer.TakeOutput(nil); len(out) > 0 {
			if _, err := c.nc.Write(out); err != nil {
				return n, false
			}
		}
		if fault != nil {
			c.farewell()
			return n, false
		}
		if _, _, done := layer.Done(); done || eaten == 0 && !stepped {
			return n, true
		}
	}
}

// farewell lets a refused peer read why: closing a socket with unread input would reset it.
func (c *conn) farewell() {
	c.linger(lingerTime)
	c.closeWrite()
	scratch := make([]byte, 1<<10)
	for range 64 {
		if _, err := c.nc.Read(scratch); err != nil {
			return
		}
	}
}

// offer lists the mechanisms for this connection: the same for all of a listener (with TLS SCRAM can be bound to it), but for EXTERNAL,
// which needs a certificate, and PLAIN, which needs TLS or a peer on this machine.
func (c *conn) offer() (list []amqp.Symbol) {
	cfg := &c.s.cfg
	if cfg.Users != nil {
		if c.tls != nil {
			list = append(list, auth.ScramSHA512Plus, auth.ScramSHA256Plus)
		}
		list = append(list, auth.ScramSHA512, auth.ScramSHA256)
		if len(c.names()) > 0 {
			list = append(list, auth.External)
		}
		if cfg.Plain && (c.tls != nil || c.loopback) {
			list = append(list, auth.Plain)
		}
	}
	if cfg.Dev {
		list = append(list, mechanismAnonymous)
	}
	return list
}

// audit logs how an exchange ended: every "no" and "later", and with Debug the rest.
func (x *exchange) audit(code amqp.SASLCode) {
	level, text := slog.LevelWarn, "a client was not let in"
	if code == amqp.SASLCodeOK {
		level, text = slog.LevelDebug, "a client was let in"
	}
	reason := x.err
	if code != amqp.SASLCodeOK && reason == nil {
		reason = errNotOffered
	}
	x.c.s.log.Log(context.Background(), level, text, "user", x.user, "mechanism", x.mechanism, "peer", x.c.nc.RemoteAddr().String(),
		"tls", x.c.tls != nil, "error", reason)
}

var errNotOffered = errors.New("it asked for a mechanism that is not offered on this connection")
