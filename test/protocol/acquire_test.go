package protocol

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// deadline is the end of a test's patience from now.
func deadline() time.Time { return time.Now().Add(patience) }

// acquiring has a flow name the transaction in which messages are acquired.
func acquiring(txn []byte) func(*amqp.Flow) {
	return func(f *amqp.Flow) {
		f.Properties = amqp.Map{{Key: amqp.Symbol("txn-id"), Value: txn}}
	}
}

// acquires receives a message that is acquired in a transaction.
func (l *link) acquires(txn []byte, want string) message {
	l.s.p.t.Helper()
	m := l.receive().wantText(want)
	state, ok := m.state.(*amqp.TransactionalState)
	if !ok || !bytes.Equal(state.TxnID, txn) || state.Outcome != nil || m.settled {
		l.s.p.t.Fatalf("%q comes with state %+v, settled %v", want, m.state, m.settled)
	}
	return m
}

// Acquired, retired and committed: consumed. The id holds until the discharge, the credit longer; what comes then is plain.
// Rows T18, T19.
func TestRow100AcquireAndCommit(t *testing.T) {
	q := filled(t, "1", "2", "3", "4")
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.receiver(q)
	txn := c.declare()
	l.flow(1, acquiring(txn))
	s.settle(l.acquires(txn, "1").id, of(txn, &amqp.Accepted{}))
	l.flow(2)
	kept := l.acquires(txn, "2")
	s.settle(l.acquires(txn, "3").id, of(txn, &amqp.Accepted{}), unsettled)
	if done := c.discharged(txn); len(done) != 1 {
		t.Fatalf("settled by us on commit: %+v", done)
	}
	l.flow(1)
	m := l.receive().wantText("4")
	if m.state != nil {
		t.Errorf("behind the discharge a message comes with %+v", m.state)
	}
	s.settle(m.id, &amqp.Accepted{})
	s.settle(kept.id, &amqp.Released{})
	p.quiet()
	eventually(t, q, "2")
	wantQueue(t, q)
}

// A rollback undoes the acquisition: settled, disposed of or untouched, the message goes back, and the receiver hears it.
// Rows T18.
func TestRow100AcquireAndRollback(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.receiver(q)
	txn := c.declare()
	l.flow(3, acquiring(txn))
	settled := l.acquires(txn, "1")
	disposed, untouched := l.acquires(txn, "2"), l.acquires(txn, "3")
	s.settle(settled.id, of(txn, &amqp.Accepted{}))
	s.settle(disposed.id, of(txn, &amqp.Accepted{}), unsettled)
	id := c.sendDischarge(txn, true)
	released := map[uint32]bool{}
	for {
		d := expect[*amqp.Disposition](p)
		if d.Role == amqp.RoleReceiver {
			if _, ok := d.State.(*amqp.Accepted); !ok || d.First != id {
				t.Fatalf("the discharge: %+v", d)
			}
			break
		}
		if _, ok := d.State.(*amqp.Released); !ok || !d.Settled {
			t.Fatalf("got %+v", d)
		}
		for i := d.First; i <= d.Last.Or(d.First); i++ {
			released[i] = true
		}
	}
	if len(released) != 2 || !released[disposed.id] || !released[untouched.id] {
		t.Errorf("released %v, want %d and %d", released, disposed.id, untouched.id)
	}
	for _, m := range eventually(t, q, "1", "2", "3") {
		if n := m.header().DeliveryCount; n != 1 {
			t.Errorf("%s has count %d", m.text(), n)
		}
	}
	p.quiet()
}

// An empty transaction that only acquired: rolled back all the same.
// Rows T18.
func TestRow100NothingRetired(t *testing.T) {
	q := filled(t, "1")
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.receiver(q)
	txn := c.declare()
	l.flow(1, acquiring(txn))
	l.acquires(txn, "1")
	id := c.sendDischarge(txn, true)
	var last uint32
	for range 2 {
		last = expect[*amqp.Disposition](p).First
	}
	if last != id {
		t.Error("the discharge is answered before the message is let go of")
	}
	eventually(t, q, "1")
	p.quiet()
}

