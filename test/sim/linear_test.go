package sim_test

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oncemq/oncemq/internal/sim"
)

// judgeTime bounds the search for an order of one history: a small one takes microseconds, and one with many operations of
// unknown outcome could take for ever.
const judgeTime = 2 * time.Second

// undecided counts the histories for which no verdict was found in time.
var undecided atomic.Int64

// judge is K7: there is an order in which the operations of an object could have been done one by one, each between its call
// and its return, so that each gets the answer that it got.
func judge(o *sim.Object) string {
	model := queueModel
	if o.Transaction {
		model = outcomeModel
	}
	history := make([]porcupine.Operation, 0, len(o.Operations))
	for _, op := range o.Operations {
		back := op.Return
		if back == 0 {
			back = math.MaxInt64
		}
		history = append(history, porcupine.Operation{Input: op, Call: op.Call, Return: back})
	}
	switch porcupine.CheckOperationsTimeout(model, history, judgeTime) {
	case porcupine.Illegal:
		return "no order of these operations explains their answers: " + o.String()
	case porcupine.Unknown:
		undecided.Add(1)
	}
	return ""
}

// queueState is a queue: which incarnation there is, 0 for none, the greatest that was, and how many messages are in it.
type queueState struct {
	incarnation, last, messages uint64
}

// queueModel is a queue that nobody consumes from.
var queueModel = porcupine.Model{
	Init: func() any { return queueState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(queueState), input.(*sim.Operation)
		if op.Return == 0 {
			return true, s.unanswered(op)
		}
		return s.step(op)
	},
}

// unanswered is what an operation does of which nobody was told. One that was never done can be put behind all others.
func (s queueState) unanswered(op *sim.Operation) queueState {
	switch {
	case op.Kind == sim.Create && s.incarnation == 0:
		s.incarnation, s.messages = sim.AnyIncarnation, 0
	case op.Kind == sim.Delete:
		s.incarnation, s.messages = 0, 0
	case op.Kind == sim.Purge:
		s.messages = 0
	case op.Kind == sim.Send:
		s = s.send()
	}
	return s
}

// send is a send by the anonymous relay that is accepted: it makes the queue, if there is none.
func (s queueState) send() queueState {
	if s.incarnation == 0 {
		s.incarnation, s.messages = sim.AnyIncarnation, 0
	}
	s.messages++
	return s
}

// met takes the incarnation that an operation met.
func (s queueState) met(incarnation uint64) (queueState, bool) {
	switch {
	case s.incarnation == sim.AnyIncarnation && incarnation > s.last:
		s.incarnation, s.last = incarnation, incarnation
		return s, true
	}
	return s, s.incarnation == incarnation
}

func (s queueState) step(op *sim.Operation) (bool, queueState) {
	switch {
	case op.Kind == sim.Create && !op.Existed:
		ok := s.incarnation == 0 && op.Incarnation > s.last
		return ok, queueState{incarnation: op.Incarnation, last: op.Incarnation}
	case op.Incarnation == sim.AnyIncarnation:
		return op.Kind == sim.Send, s.send()
	}
	s, ok := s.met(op.Incarnation)
	if !ok || op.Incarnation == 0 {
		return ok, s
	}
	switch op.Kind {
	case sim.Read:
		ok = s.messages == op.Number
	case sim.Purge:
		ok = s.messages == op.Number
		s.messages = 0
	case sim.Delete:
		ok = s.messages == op.Number
		s.incarnation, s.messages = 0, 0
	default:
	}
	return ok, s
}

// fate is what may be true of a transaction, one bit for each possibility.
type fate uint8

// The possibilities. doomed: its client was told that it is rolled back, and will not commit it; the log may not know yet.
const (
	open fate = 1 << iota
	doomed
	committed
	rolledBack
	forgotten
)

// outcomeModel is the outcome of a transaction (C3). The broker may roll an open one back at any time.
var outcomeModel = porcupine.Model{
	Init: func() any { return open },
	Step: func(state, input, _ any) (bool, any) {
		f := state.(fate).after(input.(*sim.Operation))
		return f != 0, f
	},
}

// after is what may be true after an operation; nothing: it can't have had its answer.
func (f fate) after(op *sim.Operation) (then fate) {
	may := func(from, to fate) {
		if f&from != 0 {
			then |= to
		}
	}
	asked := op.Kind == sim.Decide || op.Kind == sim.Peek
	switch {
	case op.Return == 0:
		then = f
		may(open, rolledBack)
		if op.Kind == sim.Commit {
			may(open, committed)
		}
		if op.Kind == sim.Decide {
			may(doomed, rolledBack)
		}
	case op.Answer == "committed":
		may(committed, committed)
		if op.Kind == sim.Commit || op.Kind == sim.Rollback { // a rollback behind a commit tells what became of that
			may(open, committed)
		}
	case op.Answer == "rolled-back":
		may(open|doomed|rolledBack, rolledBack)
		if !asked {
			may(open|doomed, doomed)
			may(forgotten, forgotten)
		}
	case op.Answer == "open" && op.Kind == sim.Peek:
		may(open, open)
		may(doomed, doomed)
	case op.Answer == "expired" && asked:
		may(open|doomed|committed|rolledBack|forgotten, forgotten)
	}
	return then
}

