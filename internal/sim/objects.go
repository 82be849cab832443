package sim

import (
	"fmt"
	"strings"
)

// Kind is what was done to a small object.
type Kind uint8

// The kinds: those of a queue, then those of a transaction.
const (
	Create Kind = 1 + iota
	Delete
	Purge
	Read
	Send
	Commit
	Rollback
	Decide
	Peek
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"", "create", "delete", "purge", "read", "send", "commit", "rollback", "decide", "peek"}[k]
}

// Operation is one call on an object, and what its caller was told.
type Operation struct {
	// Client is who called.
	Client string
	// Kind is what was called.
	Kind Kind
	// Call and Return are moments: no two of a world are equal. Return 0: nobody was told how it ended, so that it may have
	// taken effect at any time after Call, or never.
	Call, Return int64
	// Incarnation is the queue's that was met, 0: there was none. Existed: Create found it.
	Incarnation uint64
	Existed     bool
	// Number is how many messages Read found, or Delete and Purge removed.
	Number uint64
	// Answer is a transaction's: committed, rolled-back, open or expired.
	Answer string

	void bool // it can't have taken effect and says nothing
}

// String is a line of a history.
func (o *Operation) String() string {
	s := fmt.Sprintf("%6d ", o.Call)
	if o.Return == 0 {
		return s + fmt.Sprintf("       %s %v: no answer", o.Client, o.Kind)
	}
	s += fmt.Sprintf("%6d %s %v: ", o.Return, o.Client, o.Kind)
	switch {
	case o.Answer != "":
		return s + o.Answer
	case o.Incarnation == 0:
		return s + "there is none"
	case o.Kind == Create && o.Existed:
		return s + fmt.Sprintf("%d was there", o.Incarnation)
	case o.Kind == Send:
		return s + "stored"
	case o.Kind == Create:
		return s + fmt.Sprintf("%d", o.Incarnation)
	}
	return s + fmt.Sprintf("%d, %d messages", o.Incarnation, o.Number)
}

// AnyIncarnation stands for a queue that was met, or made, by a Send, which isn't told which incarnation it is.
const AnyIncarnation = ^uint64(0)

// Object is a small object whose answers have to be linearizable (K7): a queue, or the outcome of a transaction.
type Object struct {
	// Name is a queue's or a transaction's.
	Name string
	// Transaction says which of the two it is.
	Transaction bool
	// Operations are in the order of their calls.
	Operations []*Operation
}

// String is the whole history.
func (o *Object) String() string {
	var b strings.Builder
	for _, op := range o.Operations {
		b.WriteString("\n  ")
		b.WriteString(op.String())
	}
	return o.Name + ":" + b.String()
}

// stamp is a moment of its own.
func (w *world) stamp() int64 {
	w.moments++
	return w.moments
}

// invoke notes that an operation on an object begins.
func (w *world) invoke(o *Object, who string, kind Kind) *Operation {
	op := &Operation{Client: who, Kind: kind, Call: w.stamp()}
	o.Operations = append(o.Operations, op)
	return op
}

// told notes that an operation's caller has its answer.
func (w *world) told(op *Operation) {
	if op.Return == 0 && !op.void {
		op.Return = w.stamp()
	}
}

// object is a queue under the administrators' hands.
func (w *world) object(queue string) *Object {
	o := w.queues[queue]
	if o == nil {
		o = &Object{Name: queue}
		w.queues[queue] = o
	}
	return o
}

// histories are the objects that K7 is about: queues without consumers, and transactions that somebody asked about.
func (w *world) histories() (all []*Object) {
	for _, name := range sortedKeys(w.queues) {
		if !w.mortal[name] {
			all = append(all, w.queues[name])
		}
	}
	for _, t := range w.history.txs {
		for _, op := range t.object.Operations {
			if op.Kind == Peek || op.Kind == Decide {
				all = append(all, &t.object)
				break
			}
		}
	}
	for _, o := range all {
		kept := o.Operations[:0:0]
		for _, op := range o.Operations {
			if !op.void {
				kept = append(kept, op)
			}
		}
		o.Operations = kept
	}
	return all
}

// judge has the histories judged (K7).
func (w *world) judge() {
	if w.cfg.Judge == nil {
		return
	}
	for _, o := range w.histories() {
		w.count("K7 history")
		if no := w.cfg.Judge(o); no != "" {
			w.fail("K7", "%s", no)
		}
	}
}

// removed says that an administrator may have taken a message away that is nowhere now.
func (w *world) removed(m *message) bool {
	if !w.mortal[m.queue] {
		return false
	}
	for _, op := range w.object(m.queue).Operations {
		if op.takesAway() && (op.Return == 0 || op.Return > m.call) {
			w.count("message deleted or purged")
			return true
		}
	}
	return false
}

func (o *Operation) takesAway() bool { return !o.void && (o.Kind == Delete || o.Kind == Purge) }

// checkRemoved is K2 for deleted queues: what was stored before a deletion began can't be consumed by one who says so after
// it has ended.
func (w *world) checkRemoved(m *message) {
	if !w.mortal[m.queue] || m.sent != done || m.stored == 0 {
		return
	}
	for _, op := range w.object(m.queue).Operations {
		if op.void || op.Kind != Delete || op.Return == 0 || op.Incarnation == 0 || op.Call < m.stored {
			continue
		}
		for _, h := range m.settles {
			if h.took == done && h.call > op.Return {
				w.fail("K2", "%s: consumed behind the deletion of its queue (%v)", m.about(), op)
			}
		}
	}
}

// checkConserved adds a deleted and purged queue up: what was stored was consumed, removed or is left, and nothing was twice (K1, K3).
func (w *world) checkConserved(queue string) {
	var stored, perhapsStored, consumed, perhapsConsumed, removed uint64
	for _, m := range w.history.list {
		if m.queue != queue {
			continue
		}
		switch {
		case m.sent == done:
			stored++
		case m.sent == pending && m.begun:
			perhapsStored++
		}
		gone, perhaps := m.drained > 0, false
		for _, h := range m.settles {
			gone = gone || h.took == done && !h.back
			perhaps = perhaps || h.took == pending
		}
		switch {
		case gone:
			consumed++
		case perhaps:
			perhapsConsumed++
		}
	}
	answered := true
	for _, op := range w.object(queue).Operations {
		if op.takesAway() {
			removed += op.Number
			answered = answered && op.Return != 0
		}
	}
	w.count("deleted queue added up")
	switch {
	case consumed+removed > stored+perhapsStored:
		w.fail("K3", "%s: %d were stored, perhaps %d more, but %d consumed and %d removed", queue, stored, perhapsStored, consumed, removed)
	case answered && stored > consumed+perhapsConsumed+removed:
		w.fail("K1", "%s: %d were stored, but only %d consumed, perhaps %d more, and %d removed", queue, stored, consumed, perhapsConsumed, removed)
	}
}
