package server

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
)

// sasl runs the SASL layer on the connection's own goroutine, before reader and writer start. It gives the bytes that came
// behind it and the principal. With --dev, which is loopback only, everybody is ANONYMOUS, also who skips SASL.
func (c *conn) sasl() (rest []byte, principal string, ok bool) {
	_ = c.nc.SetDeadline(time.Now().Add(c.s.cfg.SASLTimeout))
	layer := engine.NewSASLServer("ANONYMOUS")
	layer.AllowSkip = c.s.cfg.Dev
	buf := make([]byte, 2<<10)
	n := 0
	for {
		k, err := c.nc.Read(buf[n:])
		n += k
		if k == 0 && err != nil {
			return nil, "", false
		}
		n, ok = c.saslStep(layer, buf, n)
		if !ok {
			return nil, "", false
		}
		if code, skipped, done := layer.Done(); done {
			return buf[:n], frontend.Anonymous, skipped || code == amqp.SASLCodeOK
		}
		if n == len(buf) {
			return nil, "", false // no SASL frame is so large
		}
	}
}

// saslStep hands bytes in until none are consumed, answers the client's steps, and writes. It gives how many bytes are left.
func (c *conn) saslStep(layer *engine.SASLServer, buf []byte, n int) (left int, ok bool) {
	for {
		eaten, fault := layer.Input(buf[:n])
		n = copy(buf, buf[eaten:n])
		stepped := false
		for step, more := layer.Next(); more; step, more = layer.Next() {
			stepped = true
			// The only mechanism; whatever its response says is a trace for people (RFC 4505).
			if step.Init {
				layer.Outcome(amqp.SASLCodeOK, nil)
			} else {
				layer.Outcome(amqp.SASLCodeSys, nil)
			}
		}
		if out := layer.TakeOutput(nil); len(out) > 0 {
			if _, err := c.nc.Write(out); err != nil {
				return n, false
			}
		}
		if fault != nil {
			return n, false
		}
		if _, _, done := layer.Done(); done || eaten == 0 && !stepped {
			return n, true
		}
	}
}
