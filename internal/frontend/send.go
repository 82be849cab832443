package frontend

import (
	"bytes"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/mutant"
)

// accepted is the one outcome of most answers.
var accepted = &amqp.Accepted{}

// onTransfer takes a message that a client sent.
func (c *Conn) onTransfer(p *producer, d *engine.Delivery) {
	if p.over {
		return
	}
	c.credit(p)
	if d.Resume { // senders are told by the unsettled map what became of theirs, and have nothing to resume (wire.md)
		c.detach(p.link, *notImplemented("resuming a delivery"))
		return
	}
	sections, err := parse(d)
	if state, ok := d.State.(*amqp.TransactionalState); ok {
		c.sendInTx(p, d, state, &sections, err)
		return
	}
	address, props := p.address, amqp.Properties{}
	if err == nil && (address == "" || address == addressOutcome) {
		if props, err = properties(&sections); err == nil && address == "" {
			address, err = c.relay(props.To, &sections)
		}
	}
	if err == nil && address == addressTx {
		err = refuse(amqp.ErrCondNotAllowed, "a transaction is named by a send within it")
	}
	switch {
	case err == nil && address == addressOutcome && !p.numbered:
		c.onQuestion(p, d, &sections, &props)
	case p.numbered:
		c.sendNumbered(p, d, address, err)
	case err == nil && c.log.Room() == command.RoomFull && !p.resent:
		// The state would say so too; but the message would have to be written first. What may have been stored already is for the
		// state alone to answer: a refusal would say that it wasn't.
		c.refuseSend(p, d, refuse(amqp.ErrCondResourceLimitExceeded, noRoom))
	case err != nil:
		c.refuseSend(p, d, err)
	default:
		c.send(p, d, address, answer{kind: answerSend}, 0)
	}
}

// noRoom is why nothing is stored now.
const noRoom = "the cluster has no room: nothing is stored until messages are consumed, purged or deleted, or its disks and memory have room"

// sendNumbered sends under the client's number. What this home refuses takes its number in the log too, or a resend would
// count as a repeat of something stored [1.6]: it goes to no address, which the state refuses and remembers.
func (c *Conn) sendNumbered(p *producer, d *engine.Delivery, address string, err *amqp.Error) {
	n, ok := sendNumber(d.Tag())
	if !ok {
		c.detach(p.link, *refuse(amqp.ErrCondInvalidField, "a tag of a numbered link is a number of 8 bytes, from 1"))
		return
	}
	if address == addressOutcome && err == nil {
		err = refuse(amqp.ErrCondNotAllowed, "an outcome is asked for on a link without "+string(amqp.CapOncemqNumbered))
	}
	if err == nil {
		c.send(p, d, address, answer{kind: answerSend}, n)
		return
	}
	a := answer{kind: answerSend, producer: p, err: err}
	if !d.Settled {
		a.delivery = d
	}
	c.gather(&command.Send{Conn: c.id, Link: p.num, Number: n, Request: c.expect(a)})
}

// send puts a message into the record.
func (c *Conn) send(p *producer, d *engine.Delivery, address string, a answer, number uint64) {
	s := &c.scratch.send
	*s = command.Send{Conn: c.id, Link: p.num, Number: number, Target: p.inc, Message: d.Payload}
	if p.address == "" {
		s.Address = address
	}
	a.producer, a.size = p, len(d.Payload)
	if !d.Settled {
		a.delivery = d
	} else if p.address == "" {
		a.tag = d.Tag()
	}
	c.sending += a.size
	s.Request = c.expect(a)
	c.gather(s)
	s.Message, d.Payload = nil, nil
	if mutant.On(mutant.EarlySent) && !d.Settled {
		d.Dispose(accepted, !d.Second)
	}
}

// maxMade bounds what a connection remembers of the queues that it has had made.
const maxMade = 1000

// make has the queue or topic of a relayed message made, if it isn't there and its sender may do that, as an attach to it would: a
// command in front of the send. It is remembered, so that the next message costs nothing.
func (c *Conn) make(address string, routing command.Routing) {
	if c.made[address] || temporaryName(address) || !c.node.Allow(c.opts.Principal, RightCreate, address) {
		return
	}
	if c.made == nil || len(c.made) >= maxMade {
		c.made = make(map[string]bool)
	}
	c.made[address] = true
	c.gather(&command.QueueCreate{Conn: c.id, Name: address, Routing: routing})
}

