package protocol

import (
	"bytes"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
)

// control is a coordinator link.
type control struct{ *link }

func coordinatorAttach(outcomes ...amqp.Symbol) *amqp.Attach {
	a := amqp.NewAttach(fmt.Sprintf("c-%d", names.Add(1)), amqp.RoleSender)
	a.InitialDeliveryCount = amqp.Some(uint32(0))
	a.Source = &amqp.Source{Outcomes: outcomes}
	a.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions}}
	return a
}

// coordinator attaches a control link and waits for credit.
func (s *session) coordinator(outcomes ...amqp.Symbol) *control {
	s.p.t.Helper()
	l := s.attached(coordinatorAttach(outcomes...))
	if l.attach.Coordinator == nil {
		s.p.t.Fatalf("refused: %+v", expect[*amqp.Detach](s.p).Error)
	}
	if f := expect[*amqp.Flow](s.p); f.LinkCredit.V < 2 {
		s.p.t.Fatalf("a coordinator gives at least two credits: %+v", f)
	}
	return &control{l}
}

// declare begins a transaction.
func (c *control) declare() []byte {
	c.s.p.t.Helper()
	d := c.want(c.send(amqp.AppendAMQPValue(nil, &amqp.Declare{})), &amqp.Declared{}).(*amqp.Declared)
	return bytes.Clone(d.TxnID)
}

func (c *control) sendDischarge(txn []byte, fail bool) uint32 {
	c.s.p.t.Helper()
	return c.send(amqp.AppendAMQPValue(nil, &amqp.Discharge{TxnID: txn, Fail: fail}))
}

// commit discharges a transaction, which succeeds.
func (c *control) commit(txn []byte) {
	c.s.p.t.Helper()
	c.want(c.sendDischarge(txn, false), &amqp.Accepted{})
}

// rollback discharges a transaction with fail.
func (c *control) rollback(txn []byte) {
	c.s.p.t.Helper()
	c.want(c.sendDischarge(txn, true), &amqp.Accepted{})
}

// in puts a transfer into a transaction.
func in(txn []byte) func(*amqp.Transfer) {
	return func(x *amqp.Transfer) { x.State = &amqp.TransactionalState{TxnID: txn} }
}

// of is an outcome that takes effect with a transaction.
func of(txn []byte, outcome amqp.DeliveryState) *amqp.TransactionalState {
	return &amqp.TransactionalState{TxnID: txn, Outcome: outcome}
}

// post sends a text in a transaction and waits for its provisional acceptance.
func (l *link) post(txn []byte, s string) {
	l.s.p.t.Helper()
	state := l.want(l.send(text(s), in(txn)), &amqp.TransactionalState{}).(*amqp.TransactionalState)
	if _, ok := state.Outcome.(*amqp.Accepted); !ok || !bytes.Equal(state.TxnID, txn) {
		l.s.p.t.Fatalf("answered %+v, want accepted in %x", state, txn)
	}
}
