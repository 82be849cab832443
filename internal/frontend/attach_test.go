package frontend

import (
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// Checklist 25 to 28, 37, 40, 72 and wire.md: what isn't there is refused, by Attach with a null terminus and Detach with
// the error, and never half honoured.
func TestRefusedAttaches(t *testing.T) {
	rcv := func(f func(*amqp.Source)) *amqp.Attach {
		a := receiverAttach("r", "q")
		f(a.Source)
		return a
	}
	snd := func(f func(*amqp.Target)) *amqp.Attach {
		a := senderAttach("s", "q")
		f(a.Target)
		return a
	}
	held := senderAttach("s", "q")
	held.Unsettled = []amqp.Unsettled{{Tag: []byte("x")}}
	heldRcv := receiverAttach("r", "q")
	heldRcv.Unsettled = []amqp.Unsettled{{Tag: []byte("x")}}
	some, someRcv := senderAttach("s", "q"), receiverAttach("r", "q")
	some.IncompleteUnsettled, someRcv.IncompleteUnsettled = true, true
	selector := amqp.Map{{Key: amqp.FilterKeyJMS, Value: &amqp.Described{Descriptor: amqp.FilterSelectorCode, Value: "a="}}}
	for _, tc := range []struct {
		name string
		a    *amqp.Attach
		want amqp.Symbol
	}{
		{"filter", rcv(func(s *amqp.Source) { s.Filter = selector }), amqp.ErrCondInvalidField},
		{"a queue and a topic", rcv(func(s *amqp.Source) { s.Capabilities = []amqp.Symbol{amqp.CapTopic, amqp.CapQueue} }), amqp.ErrCondInvalidField},
		{"dynamic source with an address", rcv(func(s *amqp.Source) { s.Dynamic = true }), amqp.ErrCondInvalidField},
		{"durable dynamic source", dynamicSource(func(s *amqp.Source) { s.Durable = amqp.DurabilityUnsettledState }), amqp.ErrCondNotImplemented},
		{"temporary topic", dynamicSource(func(s *amqp.Source) { s.Capabilities = []amqp.Symbol{amqp.CapTemporaryTopic} }), amqp.ErrCondNotImplemented},
		{"lifetime", dynamicSource(func(s *amqp.Source) {
			s.DynamicNodeProperties = amqp.Map{{Key: amqp.PropLifetimePolicy, Value: amqp.DeleteOnNoLinks}}
		}), amqp.ErrCondNotImplemented},
		{"no lifetime", dynamicSource(func(s *amqp.Source) {
			s.DynamicNodeProperties = amqp.Map{{Key: amqp.PropLifetimePolicy, Value: "for ever"}}
		}), amqp.ErrCondInvalidField},
		{"no address", rcv(func(s *amqp.Source) { s.Address = amqp.Opt[string]{} }), amqp.ErrCondInvalidField},
		{"reserved", rcv(func(s *amqp.Source) { s.Address = amqp.Some("$sys") }), amqp.ErrCondNotFound},
		{"reading outcomes", rcv(func(s *amqp.Source) { s.Address = amqp.Some(addressOutcome) }), amqp.ErrCondNotAllowed},
		{"control character", rcv(func(s *amqp.Source) { s.Address = amqp.Some("a\nb") }), amqp.ErrCondInvalidField},
		{"long", rcv(func(s *amqp.Source) { s.Address = amqp.Some(strings.Repeat("x", 256)) }), amqp.ErrCondInvalidField},
		{"prefix", rcv(func(s *amqp.Source) { s.Address = amqp.Some("topic://") }), amqp.ErrCondInvalidField},
		{"a prefix and another capability", rcv(func(s *amqp.Source) {
			s.Address, s.Capabilities = amqp.Some("topic://x"), []amqp.Symbol{amqp.CapQueue}
		}), amqp.ErrCondInvalidField},
		{"a queue's prefix, a topic's capability", snd(func(s *amqp.Target) {
			s.Address, s.Capabilities = amqp.Some("jms.queue.x"), []amqp.Symbol{amqp.CapTopic}
		}), amqp.ErrCondInvalidField},
		{"dynamic target with an address", snd(func(s *amqp.Target) { s.Dynamic = true }), amqp.ErrCondInvalidField},
		{"dynamic target of a topic", dynamicTarget(func(s *amqp.Target) { s.Capabilities = []amqp.Symbol{amqp.CapTemporaryTopic} }), amqp.ErrCondNotImplemented},
		{"temporary queue", snd(func(s *amqp.Target) { s.Capabilities = []amqp.Symbol{amqp.CapTemporaryQueue} }), amqp.ErrCondNotFound},
		{"a temporary queue that isn't there", snd(func(s *amqp.Target) { s.Address = amqp.Some("temp-queue:0") }), amqp.ErrCondNotFound},
		{"nor to receive from", rcv(func(s *amqp.Source) { s.Address = amqp.Some("temp-queue:0") }), amqp.ErrCondNotFound},
		{"reserved target", snd(func(s *amqp.Target) { s.Address = amqp.Some("$oncemq.more") }), amqp.ErrCondNotFound},
		{"unsettled map of a plain sender", held, amqp.ErrCondNotImplemented},
		{"unsettled map of a plain receiver", heldRcv, amqp.ErrCondNotImplemented},
		{"a part of a sender's unsettled map", some, amqp.ErrCondNotImplemented},
		{"a part of a receiver's unsettled map", someRcv, amqp.ErrCondNotImplemented},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p := r.open("a")
			if got := p.refusal(tc.a); got != tc.want {
				t.Fatalf("refused with %q, want %s", got, tc.want)
			}
			if n := len(r.log.m.Queues()); n != 0 {
				t.Fatal("a queue was made")
			}
			if len(p.fe.consumers)+len(p.fe.producers)+len(p.fe.names) != 0 {
				t.Fatal("something stays behind")
			}
		})
	}
	r := newRig(t)
	p := r.open("a")
	null := senderAttach("s", "")
	null.Target = nil
	l, err := p.begin().Attach(*null)
	if err != nil {
		t.Fatal(err)
	}
	p.wantDetached(l, amqp.ErrCondInvalidField)
}