// parse checks the structure of a message, so that no poison reaches a consumer.
func parse(d *engine.Delivery) (amqp.Sections, *amqp.Error) {
	if d.Format != 0 {
		return amqp.Sections{}, notImplemented("a message-format other than 0")
	}
	if len(d.Payload) == 0 {
		return amqp.Sections{}, refuse(amqp.ErrCondDecodeError, "a message without any section")
	}
	sections, err := amqp.ParseSections(d.Payload, amqp.Limits{})
	if err != nil {
		return sections, refuse(amqp.ErrCondDecodeError, err.Error())
	}
	return sections, nil
}

func properties(s *amqp.Sections) (amqp.Properties, *amqp.Error) {
	props, err := amqp.DecodeProperties(s.Properties, amqp.Limits{})
	if err != nil {
		return props, refuse(amqp.ErrCondDecodeError, err.Error())
	}
	return props, nil
}

// relay is where a message on the anonymous relay goes that names so in properties.to. What it is, is said by a prefix, or by JMS in an annotation.
func (c *Conn) relay(to string, s *amqp.Sections) (address string, refused *amqp.Error) {
	address, routing := plain(to)
	switch address {
	case "":
		return "", refuse(amqp.ErrCondInvalidField, "a message on the anonymous relay names its address in properties.to")
	case addressOutcome, addressTx:
		return address, c.allowed(RightSend, address)
	}
	if refused = checkAddress(address); refused != nil {
		return "", refused
	}
	if refused = c.allowed(RightSend, address); refused != nil {
		return "", refused
	}
	if routing == command.AnyRouting {
		routing = jmsRouting(s)
	}
	c.make(address, routing)
	return address, nil
}

// jmsRouting is what JMS says of a message's destination (amqp.md 1.5): a queue, a topic, or one of those that are temporary.
func jmsRouting(s *amqp.Sections) command.Routing {
	annotations, err := amqp.DecodeMessageAnnotations(s.MessageAnnotations, amqp.Limits{})
	if err != nil {
		return command.AnyRouting
	}
	switch kind, _ := annotations.Lookup("x-opt-jms-dest"); kind {
	case int8(0), int8(2):
		return command.Anycast
	case int8(1), int8(3):
		return command.Multicast
	}
	return command.AnyRouting
}

// onSent answers a send once it is applied.
func (c *Conn) onSent(e *command.Effect) {
	a, ok := c.take(e.Request, answerSend, answerReply)
	if !ok {
		return
	}
	c.sending -= a.size
	if a.kind == answerReply {
		c.onReplied(a.question, e.Refusal)
		return
	}
	if e.Refusal != nil && a.producer.address == "" {
		c.made = nil // a queue may have been deleted since
	}
	switch {
	case e.Refusal == nil:
		if a.delivery != nil {
			a.delivery.Dispose(accepted, !a.delivery.Second)
		}
	case a.delivery == nil:
		// A settled send can't be told anything but on its link (3.2.1 of the relay rules: detach).
		if !a.producer.over {
			err := amqpError(e.Refusal)
			c.detach(a.producer.link, *a.producer.blame(&err, a.tag))
		}
	default:
		err := amqpError(e.Refusal)
		if a.err != nil {
			err = *a.err
		}
		c.refuseSend(a.producer, a.delivery, &err)
	}
}

// refuseSend says no to one delivery. Where the client can't hear that, because the delivery is settled or its source knows no
// rejected, the link is detached with the error.
func (c *Conn) refuseSend(p *producer, d *engine.Delivery, err *amqp.Error) {
	if p.over {
		return
	}
	err = p.blame(err, d.Tag())
	if d.Settled || !takesRejected(p.link.Remote().Source) {
		c.detach(p.link, *err)
		return
	}
	d.Dispose(&amqp.Rejected{Error: err}, !d.Second)
}

// blame adds to an error of the anonymous relay which delivery it is of, as the relay's specification wants (2.2.2 there).
func (p *producer) blame(err *amqp.Error, tag []byte) *amqp.Error {
	if p.address != "" {
		return err
	}
	e := *err
	e.Info = append(slices.Clone(err.Info), amqp.Pair{Key: amqp.InfoDeliveryTag, Value: bytes.Clone(tag)})
	return &e
}

// onSendsSettled: the client settled sends on a link that settles second. State may forget the kept refusals of numbered
// ones.
func (c *Conn) onSendsSettled(p *producer, deliveries []*engine.Delivery) {
	if !p.numbered || p.over {
		return
	}
	var numbers []uint64
	for _, d := range deliveries {
		if _, refused := d.LocalState.(*amqp.Rejected); !refused {
			continue
		}
		if _, transacted := d.State.(*amqp.TransactionalState); transacted {
			continue
		}
		if n, ok := sendNumber(d.Tag()); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) > 0 {
		c.gather(&command.SendForget{Conn: c.id, Link: p.num, Numbers: numbers})
	}
}
