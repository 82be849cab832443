package protocol

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// drain asks for a drain with so much credit.
func drain(credit uint32) func(*amqp.Flow) {
	return func(f *amqp.Flow) { f.LinkCredit, f.Drain = amqp.Some(credit), true }
}

// wantDrained waits for the end of a drain: all credit back.
func (l *link) wantDrained(count uint32) {
	l.s.p.t.Helper()
	_, body, _ := l.s.p.next()
	f, ok := body.(*amqp.Flow)
	if !ok || f.Handle != amqp.Some(l.attach.Handle) || !f.Drain || f.LinkCredit != amqp.Some(uint32(0)) || f.DeliveryCount != amqp.Some(count) {
		l.s.p.t.Fatalf("the end of the drain: %s %+v, want count %d and credit 0", amqp.NameOf(body), body, count)
	}
	l.count = count
}

// Never more than the credit, which is told relative to a delivery-count: an older count means that what was sent since is
// part of the grant.
func TestRow041Credit(t *testing.T) {
	q := filled(t, "1", "2", "3", "4", "5")
	p := open(t)
	s := p.begin()
	l := s.receiver(q)
	before := l.count
	l.flow(2)
	l.receive().wantText("1")
	l.receive().wantText("2")
	echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) }) // nothing came before the answer
	l.flow(3, func(f *amqp.Flow) { f.DeliveryCount = amqp.Some(before) })
	l.receive().wantText("3")
	if x := echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) }); x.DeliveryCount != amqp.Some(l.count) {
		t.Fatalf("the node counts %+v, the peer %d", x.DeliveryCount, l.count)
	}
	l.flow(1, func(f *amqp.Flow) { f.DeliveryCount = amqp.Some(before); f.LinkCredit = amqp.Some(uint32(3)) }) // used up
	echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) })
	p.quiet()
}

// Drain of an empty queue: a flow at once, with the delivery-count advanced by the whole credit.
func TestRow042DrainOfAnEmptyQueue(t *testing.T) {
	p := open(t)
	l := p.begin().receiver(queueName(t))
	l.flow(10, drain(10))
	l.wantDrained(l.count + 10)
	l.flow(1, drain(1))
	l.wantDrained(l.count + 1)
	l.flow(0, drain(0)) // go-amqp drains so: there is nothing to give back, and an answer is due all the same
	l.wantDrained(l.count)
	p.quiet()
}

// Credit that was granted before, and then a drain of it.
func TestRow042DrainOfFormerCredit(t *testing.T) {
	q := queueName(t)
	p := open(t)
	l := p.begin().receiver(q)
	l.flow(5)
	put(t, q, "1")
	m := l.receive().wantText("1")
	l.s.settle(m.id, &amqp.Accepted{})
	l.flow(4, drain(4))
	l.wantDrained(l.count + 4)
	p.quiet()
}

// Drain with fewer messages than credit: those first, then the flow.
func TestRow043DrainWithMessages(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	l := p.begin().receiver(q)
	l.flow(5, drain(5))
	for i := range 3 {
		l.receive().wantText(fmt.Sprint(i + 1))
	}
	l.wantDrained(l.count + 2)
	p.quiet()
}

// Credit of 0 stops the link; later credit goes on where it was.
func TestRow044Stop(t *testing.T) {
	q := queueName(t)
	p := open(t)
	l := p.begin().receiver(q)
	l.flow(5)
	put(t, q, "1")
	l.receive().wantText("1")
	echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) })
	put(t, q, "2", "3")
	echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) })
	l.flow(5)
	l.receive().wantText("2")
	l.receive().wantText("3")
	p.quiet()
}

// One credit with drain brings a message as long as the queue has one, also one that was accepted just now elsewhere.
func TestRow045ReceiveWithoutWaiting(t *testing.T) {
	q := queueName(t)
	p, other := open(t), open(t)
	l, out := p.begin().receiver(q), other.begin().sender(q)
	for i := range 50 {
		want := fmt.Sprint(i)
		out.want(out.send(text(want)), &amqp.Accepted{})
		l.flow(1, drain(1))
		m := l.receive().wantText(want)
		l.s.settle(m.id, &amqp.Accepted{})
		if i%2 == 0 {
			l.flow(1, drain(1))
			for { // the answer to the first drain, whose credit was used, may be there or not
				_, body, _ := p.next()
				f, ok := body.(*amqp.Flow)
				if !ok {
					t.Fatalf("got %s %+v from an empty queue", amqp.NameOf(body), body)
				}
				if f.DeliveryCount == amqp.Some(l.count+1) {
					l.count++
					break
				}
			}
		}
	}
	p.quiet()
	other.quiet()
}

// A sender gets credit with the attach, and more before that is used up.
func TestRow046SendersCredit(t *testing.T) {
	p := open(t)
	s := p.begin()
	l := s.attached(senderAttach(queueName(t)))
	f := expect[*amqp.Flow](p)
	if f.Handle != amqp.Some(l.attach.Handle) || f.LinkCredit.V < 2 {
		t.Fatalf("the first flow: %+v", f)
	}
	granted, x := f.LinkCredit.V, f
	for sent := uint32(1); sent <= 3*granted; sent++ {
		for x.DeliveryCount.V+x.LinkCredit.V-l.count == 0 {
			x = expect[*amqp.Flow](p)
		}
		l.send(text("x"), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
	}
	p.quiet()
}