// Checklist 29, 30, 31: settle modes are echoed exactly; max-message-size is announced and enforced.
func TestAttachEcho(t *testing.T) {
	for _, snd := range []amqp.SenderSettleMode{amqp.SenderSettleUnsettled, amqp.SenderSettleSettled, amqp.SenderSettleMixed} {
		for _, rcv := range []amqp.ReceiverSettleMode{amqp.ReceiverSettleFirst, amqp.ReceiverSettleSecond} {
			r := newRig(t)
			p := r.open("a")
			s := p.begin()
			for _, a := range []*amqp.Attach{senderAttach("s", "q"), receiverAttach("r", "q")} {
				a.SenderSettleMode, a.ReceiverSettleMode = snd, rcv
				_, ev := p.attach(s, a)
				if ev.Attach.SenderSettleMode != snd || ev.Attach.ReceiverSettleMode != rcv {
					t.Errorf("%v %v came back as %v %v", snd, rcv, ev.Attach.SenderSettleMode, ev.Attach.ReceiverSettleMode)
				}
				if a.Role == amqp.RoleSender && ev.Attach.MaxMessageSize != maxMessageSize {
					t.Errorf("max-message-size %d", ev.Attach.MaxMessageSize)
				}
			}
		}
	}
}

// Checklist 35, 36: the same name attached again takes the link over; other containers and the other role have their own.
func TestStolenLink(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s, s2 := p.begin(), p.begin()
	old, _ := p.attach(s, receiverAttach("same", "q"))
	p.attach(s, senderAttach("same", "q"))
	other := r.open("b")
	other.attach(other.begin(), receiverAttach("same", "q"))
	l, err := s2.Attach(*receiverAttach("same", "q"))
	if err != nil {
		t.Fatal(err)
	}
	p.wantDetached(old, amqp.ErrCondStolen)
	r.pump()
	if !l.Attached() {
		t.Fatal("the new link isn't attached")
	}
	other.none(engine.LinkDetached)
	p.none(engine.LinkDetached)
}

// A link that its client gives up before we have answered leaves nothing behind.
func TestDetachBeforeAnswer(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	r.log.held = true
	snd, _ := s.Attach(*senderAttach("s", "q"))
	rcv, _ := s.Attach(*receiverAttach("r", "q"))
	r.pump()
	_ = snd.Detach(true, nil)
	_ = rcv.Detach(true, nil)
	r.pump()
	r.log.held = false
	r.pump()
	if !snd.Detached() || !rcv.Detached() || len(p.fe.consumers)+len(p.fe.producers) != 0 {
		t.Fatal("something stays behind")
	}
	p2 := r.open("b")
	p2.sendText(p2.sender(p2.begin(), "q"), "1")
	r.wantDepth("q", "1/0")
}
