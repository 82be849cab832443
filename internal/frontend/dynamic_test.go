package frontend

import (
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// dynamicSource is the attach of a receiver that makes its queue; change may be nil.
func dynamicSource(change func(*amqp.Source)) *amqp.Attach {
	a := receiverAttach("temporary", "")
	a.Source = &amqp.Source{Dynamic: true}
	if change != nil {
		change(a.Source)
	}
	return a
}

// dynamicTarget is that of a sender; as Qpid JMS asks for it if change is nil.
func dynamicTarget(change func(*amqp.Target)) *amqp.Attach {
	a := senderAttach("creator", "")
	a.Target = &amqp.Target{
		Dynamic: true, ExpiryPolicy: amqp.ExpiryLinkDetach, DynamicNodeProperties: lifetime(), Capabilities: []amqp.Symbol{amqp.CapTemporaryQueue},
	}
	if change != nil {
		change(a.Target)
	}
	return a
}

// wantLifetime wants the properties of a terminus to say delete-on-close alone.
func wantLifetime(t *testing.T, m amqp.Map) {
	t.Helper()
	if p, ok := amqp.LifetimePolicyOf(m); !ok || p != amqp.DeleteOnClose || len(m) != 1 {
		t.Fatalf("dynamic-node-properties %v", m)
	}
}

// Checklist 37: the answer says what holds; the queue goes with its link, closed or not, and with its session.
func TestDynamicTermini(t *testing.T) {
	r := newRig(t)
	p, other := r.open("owner"), r.open("other")
	s := p.begin()
	for _, closed := range []bool{true, false} {
		l, ev := p.attach(s, dynamicSource(func(x *amqp.Source) { x.Timeout = 7 }))
		source := ev.Attach.Source
		if !source.Dynamic || !strings.HasPrefix(source.Address.V, command.TemporaryQueuePrefix) || source.ExpiryPolicy != amqp.ExpiryLinkDetach || source.Timeout != 0 {
			t.Fatalf("%+v", source)
		}
		wantLifetime(t, source.DynamicNodeProperties)
		if err := l.SetCredit(5, false); err != nil {
			t.Fatal(err)
		}
		to := other.sender(other.begin(), source.Address.V)
		other.sendText(to, "a", "b")
		r.pump()
		p.want("a b")
		if err := l.Detach(closed, nil); err != nil {
			t.Fatal(err)
		}
		r.pump()
		if n := len(r.log.m.Queues()); n != 0 {
			t.Fatalf("closed %v: %d queues are left", closed, n)
		}
		other.wantDetached(to, amqp.ErrCondResourceDeleted)
		if len(p.fe.consumers) != 0 {
			t.Fatal("the link stays behind")
		}
	}
	l, ev := p.attach(s, dynamicTarget(nil))
	target := ev.Attach.Target
	wantLifetime(t, target.DynamicNodeProperties)
	if !target.Dynamic || !symbolIn(target.Capabilities, amqp.CapTemporaryQueue) || target.ExpiryPolicy != amqp.ExpiryLinkDetach {
		t.Fatalf("%+v", target)
	}
	p.sendText(l, "by the link itself")
	r.pump()
	r.wantDepth(target.Address.V, "1/0")
	if err := s.End(nil); err != nil {
		t.Fatal(err)
	}
	r.pump()
	if n := len(r.log.m.Queues()); n != 0 {
		t.Fatalf("%d queues are left", n)
	}
}

// Checklist 38: other connections don't receive; anybody sends, by a link or the anonymous relay, and a name that is no more makes no queue.
func TestTemporaryQueueOfAnother(t *testing.T) {
	r := newRig(t)
	p, other := r.open("owner"), r.open("other")
	s := p.begin()
	l, ev := p.attach(s, dynamicTarget(nil))
	name := ev.Attach.Target.Address.V
	if got := other.refusal(receiverAttach("r", name)); got != amqp.ErrCondResourceLocked {
		t.Fatalf("refused with %q", got)
	}
	relay := other.sender(other.begin(), "")
	send := func() *engine.Delivery {
		return other.send(relay, engine.Transfer{Payload: [][]byte{amqp.AppendProperties(nil, &amqp.Properties{To: name}), text("x")}})
	}
	d := send()
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	p.receiver(s, name, 1, func(a *amqp.Attach) { a.Source.Capabilities = []amqp.Symbol{amqp.CapTemporaryQueue} })
	r.pump()
	p.want("x")
	if err := l.Detach(true, nil); err != nil {
		t.Fatal(err)
	}
	r.pump()
	d = send()
	r.pump()
	wantRejected(t, d, amqp.ErrCondNotFound)
	if n := len(r.log.m.Queues()); n != 0 {
		t.Fatalf("%d queues", n)
	}
}

// Who may make no queues makes no temporary ones either; who may receive from none receives from his own.
func TestRightsOfTemporaryQueues(t *testing.T) {
	rights := map[Right]bool{RightSend: true}
	r := newRig(t, Config{Access: func(_ string, right Right, _ string) bool { return rights[right] }})
	p := r.open("a")
	if got := p.refusal(dynamicSource(nil)); got != amqp.ErrCondUnauthorizedAccess {
		t.Fatalf("refused with %q", got)
	}
	rights[RightCreate] = true
	s := p.begin()
	_, ev := p.attach(s, dynamicTarget(nil))
	p.receiver(s, ev.Attach.Target.Address.V, 1)
	if got := p.refusal(receiverAttach("r", "q")); got != amqp.ErrCondUnauthorizedAccess {
		t.Fatalf("refused with %q", got)
	}
}