// TestJudge: histories as they may be, and as they may not.
func TestJudge(t *testing.T) {
	type ops = []*sim.Operation
	queue := func(kind sim.Kind, call, back int64, incarnation, number uint64) *sim.Operation {
		return &sim.Operation{Client: "x", Kind: kind, Call: call, Return: back, Incarnation: incarnation, Number: number}
	}
	tx := func(kind sim.Kind, call, back int64, answer string) *sim.Operation {
		return &sim.Operation{Client: "x", Kind: kind, Call: call, Return: back, Answer: answer}
	}
	for _, c := range []struct {
		name string
		good bool
		tx   bool
		ops  ops
	}{
		{"a queue's life", true, false, ops{
			queue(sim.Create, 1, 2, 7, 0), queue(sim.Send, 3, 4, sim.AnyIncarnation, 0), queue(sim.Read, 5, 6, 7, 1),
			queue(sim.Delete, 7, 8, 7, 1), queue(sim.Read, 9, 10, 0, 0), queue(sim.Create, 11, 12, 9, 0),
		}},
		{"a stale read", false, false, ops{queue(sim.Create, 1, 2, 7, 0), queue(sim.Read, 3, 4, 0, 0)}},
		{"a read that overlaps", true, false, ops{queue(sim.Create, 1, 4, 7, 0), queue(sim.Read, 2, 3, 0, 0)}},
		{"a send that makes its queue", true, false, ops{
			queue(sim.Send, 1, 2, sim.AnyIncarnation, 0), queue(sim.Read, 3, 4, 7, 1), queue(sim.Send, 5, 0, 0, 0), queue(sim.Read, 6, 7, 7, 2),
		}},
		{"a lost message", false, false, ops{
			queue(sim.Create, 1, 2, 7, 0), queue(sim.Send, 3, 4, sim.AnyIncarnation, 0), queue(sim.Read, 5, 6, 7, 0),
		}},
		{"a creation without an answer", true, false, ops{
			queue(sim.Create, 1, 0, 0, 0), queue(sim.Read, 2, 3, 0, 0), queue(sim.Read, 4, 5, 7, 0), queue(sim.Purge, 6, 7, 7, 0),
		}},
		{"two incarnations of one creation", false, false, ops{
			queue(sim.Create, 1, 0, 0, 0), queue(sim.Read, 2, 3, 7, 0), queue(sim.Read, 4, 5, 8, 0),
		}},
		{"an incarnation that was before", false, false, ops{
			queue(sim.Create, 1, 2, 7, 0), queue(sim.Delete, 3, 4, 7, 0), queue(sim.Create, 5, 6, 7, 0),
		}},
		{"an answer that came with the commit", true, true, ops{tx(sim.Commit, 1, 4, "committed"), tx(sim.Peek, 2, 3, "committed")}},
		{"a commit that was seen and taken back", false, true, ops{
			tx(sim.Commit, 1, 6, "rolled-back"), tx(sim.Peek, 2, 3, "committed"),
		}},
		{"open after it was decided", false, true, ops{tx(sim.Decide, 1, 2, "rolled-back"), tx(sim.Peek, 3, 4, "open")}},
		{"committed after it was decided", false, true, ops{tx(sim.Decide, 1, 2, "rolled-back"), tx(sim.Commit, 3, 4, "committed")}},
		{"a look doesn't decide", true, true, ops{tx(sim.Peek, 1, 2, "open"), tx(sim.Commit, 3, 4, "committed")}},
		{"rolled back, and the log not told", true, true, ops{
			tx(sim.Rollback, 1, 2, "rolled-back"), tx(sim.Peek, 3, 4, "open"), tx(sim.Decide, 5, 6, "rolled-back"),
		}},
		{"a commit without an answer that happened", true, true, ops{
			tx(sim.Commit, 1, 0, ""), tx(sim.Peek, 2, 3, "open"), tx(sim.Decide, 4, 5, "committed"), tx(sim.Peek, 6, 7, "expired"),
		}},
		{"known after it was forgotten", false, true, ops{
			tx(sim.Commit, 1, 2, "committed"), tx(sim.Peek, 3, 4, "expired"), tx(sim.Peek, 5, 6, "committed"),
		}},
		{"committed by nobody", false, true, ops{tx(sim.Peek, 1, 2, "committed")}},
	} {
		if no := judge(&sim.Object{Name: c.name, Transaction: c.tx, Operations: c.ops}); (no == "") != c.good {
			t.Errorf("%s: %q", c.name, no)
		}
	}
}
