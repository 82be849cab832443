package frontend

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// offers are the capabilities that Open offers to everybody. Each is real: a client that finds one here doesn't look for another way.
var offers = []amqp.Symbol{
	amqp.CapAnonymousRelay,  // send.go: a message goes where its "to" says
	amqp.CapDelayedDelivery, // the state: x-opt-delivery-time
	amqp.CapSharedSubs,      // topic.go
}

// onOpen proposes the connection; the answer waits until that is applied [1.4].
func (c *Conn) onOpen(o *amqp.Open) {
	c.quirks = quirksOf(o.Properties)
	open := command.ConnOpen{
		Local: c.opts.Local, Principal: c.opts.Principal, ContainerID: o.ContainerID,
		SoleConnection: symbolIn(o.DesiredCapabilities, amqp.CapSoleConnection),
	}
	nonce, _ := o.Properties.Lookup(string(amqp.PropNonce))
	if id, ok := nonce.(amqp.UUID); ok && id != (amqp.UUID{}) && symbolIn(o.DesiredCapabilities, amqp.CapOncemqClient) {
		attempt, _ := o.Properties.Lookup(string(amqp.PropAttempt))
		n, _ := unsigned(attempt)
		open.Nonce, open.Attempt = id, uint32(n)
		c.ours = true
	}
	c.phase = phaseOpening
	c.deadline = c.now.Add(c.node.cfg.OpenTimeout)
	c.wakeBy(c.deadline)
	c.gather(&open)
}

// onConnOpened answers the client's Open.
func (c *Conn) onConnOpened(e *command.Effect) {
	if c.phase != phaseOpening {
		return
	}
	detail, ok := e.Detail.(*command.ConnOpened)
	if e.Refusal != nil || !ok {
		c.refuseOpen(e.Refusal)
		return
	}
	c.id = detail.Conn
	c.phase = phaseOpen
	c.wakeBy(c.now) // the peer's idle-time-out counts from now
	o := amqp.NewOpen(c.node.cfg.ContainerID)
	o.OfferedCapabilities = slices.Clone(offers)
	if symbolIn(c.eng.Remote().DesiredCapabilities, amqp.CapSoleConnection) {
		o.OfferedCapabilities = append(o.OfferedCapabilities, amqp.CapSoleConnection)
	}
	if c.ours {
		o.OfferedCapabilities = append(o.OfferedCapabilities, amqp.CapOncemqClient)
	}
	o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: "OncemQ"}, {Key: amqp.PropVersion, Value: c.node.cfg.Version}}
	if list := c.servers(); len(list) > 0 {
		o.Properties = append(o.Properties, amqp.Pair{Key: amqp.PropFailoverServerList, Value: list})
	}
	if err := c.eng.Open(*o); err != nil {
		c.force("the answer to open can't be sent", command.EndForced)
	}
}

// servers is the failover-server-list: all other nodes (amqp.md 1.2). It names no scheme, so a client keeps to the one it came with;
// that is why over WebSocket there is none: members tell each other no addresses of such listeners.
func (c *Conn) servers() (list amqp.List) {
	for _, s := range c.others() {
		list = append(list, amqp.Map{
			{Key: amqp.InfoNetworkHost, Value: s.Host}, {Key: amqp.InfoPort, Value: int32(s.Port)},
		})
	}
	return list
}

// others are the other nodes as this client reaches them; none where nobody knows.
func (c *Conn) others() []Server {
	if c.node.cfg.Servers == nil || c.opts.Web {
		return nil
	}
	return c.node.cfg.Servers(c.opts.Secure)
}

// refuseOpen says no in the form that Qpid JMS understands: Open{connection-establishment-failed}, then Close. The log has
// no connection to end.
func (c *Conn) refuseOpen(r *command.Refusal) {
	err := amqp.Error{Condition: amqp.ErrCondConnectionForced, Description: "the connection can't be opened here now: try another node"}
	if r != nil {
		err = amqpError(r)
		if err.Condition == amqp.ErrCondInvalidField {
			err.Info = amqp.Map{{Key: amqp.InfoInvalidField, Value: amqp.InfoContainerID}}
		}
	}
	c.ended = true
	c.over(&err)
}

// unsigned reads a number of any unsigned or non-negative signed type.
func unsigned(v any) (uint64, bool) {
	switch x := v.(type) {
	case uint8:
		return uint64(x), true
	case uint16:
		return uint64(x), true
	case uint32:
		return uint64(x), true
	case uint64:
		return x, true
	case int8:
		return uint64(x), x >= 0
	case int16:
		return uint64(x), x >= 0
	case int32:
		return uint64(x), x >= 0
	case int64:
		return uint64(x), x >= 0
	}
	return 0, false
}
