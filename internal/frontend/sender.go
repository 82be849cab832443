package frontend

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// senderCredit is what a sender has at most; it is topped up at half.
const senderCredit = 1000

// producer is a client's sending link: our receiving one.
type producer struct {
	s    *session
	link *engine.Link
	num  uint32
	// address is empty for the anonymous relay; inc is the queue's, zero for the relay and for reserved addresses.
	address  string
	inc      command.Incarnation
	numbered bool
	// resends: what was sent over it may be said again over its next attachment; resent: over this one it may have been (C9).
	resends, resent bool
	// ousted: it was ended here. The client may be gone before it hears of that, and attach it again.
	ousted  bool
	open    bool
	over    bool
	starved bool
}

func (c *Conn) attachProducer(s *session, l *engine.Link, a *amqp.Attach) *amqp.Error {
	if a.Target == nil {
		return refuse(amqp.ErrCondInvalidField, "a sender needs a target")
	}
	name, routing, err := c.checkTarget(a)
	if err != nil {
		return err
	}
	p := &producer{s: s, link: l, num: c.nextLink(), address: name}
	if a.Target.Dynamic {
		p.address = command.TemporaryQueuePrefix // what is behind it, the answer says
	}
	p.numbered = !s.id.IsZero() && !p.reserved() && !a.Target.Dynamic && symbolIn(a.DesiredCapabilities, amqp.CapOncemqNumbered)
	p.resends = !p.numbered && !p.reserved() && !a.Target.Dynamic && c.quirks.resendsOver(a.Name)
	if len(a.Unsettled) > 0 && !p.numbered {
		return notImplemented("resuming unsettled deliveries without " + string(amqp.CapOncemqNumbered))
	}
	open := command.SenderOpen{
		Conn: c.id, Link: p.num, Name: a.Name, Address: p.address, Routing: routing, Numbered: p.numbered, Resends: p.resends, Dynamic: dynamicQueue(a.Target.Dynamic),
	}
	if p.reserved() || a.Target.Dynamic {
		open.Address = "" // nothing is stored there, or the state makes the address
	}
	open.Create = open.Address != "" && c.node.Allow(c.opts.Principal, RightCreate, open.Address)
	if p.numbered {
		open.Session = s.id
		for i := range a.Unsettled {
			n, ok := sendNumber(a.Unsettled[i].Tag)
			if !ok {
				return refuse(amqp.ErrCondInvalidField, "a tag of a numbered link is not a number of 8 bytes")
			}
			open.Held = append(open.Held, n)
		}
		slices.Sort(open.Held)
	}
	l.Data = p
	c.producers[p.num] = p
	open.Request = c.expect(answer{kind: answerSender, producer: p})
	c.gather(&open)
	return nil
}

// checkTarget refuses what is not supported, or not permitted, and says where it is.
func (c *Conn) checkTarget(a *amqp.Attach) (name string, routing command.Routing, refused *amqp.Error) {
	t := a.Target
	if t.Dynamic {
		return "", 0, c.checkDynamic(t.Address.V, t.Durable, t.DynamicNodeProperties, t.Capabilities)
	}
	if refused = checkCapabilities(t.Capabilities, t.Address.V); refused != nil {
		return "", 0, refused
	}
	if name, routing, refused = place(t.Address.V, t.Capabilities); refused != nil {
		return "", 0, refused
	}
	switch {
	case t.Address.V == "": // the anonymous relay: each message is checked
		return "", 0, nil
	case name == addressOutcome || name == addressTx:
	default:
		if refused = checkAddress(name); refused != nil {
			return "", 0, refused
		}
	}
	return name, routing, c.allowed(RightSend, name)
}

func (p *producer) reserved() bool { return p.address == addressOutcome || p.address == addressTx }

