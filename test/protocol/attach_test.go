package protocol

import (
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// A refusal is an attach whose own terminus is null, and a detach with the error behind it; the handle is free again.
func TestRow025Refusal(t *testing.T) {
	p := open(t)
	s := p.begin()
	s.refused(senderAttach("$nobody"), amqp.ErrCondNotFound)
	s.refused(receiverAttach("$nobody"), amqp.ErrCondNotFound)
	s.refused(senderAttach(strings.Repeat("x", 256)), amqp.ErrCondInvalidField)
	s.handle = 0
	l := s.sender(queueName(t))
	l.want(l.send(text("x")), &amqp.Accepted{})
	p.quiet()
}

// The settle modes that were asked for are those that are granted, for both roles.
func TestRow029SettleModes(t *testing.T) {
	p := open(t)
	s := p.begin()
	q := queueName(t)
	for _, snd := range []amqp.SenderSettleMode{amqp.SenderSettleUnsettled, amqp.SenderSettleSettled, amqp.SenderSettleMixed} {
		for _, rcv := range []amqp.ReceiverSettleMode{amqp.ReceiverSettleFirst, amqp.ReceiverSettleSecond} {
			ask := func(a *amqp.Attach) { a.SenderSettleMode, a.ReceiverSettleMode = snd, rcv }
			for _, l := range []*link{s.sender(q, ask), s.receiver(q, ask)} {
				if l.attach.SenderSettleMode != snd || l.attach.ReceiverSettleMode != rcv {
					t.Errorf("asked for %d and %d, granted %d and %d", snd, rcv, l.attach.SenderSettleMode, l.attach.ReceiverSettleMode)
				}
				l.detach(true)
			}
		}
	}
	p.quiet()
}

// Where the link settles first a transfer can't ask to be settled second (2.7.5); the other way round it can.
func TestRow029TransfersOwnMode(t *testing.T) {
	p := open(t)
	s := p.begin()
	q := queueName(t)
	own := func(mode amqp.ReceiverSettleMode) func(*amqp.Transfer) {
		return func(x *amqp.Transfer) { x.ReceiverSettleMode = amqp.Some(mode) }
	}
	l := s.sender(q, func(a *amqp.Attach) { a.ReceiverSettleMode = amqp.ReceiverSettleSecond })
	l.want(l.send(text("1"), own(amqp.ReceiverSettleFirst)), &amqp.Accepted{})
	l = s.sender(q)
	l.want(l.send(text("2"), own(amqp.ReceiverSettleFirst)), &amqp.Accepted{})
	l.send(text("3"), own(amqp.ReceiverSettleSecond))
	l.wantDetach(amqp.ErrCondInvalidField)
	p.quiet()
	wantQueue(t, q, "1", "2")
}

// On a link in mode settled, deliveries come settled; in mode unsettled none does.
func TestRow029SenderModes(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	for mode, want := range map[amqp.SenderSettleMode]bool{
		amqp.SenderSettleSettled: true, amqp.SenderSettleUnsettled: false, amqp.SenderSettleMixed: false,
	} {
		l := s.receiver(q, func(a *amqp.Attach) { a.SenderSettleMode = mode })
		l.flow(1)
		if m := l.receive(); m.settled != want {
			t.Errorf("mode %d: settled %v", mode, m.settled)
		} else if !m.settled {
			s.settle(m.id, &amqp.Accepted{})
		}
		l.detach(true)
	}
	p.quiet()
	wantQueue(t, q)
}

// max-message-size is announced, and a message beyond it detaches its link alone.
func TestRow030MaxMessageSize(t *testing.T) {
	p := open(t)
	s := p.begin()
	l, other := s.sender(queueName(t)), s.sender(queueName(t))
	limit := l.attach.MaxMessageSize
	if limit == 0 || limit > 64<<20 {
		t.Fatalf("max-message-size is %d", limit)
	}
	part := make([]byte, 1<<19)
	x := l.transfer()
	x.More = true
	for sent := uint64(0); sent <= limit; sent += uint64(len(part)) {
		l.put(x, part)
		x = &amqp.Transfer{Handle: l.handle, More: true}
		if s.nextOut%512 == 0 {
			echoSession(s)
		}
	}
	l.wantDetach(amqp.ErrCondMessageSizeExceeded)
	other.want(other.send(text("x")), &amqp.Accepted{})
	p.quiet()
}

// A receiver's max-message-size is kept too: what is larger goes to others.
func TestRow030ReceiversMaxMessageSize(t *testing.T) {
	large := strings.Repeat("x", 1000)
	q := filled(t, large, "small")
	p := open(t)
	s := p.begin()
	l := s.receiver(q, func(a *amqp.Attach) { a.MaxMessageSize = 500 })
	l.flow(2)
	m := l.receive().wantText("small")
	s.settle(m.id, &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q, large)
}

// A name attached again detaches the older link as stolen: in its session, and in another of the connection.
func TestRow035StolenLink(t *testing.T) {
	q := queueName(t)
	for _, role := range []amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		for _, elsewhere := range []bool{false, true} {
			p := open(t)
			s := p.begin()
			attach := func() *amqp.Attach {
				a := senderAttach(q)
				if role == amqp.RoleReceiver {
					a = receiverAttach(q)
				}
				a.Name = "same"
				return a
			}
			old := s.attached(attach())
			next := s
			if elsewhere {
				echoSession(s) // its credit has come
				next = p.begin()
			}
			a := attach()
			a.Handle = next.handle
			next.handle++
			next.send(a)
			var stolen *amqp.Detach
			var granted *amqp.Attach
			for stolen == nil || granted == nil {
				_, body, _ := p.next()
				switch x := body.(type) {
				case *amqp.Detach:
					stolen = x
				case *amqp.Attach:
					granted = x
				}
			}
			wantCondition(t, stolen.Error, amqp.ErrCondStolen)
			if stolen.Handle != old.attach.Handle || !stolen.Closed {
				t.Errorf("%s: %+v", role, stolen)
			}
			if granted.Source == nil || granted.Target == nil {
				t.Errorf("%s: the new link is refused", role)
			}
			s.send(&amqp.Detach{Handle: old.handle, Closed: true})
			p.quiet()
		}
	}
}

