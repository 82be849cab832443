package protocol

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// onTopic says by a capability that a terminus is a topic's, with others.
func onTopic(more ...amqp.Symbol) func(*amqp.Attach) {
	return func(a *amqp.Attach) {
		list := append([]amqp.Symbol{amqp.CapTopic}, more...)
		if a.Role == amqp.RoleSender {
			a.Target.Capabilities = list
			return
		}
		a.Source.Capabilities, a.Source.DistributionMode = list, amqp.DistributionCopy
	}
}

// durable asks for a subscription that outlives its link, whose name is the subscription's.
func durable(name string) func(*amqp.Attach) {
	return func(a *amqp.Attach) {
		a.Name, a.Source.Durable, a.Source.ExpiryPolicy = name, amqp.DurabilityUnsettledState, amqp.ExpiryNever
	}
}

func named(name string) func(*amqp.Attach) { return func(a *amqp.Attach) { a.Name = name } }

func container(id string) func(*amqp.Open) { return func(o *amqp.Open) { o.ContainerID = id } }

// publish sends texts to a topic, over a connection of its own.
func publish(t *testing.T, topic string, texts ...string) {
	t.Helper()
	p := open(t)
	l := p.begin().sender(topic, onTopic())
	for _, s := range texts {
		l.want(l.send(text(s)), &amqp.Accepted{})
	}
	p.close()
}

// wantTexts takes and accepts what comes, and then nothing does.
func (l *link) wantTexts(want ...string) {
	l.s.p.t.Helper()
	l.flow(uint32(len(want)) + 5)
	for _, s := range want {
		l.s.settle(l.receive().wantText(s).id, &amqp.Accepted{})
	}
	l.flow(5, func(f *amqp.Flow) { f.Drain = true })
	for {
		switch x := expectAny(l.s.p).(type) {
		case *amqp.Transfer:
			l.s.p.t.Fatalf("more than %q comes: %+v", want, x)
		case *amqp.Flow:
			if x.Handle.Set && x.Drain && x.LinkCredit.V == 0 {
				l.count = x.DeliveryCount.V
				return
			}
		}
	}
}

func expectAny(p *peer) amqp.Performative {
	_, body, _ := p.next()
	return body
}

// detach detaches and waits for the answer; what comes before it is passed over.
func (l *link) detachNow(closed bool) {
	l.s.p.t.Helper()
	l.s.send(&amqp.Detach{Handle: l.handle, Closed: closed})
	for {
		if _, ok := expectAny(l.s.p).(*amqp.Detach); ok {
			return
		}
	}
}

// An address is a queue or a topic for good; who says something else is refused, at either end, by capability and by prefix.
func TestRow028QueueAndTopic(t *testing.T) {
	queue, topic := filled(t, "a"), queueName(t)
	publish(t, topic)
	p := open(t)
	s := p.begin()
	as := func(a *amqp.Attach, f func(*amqp.Attach)) *amqp.Attach { f(a); return a }
	asQueue := func(a *amqp.Attach) {
		if a.Role == amqp.RoleSender {
			a.Target.Capabilities = []amqp.Symbol{amqp.CapQueue}
		} else {
			a.Source.Capabilities = []amqp.Symbol{amqp.CapQueue}
		}
	}
	for _, a := range []*amqp.Attach{
		as(receiverAttach(queue), onTopic()), as(senderAttach(queue), onTopic()), receiverAttach("topic://" + queue), senderAttach("jms.topic." + queue),
		as(receiverAttach(topic), asQueue), as(senderAttach(topic), asQueue), receiverAttach("queue://" + topic), senderAttach("/queue/" + topic),
	} {
		s.refused(a, amqp.ErrCondNotAllowed)
	}
	s.receiver("queue://" + queue).wantTexts("a")
	r := s.receiver(topic) // who says nothing takes it as it is
	publish(t, topic, "b")
	r.wantTexts("b")
	p.quiet()
}

