package protocol

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// got attaches a receiver with credit and takes as many messages as texts, in their order.
func (s *session) got(queue string, texts ...string) (l *link, all []message) {
	s.p.t.Helper()
	l = s.receiver(queue)
	l.flow(uint32(len(texts)))
	for _, want := range texts {
		all = append(all, l.receive().wantText(want))
	}
	return l, all
}

// delivery-count is 0 at first, rises with each failure, and doesn't with what is released or closed in order.
func TestRow050DeliveryCount(t *testing.T) {
	q := filled(t, "x")
	p := open(t)
	s := p.begin()
	l := s.receiver(q)
	take := func(count uint32, first bool) message {
		t.Helper()
		l.flow(1)
		m := l.receive()
		if h := m.header(); h.DeliveryCount != count || h.FirstAcquirer != first {
			t.Fatalf("the header is %+v, want count %d and first-acquirer %v", h, count, first)
		}
		return m
	}
	s.settle(take(0, true).id, &amqp.Released{})
	s.settle(take(0, false).id, &amqp.Modified{DeliveryFailed: true})
	s.settle(take(1, false).id, &amqp.Modified{})
	take(1, false)
	l.detach(true)
	l = s.receiver(q)
	take(1, false)
	_ = p.nc.Close() // the connection is lost with the message in hand
	p = open(t)
	s = p.begin()
	l = s.receiver(q)
	s.settle(take(2, false).id, &amqp.Accepted{})
	p.quiet()
}

// accepted removes; a range settles what it covers and is unsettled; what is settled already, or was never there, is ignored.
func TestRow065Accepted(t *testing.T) {
	q := filled(t, "1", "2", "3", "4", "5")
	p := open(t)
	s := p.begin()
	_, ms := s.got(q, "1", "2", "3", "4", "5")
	through := func(last uint32) func(*amqp.Disposition) {
		return func(d *amqp.Disposition) { d.Last = amqp.Some(last) }
	}
	s.settle(ms[1].id, &amqp.Accepted{})
	s.settle(ms[0].id, &amqp.Accepted{}, through(ms[3].id))
	s.settle(ms[0].id, &amqp.Released{}, through(ms[3].id))
	s.settle(ms[4].id+100, &amqp.Accepted{}, through(ms[4].id+1<<20))
	p.close()
	wantQueue(t, q, "5")
}

// rejected goes to the dead letters, released back to its place, modified too; undeliverable-here isn't seen again on that
// link; annotations are merged.
func TestRow066Outcomes(t *testing.T) {
	q := filled(t, "1", "2", "3", "4")
	p := open(t)
	s := p.begin()
	l, ms := s.got(q, "1", "2", "3", "4")
	s.settle(ms[3].id, &amqp.Modified{MessageAnnotations: amqp.Map{{Key: amqp.Symbol("x-opt-why"), Value: "because"}}})
	s.settle(ms[2].id, &amqp.Modified{UndeliverableHere: true})
	s.settle(ms[1].id, &amqp.Released{})
	s.settle(ms[0].id, &amqp.Rejected{Error: &amqp.Error{Condition: "test:no", Description: "not this one"}})
	l.flow(4)
	l.receive().wantText("2")
	m := l.receive().wantText("4")
	notes, err := amqp.DecodeMessageAnnotations(m.sections().MessageAnnotations, amqp.Limits{})
	if v, _ := notes.Lookup("x-opt-why"); err != nil || v != "because" {
		t.Errorf("the annotations are %+v, %v", notes, err)
	}
	echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(0)) }) // no third comes
	p.close()
	eventually(t, q, "2", "3", "4")
	wantQueue(t, q)
}

// A receiver that settles second: it says what it thinks, we apply that and settle, and then it settles; or it settles at once.
func TestRow068SettlesSecond(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	l := s.receiver(q, func(a *amqp.Attach) { a.ReceiverSettleMode = amqp.ReceiverSettleSecond })
	for i := range 2 {
		l.flow(1)
		m := l.receive().wantText(fmt.Sprint(i + 1))
		outcome := []amqp.DeliveryState{&amqp.Accepted{}, &amqp.Rejected{}}[i]
		s.settle(m.id, outcome, unsettled)
		d := expect[*amqp.Disposition](p)
		if d.Role != amqp.RoleSender || d.First != m.id || !d.Settled || fmt.Sprintf("%T", d.State) != fmt.Sprintf("%T", outcome) {
			t.Fatalf("got %+v, want the settled %T of %d", d, outcome, m.id)
		}
		s.settle(m.id, outcome)
	}
	l.flow(1)
	s.settle(l.receive().wantText("3").id, &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q)
}

// Behind a closing detach a disposition means nothing; behind a detach without closed it settles, until the session ends.
func TestRow069DispositionBehindDetach(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	l, ms := s.got(q, "1")
	l.detach(true)
	s.settle(ms[0].id, &amqp.Accepted{})
	l, ms = s.got(q, "1", "2")
	l.detach(false)
	s.settle(ms[1].id, &amqp.Accepted{})
	echoSession(s)
	p.close()
	wantQueue(t, q, "1", "3")
}

// The same in a transaction: what was received on a detached link is consumed by its commit.
func TestRow069TransactedBehindDetach(t *testing.T) {
	q := filled(t, "1", "2")
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	l, ms := s.got(q, "1", "2")
	l.detach(false)
	s.settle(ms[0].id, of(txn, &amqp.Accepted{}), unsettled)
	c.discharged(txn)
	p.close()
	eventually(t, q, "2")
	wantQueue(t, q)
}

// discharged commits a transaction whose unsettled deliveries we settle: dispositions of theirs may come before the answer.
func (c *control) discharged(txn []byte) (settled []*amqp.Disposition) {
	c.s.p.t.Helper()
	id := c.sendDischarge(txn, false)
	for {
		d := expect[*amqp.Disposition](c.s.p)
		if d.Role == amqp.RoleSender {
			settled = append(settled, d)
			continue
		}
		if _, ok := d.State.(*amqp.Accepted); !ok || d.First != id {
			c.s.p.t.Fatalf("the discharge is answered %+v", d)
		}
		return settled
	}
}

// Settled without a state: the default outcome of the source takes effect.
func TestRow070DefaultOutcome(t *testing.T) {
	q := filled(t, "x")
	p := open(t)
	s := p.begin()
	l := s.receiver(q, func(a *amqp.Attach) { a.Source.DefaultOutcome = &amqp.Modified{DeliveryFailed: true} })
	l.flow(1)
	s.settle(l.receive().id, nil)
	l.flow(1)
	m := l.receive()
	if n := m.header().DeliveryCount; n != 1 {
		t.Errorf("count %d", n)
	}
	s.settle(m.id, nil)
	l.detach(true)
	l = s.receiver(q, func(a *amqp.Attach) { a.Source.DefaultOutcome = &amqp.Accepted{} })
	l.flow(1)
	s.settle(l.receive().id, nil)
	p.close()
	wantQueue(t, q)
}

// Two consumers of a queue never have the same message at a time.
func TestRow071CompetingConsumers(t *testing.T) {
	const n = 60
	q := queueName(t)
	a, b := open(t), open(t)
	la, lb := a.begin().receiver(q), b.begin().receiver(q)
	la.flow(n / 2)
	lb.flow(n / 2)
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	put(t, q, all...)
	seen := map[string]bool{}
	for _, l := range []*link{la, lb} {
		for range n / 2 {
			m := l.receive()
			if seen[m.text()] {
				t.Fatalf("%s came twice", m.text())
			}
			seen[m.text()] = true
		}
	}
	a.quiet()
	b.quiet()
}
