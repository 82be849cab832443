package client

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// sendOpen opens the connection once SASL is through. The capability asks the broker to know us as its own client: attempts fence, sessions
// resume, silence is filled [1.4].
func (c *Core) sendOpen() error {
	o := *amqp.NewOpen(c.cfg.ContainerID)
	o.Hostname = c.cfg.Hostname
	o.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqClient}
	o.Properties = amqp.Map{
		{Key: amqp.PropProduct, Value: "oncemq"},
		{Key: amqp.PropPlatform, Value: "Go"},
		{Key: amqp.PropNonce, Value: amqp.UUID(c.cfg.Nonce)},
		{Key: amqp.PropAttempt, Value: c.serial},
	}
	if c.cfg.Version != "" {
		o.Properties = append(o.Properties, amqp.Pair{Key: amqp.PropVersion, Value: c.cfg.Version})
	}
	return c.conn.Open(o)
}

// opened: the peer's Open is there. One that announces a failed establishment is followed by its Close, which says why.
func (c *Core) opened(o *amqp.Open, now time.Time) {
	if _, failed := o.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail)); failed {
		return
	}
	c.phase, c.openedAt = phaseOpen, now
	c.emit(Event{Kind: Connected, Addr: c.addrs[c.at], Failover: c.ever})
	c.ever = true
	c.learnAddresses(o)
	if c.closing {
		c.sendClose(now)
		return
	}
	for _, s := range c.sessions {
		s.begin()
	}
}

// learnAddresses adds nodes that the broker names and we don't know.
func (c *Core) learnAddresses(o *amqp.Open) {
	if c.cfg.IgnoreServerList {
		return
	}
	v, _ := o.Properties.Lookup(string(amqp.PropFailoverServerList))
	list, _ := v.(amqp.List)
	changed := false
	for _, item := range list {
		m, _ := item.(amqp.Map)
		h, _ := m.Lookup(string(amqp.InfoNetworkHost))
		p, _ := m.Lookup(string(amqp.InfoPort))
		host, _ := h.(string)
		port, ok := portOf(p)
		if host == "" || !ok || len(c.addrs) >= 64 {
			continue
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]" // IPv6
		}
		addr := host + ":" + strconv.Itoa(port)
		if !slices.Contains(c.addrs, addr) {
			c.addrs = append(c.addrs[:len(c.addrs):len(c.addrs)], addr)
			changed = true
		}
	}
	if changed {
		c.emit(Event{Kind: AddressesChanged, Addrs: append([]string(nil), c.addrs...)})
	}
}

func portOf(v any) (int, bool) {
	var n uint64
	switch x := v.(type) {
	case uint16:
		n = uint64(x)
	case uint32:
		n = uint64(x)
	case uint64:
		n = x
	case int32:
		n = uint64(x)
	case int64:
		n = uint64(x)
	}
	return int(n), n > 0 && n < 1<<16
}

// closed: the connection is over by the peer's will or a fault.
func (c *Core) closed(e *engine.Error, now time.Time) {
	if c.phase == phaseClosing {
		c.over(nil)
		return
	}
	err := errors.New("closed by the node")
	if e != nil {
		err = e
		if e.Remote && final(e.AMQP.Condition) {
			c.fail(&e.AMQP)
			return
		}
		if e.AMQP.Condition != amqp.ErrCondConnectionForced {
			c.progress = false // another node may answer alike: back off
		}
	}
	c.broken(err, now)
}

// final says that another node would refuse the connection alike (C16: a "no" is given only after a read barrier).
func final(condition amqp.Symbol) bool {
	return condition == amqp.ErrCondUnauthorizedAccess || condition == amqp.ErrCondInvalidField || condition == amqp.ErrCondNotAllowed
}

// saslFailed decides about a "no" of the SASL layer: only sys-temp, and what is no answer at all, is worth another node.
func (c *Core) saslFailed(err error, now time.Time) {
	var no *engine.SASLError
	if errors.As(err, &no) && no.Code != amqp.SASLCodeSysTemp || errors.Is(err, engine.ErrMechanism) {
		c.fail(err)
		return
	}
	c.broken(err, now)
}

// Close begins to end the client: sessions are ended, then the connection. Over says when it is done.
func (c *Core) Close(now time.Time) {
	if c.closing || c.phase == phaseOver {
		return
	}
	c.closing = true
	if c.phase != phaseOpen {
		c.over(nil)
		return
	}
	c.sendClose(now)
}

func (c *Core) sendClose(now time.Time) {
	for _, s := range c.sessions {
		s.endNow()
	}
	c.phase = phaseClosing
	c.due, c.dueSince = true, now
	if c.conn.Close(nil) != nil {
		c.over(nil)
	}
}

// Abort ends the client at once, without the exchange.
func (c *Core) Abort() {
	c.closing = true
	c.over(nil)
}