// What a container sends isn't for its subscription with no-local: through the same connection, another one, and behind what still waits.
func TestRow034NoLocal(t *testing.T) {
	topic, id := queueName(t), queueName(t)
	p, other := open(t, container(id)), open(t, container(id))
	s := p.begin()
	noLocal := func(a *amqp.Attach) {
		a.Source.Filter = amqp.Map{{Key: amqp.Symbol("no-local"), Value: &amqp.Described{Descriptor: amqp.FilterNoLocalCode, Value: amqp.List{}}}}
	}
	r, all := s.receiver(topic, onTopic(), noLocal), s.receiver(topic, onTopic())
	if got := r.attach.Source.Filter; len(got) != 1 {
		t.Errorf("the answer has the filters %v", got)
	}
	l, m := s.sender(topic, onTopic()), other.begin().sender(topic, onTopic())
	l.want(l.send(text("1")), &amqp.Accepted{})
	publish(t, topic, "2")
	m.want(m.send(text("3")), &amqp.Accepted{})
	publish(t, topic, "4")
	l.want(l.send(text("5")), &amqp.Accepted{})
	r.wantTexts("2", "4")
	all.wantTexts("1", "2", "3", "4", "5")
	l.want(l.send(text("6")), &amqp.Accepted{})
	r.wantTexts()
	p.close()
	other.close()
}

// A plain consumer of a topic gets what is sent while it is there, as does every other; without any nothing is kept.
func TestRow073PlainTopicConsumer(t *testing.T) {
	topic := queueName(t)
	publish(t, topic, "before")
	p := open(t)
	s := p.begin()
	a, b := s.receiver(topic, onTopic()), s.receiver(topic, onTopic())
	if got := a.attach.Source.Capabilities; len(got) != 1 || got[0] != amqp.CapTopic {
		t.Errorf("the answer has the capabilities %v", got)
	}
	publish(t, topic, "1", "2")
	a.wantTexts("1", "2")
	b.flow(1)
	s.settle(b.receive().wantText("1").id, &amqp.Released{})
	b.wantTexts("1", "2") // in its place again, and nobody else's
	a.detachNow(true)
	publish(t, topic, "3")
	b.wantTexts("3")
	again := s.receiver(topic, onTopic())
	again.wantTexts()
	p.close()
	q := open(t)
	c := q.begin().receiver(topic, onTopic())
	c.wantTexts()
	q.close()
}

// A durable subscription keeps what comes while nobody reads, behind a detach and the loss of a connection, with what was not settled.
func TestRow074DurableSubscription(t *testing.T) {
	topic, id := queueName(t), queueName(t)
	p := open(t, container(id))
	r := p.begin().receiver(topic, onTopic(), durable("sub"))
	if got := r.attach.Source; got.Durable != amqp.DurabilityUnsettledState || got.ExpiryPolicy != amqp.ExpiryNever {
		t.Errorf("the answer's source is %+v", got)
	}
	publish(t, topic, "1", "2")
	r.flow(2)
	m := r.receive().wantText("1")
	r.receive().wantText("2")
	r.s.settle(m.id, &amqp.Accepted{})
	r.detachNow(false)
	r.s.end()
	publish(t, topic, "3")
	s := p.begin()
	r = s.receiver(topic, onTopic(), durable("sub"))
	r.flow(1)
	r.receive().wantText("2")
	_ = p.nc.Close() // the client is lost
	publish(t, topic, "4")
	p = open(t, container(id))
	r = p.begin().receiver(topic, onTopic(), durable("sub"))
	r.wantTexts("2", "3", "4")
	r.detachNow(true) // which ends it
	publish(t, topic, "5")
	r = p.begin().receiver(topic, onTopic(), durable("sub"))
	r.wantTexts()
	p.close()
}

// Another topic or selector under a durable subscription's name makes it anew, unless somebody reads it.
func TestRow075Changed(t *testing.T) {
	topic, other, id := queueName(t), queueName(t), queueName(t)
	red := selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "colour = 'red'")
	p := open(t, container(id))
	s := p.begin()
	r := s.receiver(topic, onTopic(), durable("sub"))
	publish(t, topic, "1")
	q := open(t, container(id))
	a := receiverAttach(topic)
	onTopic()(a)
	durable("sub")(a)
	red(a)
	z := q.begin()
	z.refused(a, amqp.ErrCondResourceLocked)
	r.detachNow(false)
	s.end()
	changed := z.receiver(topic, onTopic(), durable("sub"), red)
	changed.wantTexts() // the old one's message is gone with it
	l := z.sender(topic, onTopic())
	for i, colour := range []string{"blue", "red"} {
		l.want(l.send(coloured(colour, fmt.Sprint(i))), &amqp.Accepted{})
	}
	changed.wantTexts("1")
	changed.detachNow(false)
	z.end()
	moved := q.begin().receiver(other, onTopic(), durable("sub"))
	publish(t, topic, "2")
	publish(t, other, "3")
	moved.wantTexts("3")
	p.close()
	q.close()
}

