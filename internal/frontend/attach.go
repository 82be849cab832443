package frontend

import (
	"strings"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// The bounds of a link.
const (
	// maxMessageSize is announced and enforced (contract.md, Defaults).
	maxMessageSize = 64 << 20
	// maxUnsettled bounds the unsettled deliveries of one link, so that an unsettled map fits a frame (wire.md).
	maxUnsettled = 10_000
)

// Reserved addresses (wire.md).
const (
	addressOutcome = "$oncemq.outcome"
	addressTx      = "$oncemq.tx"
)

// linkKey is what makes a link the same one: its name and our role. The container is the connection's.
type linkKey struct {
	name string
	role amqp.Role
}

// onAttach begins a link of the client's making.
func (c *Conn) onAttach(s *engine.Session, l *engine.Link, a *amqp.Attach) {
	x, ok := s.Data.(*session)
	switch {
	case !ok || x.over:
		return
	case x.opening:
		x.deferred = append(x.deferred, l)
	default:
		c.attach(x, l, a)
	}
}

func (c *Conn) attach(s *session, l *engine.Link, a *amqp.Attach) {
	key := linkKey{a.Name, l.Role()}
	if old := c.names[key]; old != nil && old != l {
		c.detach(old, amqp.Error{Condition: amqp.ErrCondStolen, Description: "the link was attached again under its name"})
	}
	c.names[key] = l
	var err *amqp.Error
	switch {
	case a.IncompleteUnsettled: // what it doesn't name would be taken for settled
		err = notImplemented("an unsettled map that is incomplete")
	case a.Coordinator != nil && l.Role() == amqp.RoleReceiver:
		err = c.attachCoordinator(s, l, a)
	case l.Role() == amqp.RoleReceiver:
		err = c.attachProducer(s, l, a)
	default:
		err = c.attachConsumer(s, l, a)
	}
	if err != nil {
		_ = l.Refuse(*err)
		c.forgetName(l)
	}
}

// nextLink is the state's number for a link of this connection.
func (c *Conn) nextLink() uint32 {
	c.lastLink++
	return c.lastLink
}

func (c *Conn) forgetName(l *engine.Link) {
	key := linkKey{l.Name(), l.Role()}
	if c.names[key] == l {
		delete(c.names, key)
	}
}

// onDetach answers the client's Detach, or takes note of the engine's own for a fault of the client's.
func (c *Conn) onDetach(l *engine.Link, closed, fault bool) {
	c.forgetName(l)
	if k, ok := l.Data.(*consumer); ok {
		k.closed = closed && !fault // a fault ends no subscription
	}
	c.endLink(l, closed)
	_ = l.Detach(closed, nil)
}

// detach detaches a link with an error: the client is to know, and the link is over.
func (c *Conn) detach(l *engine.Link, err amqp.Error) {
	c.forgetName(l)
	_ = l.Detach(true, &err)
	if p, ok := l.Data.(*producer); ok {
		p.ousted = true
	}
	c.endLink(l, true)
}

// endLink ends what hangs on a link.
func (c *Conn) endLink(l *engine.Link, closed bool) {
	switch x := l.Data.(type) {
	case *producer:
		c.endProducer(x, closed)
	case *consumer:
		c.endConsumer(x, closed)
	case *coordinator:
		x.over = true
		c.abandon(func(t *tx) bool { return t.coordinator == x && !t.tagged })
	}
}

// onLinkEnded: the link ended in the state, since its queue was deleted.
func (c *Conn) onLinkEnded(e *command.Effect) {
	err := amqp.Error{Condition: amqp.ErrCondResourceDeleted, Description: "the queue was deleted"}
	if e.Refusal != nil {
		err = amqpError(e.Refusal)
	}
	if k := c.consumers[e.Link]; k != nil {
		k.gone = true
		c.detach(k.link, err)
	}
	if p := c.producers[e.Link]; p != nil {
		c.detach(p.link, err)
	}
}

// notImplemented refuses what is not there yet instead of half honouring it.
func notImplemented(what string) *amqp.Error {
	return &amqp.Error{Condition: amqp.ErrCondNotImplemented, Description: what + " is not supported yet"}
}

func refuse(condition amqp.Symbol, description string) *amqp.Error {
	return &amqp.Error{Condition: condition, Description: description}
}

// checkCapabilities refuses the capabilities of a terminus that say that it is no queue, or another one than its address says.
func checkCapabilities(list []amqp.Symbol, address string) *amqp.Error {
	for _, s := range list {
		switch s {
		case amqp.CapTemporaryQueue:
			if !strings.HasPrefix(address, command.TemporaryQueuePrefix) {
				return refuse(amqp.ErrCondNotFound, "no temporary queue has a name that doesn't begin with "+command.TemporaryQueuePrefix)
			}
		case amqp.CapTemporaryTopic:
			return notImplemented("the capability " + string(s))
		}
	}
	return nil
}

// offered echoes the capabilities of a terminus that are real.
func offered(list []amqp.Symbol) (real []amqp.Symbol) {
	for _, s := range list {
		switch s {
		case amqp.CapQueue, amqp.CapTopic, amqp.CapTemporaryQueue, amqp.CapShared, amqp.CapGlobal:
			real = append(real, s)
		}
	}
	return real
}

// checkAddress checks the name of a queue: 1 to 255 bytes of UTF-8 without control characters; $ is ours.
func checkAddress(address string) *amqp.Error {
	switch {
	case address == "" || len(address) > 255:
		return refuse(amqp.ErrCondInvalidField, "an address has 1 to 255 bytes")
	case !utf8.ValidString(address):
		return refuse(amqp.ErrCondInvalidField, "an address is valid UTF-8")
	case address[0] == '$':
		return refuse(amqp.ErrCondNotFound, "addresses that begin with $ are reserved, and this is none of them")
	}
	for _, r := range address {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return refuse(amqp.ErrCondInvalidField, "an address has no control characters")
		}
	}
	for _, prefix := range []string{"temp-queue://", "temp-topic://"} {
		if strings.HasPrefix(address, prefix) {
			return notImplemented("an address with the prefix " + prefix)
		}
	}
	return nil
}

// allowed asks for a right and gives the refusal.
func (c *Conn) allowed(right Right, address string) *amqp.Error {
	if c.node.Allow(c.opts.Principal, right, address) {
		return nil
	}
	return refuse(amqp.ErrCondUnauthorizedAccess, "the user may not "+right.String()+" here: ask for the right")
}

// takesRejected says whether a sender understands the outcome rejected: a source without outcomes understands all
// (python-proton names none).
func takesRejected(source *amqp.Source) bool {
	return source == nil || len(source.Outcomes) == 0 || symbolIn(source.Outcomes, amqp.OutcomeRejected)
}