// Names are told apart by role and by container.
func TestRow036ScopeOfNames(t *testing.T) {
	q := queueName(t)
	var links []*link
	for range 2 {
		s := open(t).begin()
		links = append(links,
			s.sender(q, func(a *amqp.Attach) { a.Name = "same" }), s.receiver(q, func(a *amqp.Attach) { a.Name = "same" }))
	}
	links[0].want(links[0].send(text("1")), &amqp.Accepted{})
	links[2].want(links[2].send(text("2")), &amqp.Accepted{})
	links[1].flow(1)
	links[1].receive().wantText("1")
	links[3].flow(1)
	links[3].receive().wantText("2")
	links[0].s.p.quiet()
	links[2].s.p.quiet()
}

// A link that wants to resume deliveries is refused where that isn't there: nothing is lost in silence. With an empty map it
// is a new link.
func TestRow040ResumeIsRefused(t *testing.T) {
	q := filled(t, "held")
	p := open(t)
	s := p.begin()
	l := s.receiver(q)
	l.flow(1)
	m := l.receive()
	l.detach(false)
	again := func(a *amqp.Attach, tag []byte) *amqp.Attach {
		a.Unsettled = []amqp.Unsettled{{Tag: tag}}
		return a
	}
	s.refused(again(receiverAttach(q), m.tag), amqp.ErrCondNotImplemented)
	s.refused(again(senderAttach(q), []byte("t")), amqp.ErrCondNotImplemented)
	s.receiver(q, func(a *amqp.Attach) { a.Unsettled = []amqp.Unsettled{} })
	s.sender(q, func(a *amqp.Attach) { a.Unsettled = []amqp.Unsettled{} })
	s.end()
	eventually(t, q, "held")
	p.quiet()
}

// What the node does with a source stands in its answer: the outcomes, and the one of a delivery that is settled without.
func TestRow031SourceSaysWhatHolds(t *testing.T) {
	p := open(t)
	s := p.begin()
	src := s.receiver(queueName(t)).attach.Source
	if src.DefaultOutcome == nil || len(src.Outcomes) != 4 {
		t.Errorf("default %v, outcomes %v", src.DefaultOutcome, src.Outcomes)
	}
	src = s.receiver(queueName(t), func(a *amqp.Attach) {
		a.Source.DefaultOutcome = &amqp.Modified{DeliveryFailed: true}
		a.Source.Outcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeModified}
	}).attach.Source
	if d, ok := src.DefaultOutcome.(*amqp.Modified); !ok || !d.DeliveryFailed || len(src.Outcomes) != 2 {
		t.Errorf("default %v, outcomes %v", src.DefaultOutcome, src.Outcomes)
	}
	p.quiet()
}
