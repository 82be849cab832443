package protocol

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// copying makes a receiver a browser.
func copying(a *amqp.Attach) { a.Source.DistributionMode = amqp.DistributionCopy }

// sendsSettled asks for copies that need no settlement, as Qpid JMS does.
func sendsSettled(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleSettled }

// sendsUnsettled asks for copies that are to be settled.
func sendsUnsettled(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleUnsettled }

func draining(f *amqp.Flow) { f.Drain = true }

// wantEmptied waits for the flow that gives the credit of a drain back.
func (l *link) wantEmptied() {
	l.s.p.t.Helper()
	for {
		f := expect[*amqp.Flow](l.s.p)
		if f.Handle != amqp.Some(l.attach.Handle) {
			continue
		}
		if f.LinkCredit.V != 0 || !f.Drain {
			l.s.p.t.Fatalf("the answer to a drain is %+v", f)
		}
		l.count = f.DeliveryCount.V
		return
	}
}

// A browser of Qpid JMS: settled, with credit for more than there is, and a drain that ends the enumeration; then what came meanwhile.
func TestRow072BrowseAndDrain(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	l := s.receiver(q, copying, sendsSettled)
	if m := l.attach.Source.DistributionMode; m != amqp.DistributionCopy {
		t.Errorf("the answer's distribution-mode is %q", m)
	}
	l.flow(1000)
	for _, want := range []string{"1", "2", "3"} {
		if m := l.receive().wantText(want); !m.settled || m.header().DeliveryCount != 0 {
			t.Errorf("%q comes settled %v with the header %+v", want, m.settled, m.header())
		}
	}
	l.flow(997, draining)
	l.wantEmptied()
	other := open(t)
	from := other.begin().sender(q)
	from.want(from.send(text("4")), &amqp.Accepted{})
	l.flow(1000, draining)
	l.receive().wantText("4")
	l.wantEmptied()
	l.flow(1000)
	from.want(from.send(text("5")), &amqp.Accepted{})
	l.receive().wantText("5") // at the end, without being asked
	p.quiet()
	wantQueue(t, q, "1", "2", "3", "4", "5")
}

// Whatever a receiver says of a copy, it does nothing; what is said unsettled is settled by us.
func TestRow072DispositionsDoNothing(t *testing.T) {
	for _, state := range []amqp.DeliveryState{
		&amqp.Accepted{}, &amqp.Rejected{}, &amqp.Released{}, &amqp.Modified{DeliveryFailed: true, UndeliverableHere: true}, nil,
	} {
		q := filled(t, "1", "2")
		p := open(t)
		s := p.begin()
		l := s.receiver(q, copying, sendsUnsettled)
		l.flow(2)
		first, second := l.receive().wantText("1"), l.receive().wantText("2")
		if first.settled || len(first.tag) == 20 || string(first.tag) == string(second.tag) {
			t.Errorf("settled %v, tags %x and %x", first.settled, first.tag, second.tag)
		}
		s.settle(first.id, state)
		if state != nil {
			s.settle(second.id, state, unsettled)
			if d := expect[*amqp.Disposition](p); !d.Settled || d.First != second.id {
				t.Errorf("our answer to %T is %+v", state, d)
			}
		}
		p.quiet()
		r := open(t)
		rl := r.begin().receiver(q)
		rl.flow(2)
		for _, want := range []string{"1", "2"} {
			if m := rl.receive().wantText(want); m.header().DeliveryCount != 0 {
				t.Errorf("behind %T: %+v", state, m.header())
			}
		}
		r.quiet()
	}
}

// A copy isn't of a transaction, whatever is said of it: the commit counts nothing, and the message stays.
func TestRow072BrowseInTransaction(t *testing.T) {
	q := filled(t, "1")
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	l := s.receiver(q, copying, sendsUnsettled)
	l.flow(1)
	s.settle(l.receive().wantText("1").id, of(txn, &amqp.Accepted{}))
	c.discharged(txn)
	l.flow(1, acquiring([]byte("none")))
	l.wantDetach(amqp.ErrCondTransactionUnknownID)
	again := s.receiver(q, copying)
	again.flow(1, acquiring(c.declare()))
	again.wantDetach(amqp.ErrCondNotAllowed)
	p.quiet()
	wantQueue(t, q, "1")
}

// Messages that others hold are in the queue and seen; nothing is taken from others; and what they consume meanwhile isn't seen any more.
func TestRow072BrowseBesideConsumers(t *testing.T) {
	q := filled(t, "1", "2", "3")
	consumer := open(t)
	cs := consumer.begin()
	cl := cs.receiver(q)
	cl.flow(2)
	cl.receive().wantText("1")
	two := cl.receive().wantText("2")
	p := open(t)
	s := p.begin()
	l := s.receiver(q, copying)
	l.flow(1)
	l.receive().wantText("1")
	cs.settle(two.id, &amqp.Accepted{}, unsettled)
	expect[*amqp.Disposition](consumer) // it is applied
	consumer.close()                    // the first message goes back, behind the browser
	l.flow(10, draining)
	l.receive().wantText("3")
	l.wantEmptied()
	p.quiet()
	eventually(t, q, "1", "3")
	wantQueue(t, q)
}

// Credit, the session's window and frames of 512 bytes hold for copies as for all deliveries.
func TestRow072BrowseWithinBounds(t *testing.T) {
	const n = 40
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%0700d", i)
	}
	q := filled(t, texts...)
	p := open(t, func(o *amqp.Open) { o.MaxFrameSize = 512 })
	s := p.begin(func(b *amqp.Begin) { b.IncomingWindow = 4 })
	l := s.receiver(q, copying, sendsSettled)
	for i, want := range texts {
		l.flow(1)
		if m := l.receive().wantText(want); m.frames < 2 {
			t.Fatalf("message %d in %d frames", i, m.frames)
		}
	}
	l.flow(3, draining)
	l.wantEmptied()
	p.quiet()
	wantQueue(t, q, texts...)
}

// A selector says what a browser sees; a bad one refuses it.
func TestRow072BrowseWithSelector(t *testing.T) {
	q := redAndBlue(t)
	p := open(t)
	s := p.begin()
	l := s.receiver(q, copying, sendsSettled, selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "colour = 'blue'"))
	l.flow(10, draining)
	for _, want := range []string{"1", "3", "5"} {
		l.receive().wantText(want)
	}
	l.wantEmptied()
	bad := receiverAttach(q)
	copying(bad)
	selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "colour =")(bad)
	s.refused(bad, amqp.ErrCondInvalidField)
	p.quiet()
	wantQueue(t, q, "0", "1", "2", "3", "4", "5")
}

// A queue that isn't there is made, as for any receiver, and what comes into it is seen.
func TestRow072BrowseANewQueue(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	l := s.receiver(q, copying)
	l.flow(10, draining)
	l.wantEmptied()
	l.flow(10)
	other := open(t)
	from := other.begin().sender(q)
	from.want(from.send(text("1")), &amqp.Accepted{})
	l.receive().wantText("1")
	if l.detach(false).Error != nil {
		t.Error("detached with an error")
	}
	again := s.receiver(q, copying)
	again.flow(10)
	again.receive().wantText("1")
	again.detach(true)
	p.quiet()
	wantQueue(t, q, "1")
}
