package frontend

import (
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// onDeclare begins a transaction. It writes nothing: the log hears of a transaction when it is decided.
func (c *Conn) onDeclare(k *coordinator, d *engine.Delivery, declare *amqp.Declare, notes amqp.Map) {
	if declare.GlobalID != nil {
		c.reject(k, d, notImplemented("a global-id"))
		return
	}
	number, tagged := uint64(0), false
	if v, ok := notes.Lookup(string(amqp.AnnotationNumber)); ok && k.tagged {
		if number, tagged = unsigned(v); !tagged || number == 0 {
			c.reject(k, d, refuse(amqp.ErrCondInvalidField, "x-opt-oncemq-number is not a number from 1"))
			return
		}
	}
	if !tagged {
		if len(c.txs) >= maxTxs {
			c.reject(k, d, tooManyTxs())
			return
		}
		t := c.newTx(k, c.node.untagged(), false)
		c.declared(t, d)
		return
	}
	id := command.NewTxID(k.s.id, number)
	if t := c.txs[id]; t != nil && t.phase != txDead {
		t.coordinator = k
		c.declared(t, d) // said twice on one connection: it is the same
		return
	}
	if len(c.txs) >= maxTxs {
		c.reject(k, d, tooManyTxs())
		return
	}
	t := c.newTx(k, id, true)
	t.known, _ = knownOf(notes)
	if number > k.s.last {
		c.declared(t, d)
		return
	}
	t.phase = txAsking
	ask := command.Outcome{Conn: c.id, Tx: id}
	ask.Request = c.expect(answer{kind: answerDeclare, tx: t, delivery: d})
	c.gather(&ask)
}

func tooManyTxs() *amqp.Error {
	return refuse(amqp.ErrCondResourceLimitExceeded, "too many undecided transactions on this connection: discharge some")
}

func (c *Conn) declared(t *tx, d *engine.Delivery) {
	d.DisposeLazily(&amqp.Declared{TxnID: t.accepted.TxnID}, true)
}

// quiet says that there is nothing to write but answers within transactions that are all being decided: they go with the
// answers to the discharges, which saves both ends a wake-up for each transaction that a client says in one breath.
func (c *Conn) quiet() bool { return c.deciding > 0 && c.deciding == len(c.txs) && c.eng.Lazy() }

// onNumber answers a declare whose number may have been decided before (wire.md).
func (c *Conn) onNumber(a *answer, e *command.Effect) {
	t := a.tx
	if c.txs[t.id] != t {
		return
	}
	var err *amqp.Error
	switch {
	case e.Refusal != nil:
		refusal := amqpError(e.Refusal)
		err = &refusal
	case e.Outcome == command.TxOpen:
		if t.phase == txAsking { // it may have been rolled back meanwhile: its discharge hears that
			t.phase = txOpen
		}
		c.declared(t, a.delivery)
		if d := t.discharge; d != nil {
			t.discharge = nil
			c.discharge(t, d, t.failing)
		}
		return
	case t.phase == txDeciding:
		err = decided(e) // of the discharge, which came while it was dead, the answer is on its way
		c.reject(t.coordinator, a.delivery, err)
		return
	default:
		err = decided(e)
	}
	// What came behind the declare meanwhile is moot: it happened already, or never will. What the receiver has let go of goes
	// back; where the transaction has consumed it, its link doesn't hold it any more, and nothing changes.
	for _, o := range t.outs {
		c.giveBack(o.k, o, t.settles[o.place].Settled)
	}
	c.closeOut(t, false)
	delete(c.txs, t.id)
	c.reject(t.coordinator, a.delivery, err)
	if d := t.discharge; d != nil {
		c.reject(t.coordinator, d, err)
	}
}

// decided says that a number has its outcome already.
func decided(e *command.Effect) *amqp.Error {
	return &amqp.Error{
		Condition: amqp.ErrCondTransactionDecided, Description: "the transaction is decided already: " + e.Outcome.String(),
		Info: amqp.Map{
			{Key: amqp.InfoOutcome, Value: amqp.Symbol(e.Outcome.String())}, {Key: amqp.InfoReason, Value: e.Reason},
		},
	}
}