// A message that is sent in part at the rollback is called off before the discharge is answered.
// Rows T18.
func TestRow100PartAtTheRollback(t *testing.T) {
	large := strings.Repeat("x", 3000)
	q := filled(t, large)
	p := open(t, func(o *amqp.Open) { o.MaxFrameSize = 512 })
	s := p.begin()
	c, l := s.coordinator(), s.receiver(q)
	txn := c.declare()
	s.incomingLimit = 2
	l.flow(1, acquiring(txn))
	for range 2 {
		_, body, _ := p.next()
		if x, ok := body.(*amqp.Transfer); !ok || !x.More || x.State == nil {
			t.Fatalf("got %s %+v", amqp.NameOf(body), body)
		}
	}
	s.incomingLimit = 1
	c.s.send(s.flowFrame())
	c.sendDischarge(txn, true)
	aborted := false
	for {
		_, body, _ := p.next()
		if x, ok := body.(*amqp.Transfer); ok {
			aborted = aborted || x.Aborted
		}
		if x, ok := body.(*amqp.Disposition); ok && x.Role == amqp.RoleReceiver {
			break
		}
	}
	if !aborted {
		s.incomingLimit = 100
		s.send(s.flowFrame())
		if _, body, _ := p.next(); !body.(*amqp.Transfer).Aborted {
			t.Errorf("got %s %+v, want an aborted transfer", amqp.NameOf(body), body)
		}
	}
	eventually(t, q, large)
	p.quiet()
}

// What one transaction acquired can't be retired in another, nor outside of it.
// Rows 98, T14.
func TestRowT14AcquiredElsewhere(t *testing.T) {
	q := filled(t, "1")
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.receiver(q)
	one, two := c.declare(), c.declare()
	l.flow(1, acquiring(one))
	s.settle(l.acquires(one, "1").id, of(two, &amqp.Accepted{}))
	c.wantDetach(amqp.ErrCondTransactionRollback)
	givesBack(t, p, q)

	q = filled(t, "1")
	p = open(t)
	s = p.begin()
	c, l = s.coordinator(), s.receiver(q)
	one = c.declare()
	l.flow(1, acquiring(one))
	s.settle(l.acquires(one, "1").id, &amqp.Accepted{})
	c.wantRejected(c.sendDischarge(one, false), amqp.ErrCondTransactionRollback)
	givesBack(t, p, q)
}

// givesBack closes a connection and waits for the one message that it gives back.
func givesBack(t *testing.T, p *peer, q string) {
	t.Helper()
	p.close()
	eventually(t, q, "1")
}

// A transaction of 10,000 operations is committed; one more and it is too large, which its commit hears.
func TestRow101LargeTransactions(t *testing.T) {
	for _, n := range []int{10_000, 10_001} {
		q := queueName(t)
		p := open(t)
		s := p.begin()
		c, l := s.coordinator(), s.sender(q)
		txn := c.declare()
		for i := range n {
			l.send(text(fmt.Sprint(i)), in(txn), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
			if i%100 == 99 { // the node has seen them all; it may take its time to top the credit up
				_ = p.nc.SetDeadline(deadline())
				for f := echo(l); int32(f.DeliveryCount.V+f.LinkCredit.V-l.count) < 100; f = echo(l) {
				}
			}
		}
		if n > 10_000 {
			c.wantRejected(c.sendDischarge(txn, false), amqp.ErrCondTransactionRollback, amqp.ErrCondResourceLimitExceeded)
			p.quiet()
			wantQueue(t, q)
			continue
		}
		c.commit(txn)
		p.quiet()
		if got := len(takeAll(t, q)); got != 1000 {
			t.Fatalf("the first 1,000 of the queue are %d", got)
		}
	}
}
