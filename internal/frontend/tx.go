package frontend

import (
	"encoding/binary"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// maxTxs bounds the undecided transactions of a connection.
const maxTxs = 1000

// txPhase is how far a transaction has come.
type txPhase uint8

const (
	txOpen     txPhase = iota
	txAsking           // its number may be decided already: Outcome is under way
	txDeciding         // its discharge is in the log
	txDead             // rolled back before it was discharged; the discharge will hear why
)

// tx is an undecided transaction: what its client did so far stands here, at the home, until commit (architecture.md).
type tx struct {
	// id is the AMQP txn-id. tagged: it is the transaction's identity in the log as well (wire.md); else nobody can ask.
	id          command.TxID
	tagged      bool
	home        *session
	coordinator *coordinator
	phase       txPhase
	known       command.Known

	// name is the identity that $oncemq.tx gave to a generic client's transaction, operations what its client counted.
	name       command.TxID
	named      bool
	operations int64

	sends   []command.TxSend
	settles []command.TxSettle
	outs    []*out // of settles
	// acquired are the deliveries that were handed out in the transaction, acquisition is the state that they carry.
	acquired    []*out
	acquisition *amqp.TransactionalState
	arena       []byte
	bytes       int
	held        int64 // of Node.txHeld
	// reason of a transaction that can't commit any more (rollback-only), or is dead.
	reason string

	began, used time.Time
	accepted    *amqp.TransactionalState
	discharge   *engine.Delivery // held back while asking
	failing     bool             // the discharge said fail
}

// newTx begins a transaction on a coordinator link.
func (c *Conn) newTx(k *coordinator, id command.TxID, tagged bool) *tx {
	t := &tx{id: id, tagged: tagged, home: k.s, coordinator: k, operations: -1, began: c.now, used: c.now}
	t.accepted = &amqp.TransactionalState{TxnID: append([]byte(nil), id[:]...), Outcome: accepted}
	t.acquisition = &amqp.TransactionalState{TxnID: t.accepted.TxnID}
	c.txs[id] = t
	c.wakeBy(c.now.Add(watchTick))
	return t
}

// untagged is an id for a generic client's transaction: of the usual shape, but of no history, so that nobody takes it for
// one that the log knows.
func (n *Node) untagged() command.TxID {
	v := n.counter.Add(1)
	var nonce [4]byte
	binary.BigEndian.PutUint32(nonce[:], uint32(v))
	index, place := n.epoch.Load(), 0
	return command.NewTxID(command.NewSessionID(0, 0, index, place, nonce), v>>32+1)
}

// txOf finds the transaction of a transactional-state.
func (c *Conn) txOf(id []byte) *tx {
	var t command.TxID
	if len(id) != len(t) {
		return nil
	}
	copy(t[:], id)
	return c.txs[t]
}

// record is the identity under which the log keeps the outcome; zero where nobody can ask for it.
func (t *tx) record() command.TxID {
	switch {
	case t.tagged:
		return t.id
	case t.named:
		return t.name
	}
	return command.TxID{}
}

// fail makes the transaction rollback-only: a commit must not succeed without an operation that was refused (amqp.md 0.4).
func (t *tx) fail(reason string) {
	if t.reason == "" {
		t.reason = reason
	}
}

// count is what wire.md counts: sends and distinct settled deliveries.
func (t *tx) count() int { return len(t.sends) + len(t.settles) }

// operationCost is what an operation of a transaction holds beside its message, in bytes, about.
const operationCost = 256

// room says whether one more operation of so many bytes fits, in the transaction and in the node [8.14]. One that doesn't rolls the
// transaction back at once, so that it holds nothing any more.
func (c *Conn) room(t *tx, bytes int) bool {
	if t.count() >= command.MaxTxOperations || t.bytes+bytes > command.MaxTxBytes || c.txBytes+bytes > 2*command.MaxTxBytes {
		c.kill(t, command.ReasonTooLarge)
		return false
	}
	more := int64(bytes + operationCost)
	if c.phase != phaseOver && c.node.txHeld.Add(more) > c.node.cfg.TxBytes {
		c.node.txHeld.Add(-more)
		c.kill(t, command.ReasonLimit)
		return false
	}
	if c.phase != phaseOver {
		c.txHeld += more
		t.held += more
	}
	t.bytes += bytes
	c.txBytes += bytes
	return true
}

// keep copies a message into the transaction's memory, piece by piece of a larger block.
func (t *tx) keep(d *engine.Delivery) []byte {
	if d.Owned {
		return d.Payload
	}
	if cap(t.arena)-len(t.arena) < len(d.Payload) {
		t.arena = make([]byte, 0, max(len(d.Payload), min(2*cap(t.arena), 64<<10), 2<<10))
	}
	at := len(t.arena)
	t.arena = append(t.arena, d.Payload...)
	return t.arena[at:len(t.arena):len(t.arena)]
}

// sendInTx takes a message that is to be stored on commit (T9). The answer says what would become of it; a transaction
// with a refused operation can't commit.
func (c *Conn) sendInTx(p *producer, d *engine.Delivery, state *amqp.TransactionalState, s *amqp.Sections, err *amqp.Error) {
	t := c.txOf(state.TxnID)
	if t == nil || t.phase == txDeciding {
		c.refuseUnknown(p, d)
		return
	}
	t.used = c.now
	if t.phase == txDead {
		c.refuseInTx(t, p, d, refuse(amqp.ErrCondTransactionRollback, t.reason))
		return
	}
	address := p.address
	if err == nil && address == "" {
		var props amqp.Properties
		if props, err = properties(s); err == nil {
			address, err = c.relay(props.To, s)
		}
	}
	if err == nil && address == addressOutcome {
		err = refuse(amqp.ErrCondNotAllowed, "an outcome is asked for outside of transactions")
	}
	if err == nil && address != addressTx && c.log.Room() == command.RoomFull {
		t.fail(command.ReasonLimit)
		c.refuseInTx(t, p, d, refuse(amqp.ErrCondResourceLimitExceeded, noRoom))
		return
	}
	if err == nil && address == addressTx {
		err = c.nameTx(t, s)
	} else if err == nil {
		if !c.room(t, len(d.Payload)) {
			c.refuseInTx(t, p, d, refuse(amqp.ErrCondResourceLimitExceeded, "the transaction is too large, or all that are open on this node are: "+t.reason))
			return
		}
		send := command.TxSend{Target: p.inc, Message: t.keep(d)}
		if p.address == "" {
			send.Address = address
		}
		t.sends = append(t.sends, send)
	}
	if err != nil {
		t.fail(command.ReasonRefused)
		c.refuseInTx(t, p, d, err)
		return
	}
	d.Payload = nil
	if !d.Settled {
		d.DisposeLazily(t.accepted, !d.Second) // see quiet
	}
}

// unknownTx is the error about a txn-id that names no transaction.
func unknownTx() *amqp.Error {
	return refuse(amqp.ErrCondTransactionUnknownID, "there is no such transaction: declare one")
}

// refuseUnknown refuses what belongs to a transaction that there is not: the link ends, since its sender and we don't agree on what is
// going on. A client of ours hears it of each message: it may have said them behind a declare that is refused just now.
func (c *Conn) refuseUnknown(p *producer, d *engine.Delivery) {
	err := unknownTx()
	if p.s.id.IsZero() {
		c.detach(p.link, *err)
		return
	}
	c.refuseSend(p, d, err)
}

// refuseInTx answers a refused operation of a transaction: the discharge will fail. The link goes on, where its sender can hear of that
// at all.
func (c *Conn) refuseInTx(t *tx, p *producer, d *engine.Delivery, err *amqp.Error) {
	if d.Settled || p.over {
		return // T11: the discharge says it
	}
	err = p.blame(err, d.Tag())
	if !takesRejected(p.link.Remote().Source) {
		c.detach(p.link, *err)
		return
	}
	d.Dispose(&amqp.TransactionalState{TxnID: t.accepted.TxnID, Outcome: &amqp.Rejected{Error: err}}, !d.Second)
}

// settleInTx enlists outcomes that take effect on commit (T13).
func (c *Conn) settleInTx(k *consumer, deliveries []*engine.Delivery, state *amqp.TransactionalState, settled bool) {
	t := c.txOf(state.TxnID)
	if t == nil && !k.s.id.IsZero() {
		// Said behind a declare that is refused just now: the client learns that by the refusal. What it has settled goes back.
		for _, d := range deliveries {
			if o, ok := d.Data.(*out); ok && settled {
				c.giveBackAs(k, o, command.Disposition{Outcome: command.Modified, Failed: true})
			}
		}
		return
	}
	if t == nil || t.phase == txDeciding && !settled {
		c.detach(k.link, *unknownTx())
		return
	}
	outcome := state.Outcome
	if outcome == nil {
		if !settled {
			return // bound to the transaction, and nothing said yet
		}
		outcome = k.byDefault
	}
	disposition, err := dispositionOf(outcome)
	if err != nil {
		c.detach(k.link, *err)
		return
	}
	t.used = c.now
	for _, d := range deliveries {
		if o, ok := d.Data.(*out); ok {
			c.enlist(t, k, o, disposition, settled)
		}
	}
	c.touch(k)
}

func (c *Conn) enlist(t *tx, k *consumer, o *out, disposition command.Disposition, settled bool) {
	switch {
	case o.tx == t && (t.phase == txOpen || t.phase == txAsking):
		e := &t.settles[o.place]
		e.Disposition = disposition
		e.Settled = e.Settled || settled
	case o.tx == t:
		// Too late: the discharge has it as it was.
	case o.tx != nil || o.acquiredElsewhere(t):
		// T14: two live transactions want one delivery.
		for _, other := range []*tx{o.tx, o.acquired} {
			if other != nil {
				other.fail(command.ReasonRefused)
			}
		}
		t.fail(command.ReasonRefused)
		c.terminate(t.coordinator, "a delivery of one transaction was settled in another")
	case t.phase == txDead || t.phase == txDeciding: // it can't be of the discharge any more, and its receiver has let go
		c.giveBack(k, o, settled)
	case o.proposed:
		t.fail(command.ReasonDeliveryLost) // it was settled before
	case c.room(t, 0):
		o.tx, o.place = t, len(t.settles)
		t.settles = append(t.settles, command.TxSettle{Link: k.num, Ref: o.h.ref, Settled: settled, Disposition: disposition})
		t.outs = append(t.outs, o)
	default:
		c.giveBack(k, o, settled)
	}
}

// giveBack returns a delivery that was settled in a transaction that is rolled back already (T15); one that wasn't settled
// stays with its receiver (T16).
func (c *Conn) giveBack(k *consumer, o *out, settled bool) {
	if settled {
		c.giveBackAs(k, o, command.Disposition{Outcome: command.Modified, Failed: true})
	}
}

// giveBackAs returns a delivery with an outcome, unless one stands in a record already.
func (c *Conn) giveBackAs(k *consumer, o *out, d command.Disposition) {
	if o.proposed {
		return
	}
	o.proposed = true
	s := &c.scratch.settle
	*s = command.Settle{Conn: c.id, Link: k.num, Refs: append(c.scratch.refs[:0], o.h.ref), Disposition: d}
	c.scratch.refs = s.Refs
	c.gather(s)
}

// enlisted lists a consumer's deliveries in live transactions; they outlive its link.
func (c *Conn) enlisted(k *consumer) (refs []command.DeliveryRef) {
	for _, t := range c.txsInOrder() {
		if t.phase == txDead {
			continue
		}
		for _, o := range t.outs {
			if o.k == k {
				refs = append(refs, o.h.ref)
			}
		}
	}
	return refs
}

// release takes the deliveries out of the transaction. Those that their receiver had not settled stay with it.
func (c *Conn) release(t *tx) {
	c.txBytes -= t.bytes
	if c.phase != phaseOver {
		c.node.txHeld.Add(-t.held)
		c.txHeld -= t.held
	}
	t.bytes, t.held = 0, 0
	for _, o := range t.outs {
		o.tx = nil
		if t.settles[o.place].Settled {
			o.proposed = true
		}
	}
	t.sends, t.settles, t.outs, t.arena = nil, nil, nil, nil
}
