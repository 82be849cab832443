package protocol

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// The coordinator's answer has its actual capabilities, and its credit lasts for 10,000 transactions.
// Rows T1.
func TestRow080Coordinator(t *testing.T) {
	p := open(t)
	c := p.begin().coordinator()
	got := fmt.Sprint(c.attach.Coordinator.Capabilities)
	if want := fmt.Sprint([]amqp.Symbol{amqp.CapLocalTransactions, amqp.CapMultiTxnsPerSession, amqp.CapMultiSessionsPerTxn}); got != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
	_ = c.declare()
	for i := range 10_000 {
		if i%100 == 0 {
			_ = p.nc.SetDeadline(deadline())
		}
		c.commit(c.declare())
	}
	p.quiet()
}

// Declare by its numeric and its symbolic descriptor, with a null in its list, with other sections around it; the ids have at most
// 32 octets and none comes twice.
// Rows T2, T3.
func TestRow081Declare(t *testing.T) {
	p := open(t)
	c := p.begin().coordinator()
	head := amqp.AppendHeader(nil, &amqp.Header{Durable: true, Priority: 4})
	seen := map[string]bool{}
	for name, payload := range map[string][]byte{
		"as Qpid JMS":      {0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45},
		"list8, null":      {0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0xc0, 2, 1, 0x40},
		"symbolic, null":   append(append([]byte{0x00, 0x53, 0x77, 0x00, 0xa3, 17}, "amqp:declare:list"...), 0xc0, 2, 1, 0x40),
		"symbolic section": append(append([]byte{0x00, 0xa3, 17}, "amqp:amqp-value:*"...), 0x00, 0x53, 0x31, 0x45),
		"with sections":    append(append(head, amqp.AppendProperties(nil, &amqp.Properties{Subject: "s"})...), 0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45),
	} {
		d := c.want(c.send(payload), &amqp.Declared{}).(*amqp.Declared)
		if n := len(d.TxnID); n == 0 || n > 32 || seen[string(d.TxnID)] {
			t.Errorf("%s: id %x", name, d.TxnID)
		}
		seen[string(d.TxnID)] = true
		c.commit(bytes.Clone(d.TxnID))
	}
	for range 100 {
		id := string(c.declare())
		if seen[id] {
			t.Fatalf("id %x again", id)
		}
		seen[id] = true
		c.rollback([]byte(id))
	}
	p.quiet()
}