// asking is an attach without a source.
func asking(name string, capabilities ...amqp.Symbol) *amqp.Attach {
	a := amqp.NewAttach(name, amqp.RoleReceiver)
	a.Target, a.DesiredCapabilities = &amqp.Target{}, capabilities
	return a
}

// An attach without a source finds a durable subscription, and closing that link ends it; one that isn't there, or is read, is refused.
func TestRow076Unsubscribe(t *testing.T) {
	topic, id := queueName(t), queueName(t)
	p := open(t, container(id))
	s := p.begin()
	s.refused(asking("sub"), amqp.ErrCondNotFound)
	r := s.receiver(topic, onTopic(), durable("sub"))
	z := p.begin()
	z.refused(asking("other"), amqp.ErrCondNotFound)
	q := open(t, container(id))
	y := q.begin()
	y.refused(asking("sub"), amqp.ErrCondResourceLocked)
	stranger := open(t)
	stranger.begin().refused(asking("sub"), amqp.ErrCondNotFound)
	r.detachNow(false)
	s.end()
	publish(t, topic, "1")
	found := y.attached(asking("sub"))
	if got := found.attach.Source; got == nil || got.Address.V != topic || got.Durable == amqp.DurabilityNone || got.ExpiryPolicy != amqp.ExpiryNever {
		t.Fatalf("the answer's source is %+v", got)
	}
	found.flow(5)
	found.detachNow(true)
	y.refused(asking("sub"), amqp.ErrCondNotFound)
	y.receiver(topic, onTopic(), durable("sub")).wantTexts()
	p.close()
	q.close()
	stranger.close()
}

// Consumers of a shared durable subscription get each message once together; a global one is for every container.
func TestRow077SharedDurable(t *testing.T) {
	topic, id := queueName(t), queueName(t)
	p := open(t, container(id))
	s := p.begin()
	shared := onTopic(amqp.CapShared)
	a, b := s.receiver(topic, shared, durable("sub")), s.receiver(topic, shared, durable("sub|2"))
	global := onTopic(amqp.CapShared, amqp.CapGlobal)
	g := s.receiver(topic, global, durable("sub|global"))
	q := open(t)
	y := q.begin()
	h := y.receiver(topic, global, durable("sub|global2"))
	a.flow(1)
	b.flow(1)
	publish(t, topic, "1", "2")
	got := map[string]bool{}
	for range 2 {
		m := a.receive() // of either link
		got[m.text()] = true
		s.settle(m.id, &amqp.Accepted{})
	}
	if !got["1"] || !got["2"] {
		t.Errorf("the shared one got %v", got)
	}
	g.flow(1)
	s.settle(g.receive().wantText("1").id, &amqp.Accepted{})
	h.wantTexts("2")
	p.close() // and with it a, b and g
	publish(t, topic, "3")
	h.wantTexts("3")
	y.receiver(topic, shared, durable("sub")).wantTexts() // another container's
	p = open(t, container(id))
	s = p.begin()
	s.receiver(topic, shared, durable("sub")).wantTexts("3")
	p.close()
	q.close()
}

// A shared subscription that isn't durable goes with its last consumer.
func TestRow078SharedVolatile(t *testing.T) {
	topic := queueName(t)
	p := open(t)
	s := p.begin()
	shared := onTopic(amqp.CapShared)
	a, b := s.receiver(topic, shared, named("sub|volatile1")), s.receiver(topic, shared, named("sub|volatile2"))
	publish(t, topic, "1", "2")
	a.flow(1)
	s.settle(a.receive().wantText("1").id, &amqp.Accepted{})
	a.detachNow(true)
	publish(t, topic, "3")
	b.wantTexts("2", "3")
	b.detachNow(true)
	publish(t, topic, "4")
	s.receiver(topic, shared, named("sub|volatile3")).wantTexts()
	p.close()
}

// Who attaches an unshared durable subscription in another connection of its container takes it over; another container has another one.
func TestRow079TakenOver(t *testing.T) {
	topic, id := queueName(t), queueName(t)
	p, q, other := open(t, container(id)), open(t, container(id)), open(t)
	r := p.begin().receiver(topic, onTopic(), durable("sub"))
	others := other.begin().receiver(topic, onTopic(), durable("sub"))
	publish(t, topic, "1", "2")
	r.flow(1)
	r.receive().wantText("1")
	taken := q.begin().receiver(topic, onTopic(), durable("sub"))
	r.wantDetach(amqp.ErrCondStolen)
	taken.wantTexts("1", "2")
	others.wantTexts("1", "2")
	for _, x := range []*peer{p, q, other} {
		x.close()
	}
}
