package sim

import (
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// verdict is what a client was told of something that it asked for.
type verdict uint8

const (
	pending verdict = iota // not answered, or nobody may say
	done                   // it happened, for certain
	undone                 // it did not, for certain
)

func (v verdict) String() string { return [...]string{"unknown", "done", "undone"}[v] }

// message is one message's life as clients saw it.
type message struct {
	id       string
	queue    string
	producer string // of plain sends that are in order; else empty
	n        int    // in the producer's order
	tx       *txn   // nil: sent by itself
	sent     verdict
	begun    bool // the send, or its transaction's commit, was asked for: it may be seen

	seen    int        // deliveries
	settles []*holding // attempts to consume it
	drained int        // in the end
	dead    bool       // it was drained from the dead-letter queue
	newest  handOut

	call, stored int64 // when it came up, and when somebody was told that it is stored
}

// holding is one attempt to consume a message.
type holding struct {
	m    *message
	tx   *txn // nil: by itself
	took verdict
	back bool // not consumed but rejected: a dead letter
	call int64
}

// txn is a transaction as its client saw it.
type txn struct {
	name    string
	id      client.TxID // zero: nobody can ask
	named   bool        // id holds
	sends   []*message
	settles []*holding
	decided verdict
	asked   bool // its commit was asked for
	told    []string
	object  Object
}

// history is what all clients saw.
type history struct {
	w        *world
	messages map[string]*message
	list     []*message
	txs      []*txn
}

func (w *world) newMessage(queue string) *message {
	m := &message{id: fmt.Sprintf("m%d", len(w.history.list)), queue: queue, call: w.stamp()}
	w.history.messages[m.id] = m
	w.history.list = append(w.history.list, m)
	return m
}

func (w *world) newTx(name string) *txn {
	t := &txn{name: name, object: Object{Name: name, Transaction: true}}
	w.history.txs = append(w.history.txs, t)
	return t
}

// payload is the message on the wire.
func (m *message) payload() []byte { return amqp.AppendData(nil, []byte(m.id)) }

// delivered notes that a client got a message, and checks that it may see it (K2).
func (w *world) delivered(who, queue string, payload []byte) *message {
	s, err := amqp.ParseSections(payload, amqp.Limits{})
	if err != nil || len(s.Body) == 0 {
		w.fail("K2", "%s got something from %s that is no message: %x", who, queue, payload)
		return nil
	}
	v := string(bodyOf(s.Body))
	m := w.history.messages[v]
	if m == nil {
		w.fail("K2", "%s got %q from %s, which nobody sent", who, v, queue)
		return nil
	}
	m.seen++
	if m.seen > 1 {
		w.count("redelivery")
	}
	switch {
	case m.queue != queue && "DLQ."+m.queue != queue:
		w.fail("K2", "%s got %s from %s, sent to %s", who, m.id, queue, m.queue)
	case !m.begun:
		w.fail("K2", "%s got %s before its commit was asked for", who, m.id)
	case m.sent == undone:
		w.fail("K2", "%s got %s, whose send did not happen", who, m.id)
	}
	return m
}

// decide tells a transaction's verdict to all that is in it.
func (t *txn) decide(w *world, v verdict, by string) {
	if v == pending {
		return
	}
	t.told = append(t.told, v.String()+" by "+by)
	if t.decided != pending && t.decided != v {
		w.fail("K5", "%s is %v by %s, and was %v", t.name, v, by, t.told)
		return
	}
	t.decided = v
	for _, m := range t.sends {
		m.sent = v
	}
	for _, h := range t.settles {
		h.took = v
	}
	if v == undone {
		w.count("rollback")
	} else {
		w.count("commit")
	}
}

// bodyOf is what a data section holds.
func bodyOf(section []byte) []byte {
	switch {
	case len(section) >= 5 && section[3] == 0xa0:
		return section[5:]
	case len(section) >= 8 && section[3] == 0xb0:
		return section[8:]
	}
	return nil
}