// A discharge and a declare in one write are both answered, as often as one likes.
func TestRow082Pipelined(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.sender(q)
	txn := c.declare()
	for i := range 20 {
		l.send(text(fmt.Sprint(i)), in(txn), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
		first := c.sendDischarge(txn, i%2 == 1)
		second := c.send(amqp.AppendAMQPValue(nil, &amqp.Declare{}))
		answered := map[uint32]amqp.DeliveryState{}
		for len(answered) < 2 {
			d := expect[*amqp.Disposition](p)
			if !d.Settled {
				t.Fatalf("not settled: %+v", d)
			}
			answered[d.First] = d.State
		}
		if _, ok := answered[first].(*amqp.Accepted); !ok {
			t.Fatalf("the discharge: %+v", answered[first])
		}
		txn = bytes.Clone(answered[second].(*amqp.Declared).TxnID)
	}
	p.quiet()
	wantQueue(t, q, "0", "2", "4", "6", "8", "10", "12", "14", "16", "18")
}

// A declare or discharge that is sent settled detaches the control link with an error.
// Rows T2.
func TestRow083PreSettled(t *testing.T) {
	settled := func(x *amqp.Transfer) { x.Settled = amqp.Some(true) }
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	c.send(amqp.AppendAMQPValue(nil, &amqp.Declare{}), settled)
	c.wantDetach()
	c = s.coordinator()
	txn := c.declare()
	c.send(amqp.AppendAMQPValue(nil, &amqp.Discharge{TxnID: txn}), settled)
	c.wantDetach()
	p.quiet()
}

// global-id is refused, by a rejection or a detach as the source says.
// Rows T4, T5.
func TestRow084GlobalID(t *testing.T) {
	p := open(t)
	s := p.begin()
	declare := amqp.AppendAMQPValue(nil, &amqp.Declare{GlobalID: []byte("x")})
	c := s.coordinator(amqp.OutcomeAccepted, amqp.OutcomeRejected)
	c.wantRejected(c.send(declare), amqp.ErrCondNotImplemented, amqp.ErrCondInvalidField)
	c = s.coordinator(amqp.OutcomeAccepted)
	c.send(declare)
	c.wantDetach(amqp.ErrCondNotImplemented, amqp.ErrCondInvalidField)
	p.quiet()
}

// What is no declare and no discharge, and work on the control link itself.
// Rows T2, T4.
func TestRowT08ControlLinkOnly(t *testing.T) {
	p := open(t)
	c := p.begin().coordinator()
	txn := c.declare()
	for name, payload := range map[string][]byte{
		"a text": text("x"), "data": amqp.AppendData(nil, []byte("x")), "no body": amqp.AppendProperties(nil, &amqp.Properties{Subject: "s"}),
		"another described": amqp.AppendAMQPValue(nil, &amqp.Described{Descriptor: uint64(0x99), Value: amqp.List{}}),
	} {
		if c.wantRejected(c.send(payload)); t.Failed() {
			t.Fatal(name)
		}
	}
	c.wantRejected(c.send(amqp.AppendAMQPValue(nil, &amqp.Declare{}), in(txn)))
	c.commit(txn)
	p.quiet()
}

// Sends over several links to several queues become visible together, and none before; each is answered within the transaction before
// the discharge is.
// Rows 86, T9, T19.
func TestRow085CommittedTogether(t *testing.T) {
	a, b := queueName(t), queueName(t)
	p := open(t)
	s, other := p.begin(), p.begin()
	c := s.coordinator()
	txn := c.declare()
	la, lb, relay := s.sender(a), other.sender(b), s.sender("")
	la.post(txn, "1")
	lb.post(txn, "2")
	state := relay.want(relay.send(addressed(a, "3"), in(txn)), &amqp.TransactionalState{}).(*amqp.TransactionalState)
	if _, ok := state.Outcome.(*amqp.Accepted); !ok || !bytes.Equal(state.TxnID, txn) {
		t.Fatalf("the relay answers %+v", state)
	}
	wantQueue(t, a)
	wantQueue(t, b)
	c.commit(txn)
	wantQueue(t, a, "1", "3")
	wantQueue(t, b, "2")
	p.quiet()
}

// A delivery of several frames in a transaction, of which each frame, or the first alone, names it.
func TestRowT09SeveralFrames(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.sender(q)
	txn := c.declare()
	for i, later := range []amqp.DeliveryState{of(txn, nil), nil} {
		payload := text(fmt.Sprint("message ", i))
		x := l.transfer()
		x.More, x.State = true, of(txn, nil)
		l.put(x, payload[:4])
		l.put(&amqp.Transfer{Handle: l.handle, State: later}, payload[4:])
		l.want(x.DeliveryID.V, &amqp.TransactionalState{})
	}
	wantQueue(t, q)
	c.commit(txn)
	p.quiet()
	wantQueue(t, q, "message 0", "message 1")
}

// A sender whose receiver settles second hears of the outcome within the transaction and settles; the commit counts it.
// Rows T9, T17.
func TestRow086SettlesSecond(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	l := s.sender(q, func(a *amqp.Attach) { a.ReceiverSettleMode = amqp.ReceiverSettleSecond })
	txn := c.declare()
	for i := range 2 {
		id := l.send(text(fmt.Sprint(i)), in(txn))
		d := expect[*amqp.Disposition](p)
		state, ok := d.State.(*amqp.TransactionalState)
		if !ok || d.Settled || d.First != id {
			t.Fatalf("answered %+v", d)
		}
		if _, ok := state.Outcome.(*amqp.Accepted); !ok {
			t.Fatalf("the outcome is %+v", state.Outcome)
		}
		if i == 0 {
			s.send(&amqp.Disposition{Role: amqp.RoleSender, First: id, Settled: true, State: state})
		}
	}
	l.detach(true)
	c.commit(txn)
	p.quiet()
	wantQueue(t, q, "0", "1")
}

// Rollback: sends vanish, what was settled returns to its place with its count raised, prefetched messages that are released
// afterwards stand behind it in their order.
// Rows 89, T6, T15.
func TestRow088Rollback(t *testing.T) {
	q, other := filled(t, "1", "2", "3", "4"), queueName(t)
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	l, ms := s.got(q, "1", "2", "3", "4")
	s.sender(other).post(txn, "never")
	s.settle(ms[0].id, of(txn, &amqp.Accepted{}))
	s.settle(ms[1].id, of(txn, &amqp.Accepted{}))
	c.rollback(txn)
	s.settle(ms[3].id, &amqp.Released{})
	s.settle(ms[2].id, &amqp.Released{})
	l.flow(4)
	for i, count := range []uint32{1, 1, 0, 0} {
		m := l.receive().wantText(fmt.Sprint(i + 1))
		if h := m.header(); h.DeliveryCount != count || h.FirstAcquirer {
			t.Errorf("%d comes with %+v, want count %d", i+1, h, count)
		}
	}
	p.quiet()
	wantQueue(t, other)
}

// Outcomes that are not settled: on commit we settle them with what was applied; rolled back they stay with the receiver, which may
// use them anew, in another transaction too.
// Rows T13, T16, T17.
func TestRow090UnsettledOutcomes(t *testing.T) {
	q := filled(t, "1", "2")
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	_, ms := s.got(q, "1", "2")
	txn := c.declare()
	s.settle(ms[0].id, of(txn, &amqp.Accepted{}), unsettled)
	s.settle(ms[1].id, of(txn, &amqp.Accepted{}), unsettled)
	c.rollback(txn) // nothing else comes
	txn = c.declare()
	s.settle(ms[0].id, of(txn, &amqp.Accepted{}), unsettled)
	done := c.discharged(txn)
	if len(done) != 1 || done[0].First != ms[0].id || !done[0].Settled {
		t.Fatalf("settled on commit: %+v", done)
	}
	if _, ok := done[0].State.(*amqp.Accepted); !ok {
		t.Errorf("the state is %+v", done[0].State)
	}
	s.settle(ms[1].id, &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q)
}

// released, modified and rejected within a transaction take effect on commit, and not on rollback.
// Rows T13.
func TestRow091OtherOutcomes(t *testing.T) {
	q := filled(t, "1", "2", "3")
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	for _, commit := range []bool{false, true} {
		l, ms := s.got(q, "1", "2", "3")
		txn := c.declare()
		s.settle(ms[0].id, of(txn, &amqp.Released{}))
		s.settle(ms[1].id, of(txn, &amqp.Modified{DeliveryFailed: true}))
		s.settle(ms[2].id, of(txn, &amqp.Rejected{}))
		if commit {
			c.commit(txn)
		} else {
			c.rollback(txn)
		}
		l.detach(true)
	}
	p.quiet()
	all := eventually(t, q, "1", "2")
	if a, b := all[0].header().DeliveryCount, all[1].header().DeliveryCount; a != 1 || b != 2 {
		t.Errorf("counts %d and %d, want 1 (of the rollback) and 2", a, b)
	}
	wantQueue(t, q)
}

// Plain and transacted work on one link are independent; several transactions in a session; one over two sessions.
func TestRow092MixedWork(t *testing.T) {
	q, out := filled(t, "1", "2", "3", "4"), queueName(t)
	p := open(t)
	s, second := p.begin(), p.begin()
	c := s.coordinator()
	one, two := c.declare(), c.declare()
	_, ms := s.got(q, "1", "2", "3", "4")
	l := s.sender(out)
	l.want(l.send(text("plain")), &amqp.Accepted{})
	l.post(one, "one")
	l.post(two, "two")
	second.sender(out).post(one, "one, second session")
	s.settle(ms[0].id, &amqp.Accepted{})
	s.settle(ms[1].id, of(one, &amqp.Accepted{}))
	s.settle(ms[2].id, of(two, &amqp.Accepted{}))
	c.rollback(two)
	wantQueue(t, out, "plain")
	c.commit(one)
	p.quiet()
	wantQueue(t, out, "one", "one, second session")
	eventually(t, q, "3", "4")
	wantQueue(t, q)
}

// An unknown id: the discharge is rejected, or the control link detached, as the source says; transfer, disposition and flow end their
// link. Nothing is stored or consumed.
// Rows T6, T4, 100.
func TestRow093UnknownID(t *testing.T) {
	q := filled(t, "1")
	p := open(t)
	s := p.begin()
	for _, id := range [][]byte{[]byte("none"), bytes.Repeat([]byte{1}, 24), {}} {
		c := s.coordinator()
		for _, fail := range []bool{false, true} {
			c.wantRejected(c.sendDischarge(id, fail), amqp.ErrCondTransactionUnknownID)
		}
		used := c.declare()
		c.commit(used)
		c.wantRejected(c.sendDischarge(used, false), amqp.ErrCondTransactionUnknownID)
		c.detach(true)
		c = s.coordinator(amqp.OutcomeAccepted)
		c.sendDischarge(id, false)
		c.wantDetach(amqp.ErrCondTransactionUnknownID)

		l := s.sender(q)
		l.send(text("never"), in(id))
		l.wantDetach(amqp.ErrCondTransactionUnknownID)
		l = s.sender(q)
		l.send(text("never"), in(id), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
		l.wantDetach(amqp.ErrCondTransactionUnknownID)
		l, ms := s.got(q, "1")
		s.settle(ms[0].id, of(id, &amqp.Accepted{}))
		l.wantDetach(amqp.ErrCondTransactionUnknownID)
		l = s.receiver(q)
		l.flow(1, acquiring(id))
		l.wantDetach(amqp.ErrCondTransactionUnknownID)
	}
	p.quiet()
	eventually(t, q, "1")
	wantQueue(t, q)
}

// The end of the control link, its session or its connection rolls its transactions back at once; the ids are unknown then.
// Rows T7.
func TestRow094TheEndRollsBack(t *testing.T) {
	for name, end := range map[string]func(p *peer, s *session, c *control){
		"detach":            func(_ *peer, _ *session, c *control) { c.detach(false) },
		"detach, closed":    func(_ *peer, _ *session, c *control) { c.detach(true) },
		"end":               func(_ *peer, s *session, _ *control) { s.end() },
		"close":             func(p *peer, _ *session, _ *control) { p.close() },
		"lost connection":   func(p *peer, _ *session, _ *control) { _ = p.nc.Close() },
		"error of a frame":  func(p *peer, _ *session, _ *control) { p.write([]byte{0, 0, 0, 1}) },
		"error of a handle": func(_ *peer, s *session, _ *control) { s.send(&amqp.Detach{Handle: 99}); s.wantEnd() },
	} {
		t.Run(name, func(t *testing.T) {
			q, out := filled(t, "1"), queueName(t)
			p := open(t)
			s, work := p.begin(), p.begin()
			c := s.coordinator()
			txn := c.declare()
			_, ms := work.got(q, "1")
			work.settle(ms[0].id, of(txn, &amqp.Accepted{}))
			work.sender(out).post(txn, "never")
			end(p, s, c)
			eventually(t, q, "1")
			wantQueue(t, out)
		})
	}
}

// A send that is refused in a transaction makes its commit fail, whether the client could hear of it or not; a rollback succeeds all
// the same.
// Rows 96, T11, T12.
func TestRow095FailedSend(t *testing.T) {
	q := queueName(t)
	bad := addressed("$nobody", "x")
	settled := func(x *amqp.Transfer) { x.Settled = amqp.Some(true) }
	p := open(t)
	s := p.begin()
	c, l := s.coordinator(), s.sender(q)
	for name, fail := range map[string]func(txn []byte){
		"told": func(txn []byte) {
			relay := s.sender("")
			tag := []byte{5}
			state := relay.want(relay.send(bad, in(txn), func(x *amqp.Transfer) { x.DeliveryTag = tag }), &amqp.TransactionalState{}).(*amqp.TransactionalState)
			x, ok := state.Outcome.(*amqp.Rejected)
			if !ok {
				t.Fatalf("answered %+v", state)
			}
			wantCondition(t, x.Error, amqp.ErrCondNotFound)
			wantTag(t, x.Error, tag)
		},
		"pre-settled": func(txn []byte) { s.sender("").send(bad, in(txn), settled) },
		"detached": func(txn []byte) {
			relay := s.sender("", func(a *amqp.Attach) { a.Source.Outcomes = []amqp.Symbol{amqp.OutcomeAccepted} })
			relay.send(bad, in(txn))
			relay.wantDetach(amqp.ErrCondNotFound)
		},
		"broken, pre-settled": func(txn []byte) { l.send([]byte{1}, in(txn), settled) },
	} {
		t.Run(name, func(t *testing.T) {
			txn := c.declare()
			l.post(txn, "never")
			fail(txn)
			c.wantRejected(c.sendDischarge(txn, false), amqp.ErrCondTransactionRollback)
			txn = c.declare()
			fail(txn)
			c.rollback(txn)
		})
	}
	c.commit(c.declare())
	p.quiet()
	wantQueue(t, q)
}

// The same where the control link's source knows no rejected: it is detached with the error.
// Rows T4.
func TestRow095FailedSendDetaches(t *testing.T) {
	p := open(t)
	s := p.begin()
	c := s.coordinator(amqp.OutcomeAccepted)
	txn := c.declare()
	s.sender("").send(addressed("$nobody", "x"), in(txn), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
	c.sendDischarge(txn, false)
	c.wantDetach(amqp.ErrCondTransactionRollback)
	p.quiet()
}

// Qpid JMS takes amqp:transaction:rollback for "in doubt": it hears another condition.
func TestRow095QpidJMS(t *testing.T) {
	p := open(t, func(o *amqp.Open) { o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: "QpidJMS"}} })
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	s.sender("").send(addressed("$nobody", "x"), in(txn), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
	if e := c.wantRejected(c.sendDischarge(txn, false)); e.Condition == amqp.ErrCondTransactionRollback {
		t.Errorf("the condition is %s", e.Condition)
	}
	p.quiet()
}

// A delivery that is not complete at the discharge of its transaction ends the control link with amqp:transaction:rollback.
// Rows T10.
func TestRow097PartialDelivery(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	c, l, other := s.coordinator(), s.sender(q), s.sender(q)
	txn := c.declare()
	other.post(txn, "never")
	x := l.transfer()
	x.More, x.State = true, of(txn, nil)
	l.put(x, text("never")[:4])
	c.sendDischarge(txn, false)
	c.wantDetach(amqp.ErrCondTransactionRollback)
	p.close()
	wantQueue(t, q)
}

// A delivery that one live transaction has can't be another's: the control link ends, and nothing of both is committed.
// Rows T14.
func TestRow098TwoTransactions(t *testing.T) {
	for name, other := range map[string]func(one []byte) amqp.DeliveryState{
		"transacted": func(txn []byte) amqp.DeliveryState { return of(txn, &amqp.Accepted{}) },
	} {
		t.Run(name, func(t *testing.T) {
			q, out := filled(t, "1"), queueName(t)
			p := open(t)
			s := p.begin()
			c := s.coordinator()
			one, two := c.declare(), c.declare()
			_, ms := s.got(q, "1")
			s.sender(out).post(one, "never")
			s.settle(ms[0].id, of(one, &amqp.Accepted{}), unsettled)
			s.settle(ms[0].id, other(two), unsettled)
			c.wantDetach(amqp.ErrCondTransactionRollback)
			p.close()
			eventually(t, q, "1")
			wantQueue(t, out)
		})
	}
}

// A plain outcome for what a live transaction has: the transaction can't be committed.
// Rows T12, T14.
func TestRow098PlainOutcome(t *testing.T) {
	q := filled(t, "1")
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	_, ms := s.got(q, "1")
	s.settle(ms[0].id, of(txn, &amqp.Accepted{}), unsettled)
	s.settle(ms[0].id, &amqp.Released{})
	c.wantRejected(c.sendDischarge(txn, false), amqp.ErrCondTransactionRollback)
	p.close()
	eventually(t, q, "1")
}
