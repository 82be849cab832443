package client

import (
	"errors"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// coordinator is a session's control link. It isn't resumed: transactions live with the session (amqp.md T7).
type coordinator struct {
	session  *Session
	link     *engine.Link
	refusals int
	tag      uint64
}

// control is what hangs on a delivery to the coordinator.
type control struct {
	tx        *Tx
	discharge bool
	fail      bool
}

func (k *coordinator) present() *engine.Link { return k.link }
func (k *coordinator) owner() *Session       { return k.session }

func (k *coordinator) attachNow() {
	a := *amqp.NewAttach(k.session.linkName("c", ""), amqp.RoleSender)
	a.SenderSettleMode = amqp.SenderSettleUnsettled
	a.Source = &amqp.Source{Address: amqp.Some(k.session.core.cfg.ContainerID), Outcomes: outcomes}
	a.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions, amqp.CapOncemqTx}}
	a.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqTx}
	l, err := k.session.on.Attach(a)
	if ending(err) {
		return
	}
	if err != nil {
		k.failAll(err)
		return
	}
	l.Data = terminus(k)
	k.link = l
}

func (k *coordinator) attached(ev *engine.Event) {
	if !ev.Refused {
		k.refusals = 0
	}
}

// detached: the broker gave the control link up. Open transactions are rolled back (amqp.md T10, T14); for those whose discharge was on the wire the next
// link gets the answer.
func (k *coordinator) detached(ev *engine.Event) {
	_ = ev.Link.Detach(true, nil)
	k.link = nil
	err := errors.New("oncemq: the node detached the coordinator")
	if ev.Err != nil {
		err = &ev.Err.AMQP
	}
	k.refusals++
	if k.refusals >= maxRefusals {
		k.failAll(err)
		return
	}
	for _, tx := range append([]*Tx(nil), k.session.txs...) {
		if tx.discharge != nil && tx.discharge.Written() && tx.state == txCommitting {
			tx.told = true
		}
		tx.declare, tx.discharge, tx.declared, tx.resumed = nil, nil, false, true
		if tx.state == txOpen || tx.state == txCommitting && !tx.told {
			tx.rollback(err)
		}
		tx.resetOperations()
	}
	k.attachNow()
}

// resetOperations is for a commit that was on the wire of a control link that is gone.
func (tx *Tx) resetOperations() {
	if tx.state != txCommitting {
		return
	}
	// Its operations can't be told again: the settlements were told as settled. If the broker didn't keep the transaction it counts
	// too few operations and rolls back. Either way its answer is the truth.
	tx.disposed = len(tx.enlisted)
	tx.dropSends()
}

// failAll ends all transactions: there is no coordinator to be had.
func (k *coordinator) failAll(err error) {
	for _, tx := range append([]*Tx(nil), k.session.txs...) {
		if tx.told {
			tx.decide(TxUnknown, err)
		} else {
			tx.decide(TxRolledBack, err)
		}
	}
	k.session.coordinator = nil
}

func (k *coordinator) lost() { k.link = nil }

// attaching says that the broker's Attach or Detach is due; nil: there is no control link.
func (k *coordinator) attaching() bool {
	return k != nil && k.link != nil && !k.link.Attached() && !k.link.Detached()
}

// send hands a control message over; nil: not now.
func (k *coordinator) send(payload []byte, c *control) *engine.Delivery {
	if k.link == nil || !k.link.Attached() || k.link.Credit() == 0 {
		return nil
	}
	k.tag++
	d, err := k.link.Send(engine.Transfer{Tag: numberTag(k.tag), Payload: [][]byte{payload}})
	if err != nil {
		return nil
	}
	d.Data = c
	return d
}

// sendDeclare declares tx; the txn-id is known beforehand, so that operations may follow at once (wire.md).
func (k *coordinator) sendDeclare(tx *Tx) bool {
	if k == nil || k.link == nil || k.link.Credit() == 0 {
		return false
	}
	s := k.session
	m := s.known.annotate(amqp.Map{{Key: amqp.AnnotationNumber, Value: tx.number}}, s.txs, s.number)
	payload := amqp.AppendMessageAnnotations(make([]byte, 0, 128), m)
	payload = amqp.AppendAMQPValue(payload, &amqp.Declare{})
	tx.declare = k.send(payload, &control{tx: tx})
	if tx.declare == nil {
		return false
	}
	tx.ever = true
	// A settlement is a frame at once, a transfer waits in its session's queue: without this it would overtake the declare.
	s.core.conn.Flush()
	return true
}