// onSenderOpened answers the attach and gives credit.
func (c *Conn) onSenderOpened(e *command.Effect) {
	a, ok := c.take(e.Request, answerSender)
	if !ok || a.producer.over {
		return
	}
	p := a.producer
	detail, ok := e.Detail.(*command.SenderOpened)
	if e.Refusal != nil || !ok {
		err := amqp.Error{Condition: amqp.ErrCondInternalError, Description: "the link can't be attached"}
		if e.Refusal != nil {
			err = amqpError(e.Refusal)
		}
		p.over = true
		delete(c.producers, p.num)
		c.forgetName(p.link)
		_ = p.link.Refuse(err)
		return
	}
	p.inc, p.open, p.resent = detail.Incarnation, true, detail.Resent
	in := p.link.Remote()
	reply := amqp.Attach{
		SenderSettleMode: in.SenderSettleMode, ReceiverSettleMode: in.ReceiverSettleMode,
		Source: in.Source, MaxMessageSize: maxMessageSize,
		Target: &amqp.Target{
			Address: in.Target.Address, ExpiryPolicy: in.Target.ExpiryPolicy, Timeout: in.Target.Timeout,
			Capabilities: offered(in.Target.Capabilities),
		},
	}
	if in.Target.Dynamic {
		p.address = detail.Address
		t := reply.Target
		t.Address, t.Dynamic, t.DynamicNodeProperties = amqp.Some(p.address), true, lifetime()
		t.ExpiryPolicy, t.Timeout = amqp.ExpiryLinkDetach, 0
	}
	if p.numbered {
		reply.OfferedCapabilities = []amqp.Symbol{amqp.CapOncemqNumbered}
		if in.Unsettled != nil {
			reply.Unsettled = sendOutcomes(detail.Held)
		}
	}
	if err := p.link.Accept(reply); err != nil {
		c.detach(p.link, amqp.Error{Condition: amqp.ErrCondInternalError, Description: err.Error()})
		return
	}
	c.credit(p)
}

// sendOutcomes is the unsettled map of the answer: what became of each number (wire.md).
func sendOutcomes(held []command.SendOutcome) []amqp.Unsettled {
	list := []amqp.Unsettled{}
	for _, h := range held {
		u := amqp.Unsettled{Tag: binary.BigEndian.AppendUint64(nil, h.Number)}
		switch {
		case h.Stored:
			u.State = &amqp.Accepted{}
		case h.Refusal != nil:
			err := amqpError(h.Refusal)
			u.State = &amqp.Rejected{Error: &err}
		default:
			continue
		}
		list = append(list, u)
	}
	return list
}

func sendNumber(tag []byte) (uint64, bool) {
	if len(tag) != 8 {
		return 0, false
	}
	n := binary.BigEndian.Uint64(tag)
	return n, n > 0
}

// credit tops a sender up, unless too much waits to be applied [8.6].
func (c *Conn) credit(p *producer) {
	if !p.open || p.over || p.starved {
		return
	}
	want := uint32(min(senderCredit, max(0, maxUnsettled-p.link.Unsettled())))
	if have := p.link.Credit(); have > senderCredit/2 || want <= have {
		if have == 0 {
			c.starve(p) // too many are unsettled: look again later
		}
		return
	}
	if c.log.Backlog() > MaxBacklog || c.short(p) {
		c.starve(p)
		return
	}
	_ = p.link.SetCredit(want, false)
}

// short says that a sender gets no credit, since there is little room in the cluster [8.5]. Questions take none.
func (c *Conn) short(p *producer) bool { return !p.reserved() && c.log.Room() >= command.RoomLow }

// takeBack takes the credit of senders back while there is little room, and says when to look again.
func (c *Conn) takeBack() (next time.Time) {
	if c.log.Room() >= command.RoomLow {
		for _, p := range inOrder(c.producers) {
			if p.open && !p.over && !p.starved && c.short(p) && p.link.Credit() > 0 {
				_ = p.link.SetCredit(0, false)
				c.starve(p)
			}
		}
	}
	return c.now.Add(watchTick)
}

// starvedTick is when starved senders are looked at again.
func (c *Conn) starvedTick() time.Duration {
	if c.log.Room() >= command.RoomLow {
		return shortTick
	}
	return soonTick
}

func (c *Conn) starve(p *producer) {
	p.starved = true
	c.wakeBy(c.now.Add(c.starvedTick()))
	c.starved = append(c.starved, p)
}

// feed looks again at the senders that got no credit.
func (c *Conn) feed() {
	list := c.starved
	c.starved = nil
	for _, p := range list {
		p.starved = false
		c.credit(p)
	}
}

// endProducer forgets a sending link; what is in flight is stored all the same.
func (c *Conn) endProducer(p *producer, closed bool) {
	if p.over {
		return
	}
	p.over = true
	delete(c.producers, p.num)
	if closed || !p.numbered { // numbers are kept for a link that comes back
		c.gather(&command.SenderEnd{Conn: c.id, Link: p.num, Closed: closed && !p.ousted})
	}
}