// sendDischarge discharges tx, saying how many operations it has (C2).
func (k *coordinator) sendDischarge(tx *Tx, fail bool) {
	if k == nil || k.link == nil || k.link.Credit() == 0 {
		return
	}
	s := k.session
	m := s.known.annotate(amqp.Map{{Key: amqp.AnnotationOperations, Value: tx.operations}}, s.txs, s.number)
	payload := amqp.AppendMessageAnnotations(make([]byte, 0, 128), m)
	payload = amqp.AppendAMQPValue(payload, &amqp.Discharge{TxnID: tx.id[:], Fail: fail})
	tx.discharge = k.send(payload, &control{tx: tx, discharge: true, fail: fail})
}

func (k *coordinator) moved(ev *engine.Event) {
	if ev.Kind != engine.Disposed {
		if ev.Kind == engine.Credit && ev.Drain {
			ev.Link.Drained()
		}
		return
	}
	for _, d := range ev.Deliveries {
		c, ok := d.Data.(*control)
		if !ok || !amqp.IsOutcome(d.State) {
			continue
		}
		if !d.Settled {
			d.Dispose(nil, true)
		}
		k.session.core.progress = true
		switch {
		case c.discharge && c.tx.discharge == d:
			c.tx.discharged(d.State, c.fail)
		case !c.discharge && c.tx.declare == d:
			c.tx.declaredBy(d.State)
		}
	}
}

// declaredBy: the answer to the declare. "Decided" tells the outcome of an earlier discharge; any other refusal before a commit was
// on a wire means that there is no transaction.
func (tx *Tx) declaredBy(state amqp.DeliveryState) {
	if _, ok := state.(*amqp.Declared); ok {
		tx.declare, tx.declared = nil, true
		if tx.told && tx.state == txCommitting {
			tx.undecided()
		}
		return
	}
	var e *amqp.Error
	if r, ok := state.(*amqp.Rejected); ok {
		e = r.Error
	}
	if outcome, reason, ok := decided(e); ok {
		tx.decide(outcome, reason)
		return
	}
	if tx.told {
		tx.resolve()
		return
	}
	tx.decide(TxRolledBack, refusal(e))
}

// undecided: a commit was on a wire, and the broker says that it was not applied; the connection that carried it is fenced, so that it never will
// be [1.4]. It is committed anew only if its caller still waits for that.
func (tx *Tx) undecided() {
	switch {
	case tx.session.Rollback: // S1: nothing is replayed
		tx.told = false
		tx.rollback(errFailover)
	case tx.undo || tx.waiting == 0:
		tx.told = false
		tx.rollback(nil)
	}
}

// discharged: the answer to the discharge.
func (tx *Tx) discharged(state amqp.DeliveryState, fail bool) {
	switch st := state.(type) {
	case *amqp.Accepted:
		if fail {
			tx.decide(TxRolledBack, tx.reason)
		} else {
			tx.decide(TxCommitted, nil)
		}
	case *amqp.Rejected:
		tx.refused(st.Error, fail)
	default:
		tx.told = true
		tx.resolve()
	}
}

// refused: the discharge was rejected: rolled back, or decided before, or the broker couldn't say.
func (tx *Tx) refused(e *amqp.Error, fail bool) {
	if outcome, reason, ok := decided(e); ok {
		tx.decide(outcome, reason)
		return
	}
	if fail {
		tx.decide(TxRolledBack, tx.reason)
		return
	}
	if e != nil {
		switch e.Condition {
		case amqp.ErrCondTransactionRollback, amqp.ErrCondTransactionTimeout:
			reason := tx.spoilt
			if text, _ := e.Info.Lookup(string(amqp.InfoReason)); reason == nil {
				s, _ := text.(string)
				if s == "" {
					s = e.Description
				}
				reason = reasonError(s)
				if tx.lostOne() {
					reason = ErrDeliveryLost
				}
			}
			tx.decide(TxRolledBack, reason)
			return
		}
	}
	tx.told = true
	tx.resolve()
}

// decided reads "transaction number already decided" (wire.md).
func decided(e *amqp.Error) (TxOutcome, error, bool) {
	if e == nil || e.Condition != amqp.ErrCondTransactionDecided {
		return 0, nil, false
	}
	v, _ := e.Info.Lookup(string(amqp.InfoOutcome))
	name, ok := v.(amqp.Symbol)
	if !ok {
		s, _ := v.(string)
		name = amqp.Symbol(s)
	}
	why, _ := e.Info.Lookup(string(amqp.InfoReason))
	reason, _ := why.(string)
	switch name {
	case "committed":
		return TxCommitted, nil, true
	case "rolled-back":
		return TxRolledBack, reasonError(reason), true
	}
	return 0, nil, false
}
