package replica

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

const (
	// browseSteps bounds what browsers cost between two steps: what has been committed meanwhile goes first.
	browseSteps = 4096
	// lookSteps bounds what those that wait cost, as there may be many, and most of what is applied isn't for them.
	lookSteps = 256
)

// Browse puts a browser's question to this node's replica [4.7]: nothing goes to the log. done is called on the apply goroutine, never on
// the caller's stack, and must not block: with the answer, once; not at all where a later question of the same browser came first,
// or the node's epoch ended. The answer is as old as this replica: who must not miss what others have sent asks behind a Barrier.
// It never blocks. An error is of a filter that this version can't read.
func (s *steps) Browse(q command.Browse, done func(*command.BrowseSlice)) error {
	of, err := state.NewBrowser(q)
	if err != nil {
		return err
	}
	s.applies.put(applyJob{kind: jobBrowse, browse: &browsing{of: of, done: done}})
	return nil
}

// browsing is a browser's question that has no answer yet.
type browsing struct {
	of   *state.Browser
	done func(*command.BrowseSlice)
	seen uint64 // of one that waits: the index at which nothing was there
	over bool   // another one has taken its place
}

// browsers are the questions that have no answer, in the apply step. Those that wait are looked at again, in turn, after entries were
// applied: a look at an idle queue's end costs a step, so who waits asks the log for nothing, and no queue has to know who
// waits for it.
type browsers struct {
	by      map[browserKey]*browsing
	asked   []*browsing // oldest first
	waiting []*browsing // by seen
	overs   int         // of asked and waiting, those that are over
}

type browserKey struct {
	local uint64
	link  uint32
}

// ask takes a question in.
func (b *browsers) ask(x *browsing) {
	key := browserKey{x.of.Local, x.of.Link}
	if old := b.by[key]; old != nil {
		old.over = true
		delete(b.by, key)
		b.tidy()
	}
	if x.of.Most <= 0 {
		return
	}
	if b.by == nil {
		b.by = make(map[browserKey]*browsing)
	}
	b.by[key] = x
	b.asked = append(b.asked, x)
}

// tidy drops what is over where that is most of it: on an idle node nobody looks.
func (b *browsers) tidy() {
	if b.overs++; b.overs*2 <= len(b.asked)+len(b.waiting) {
		return
	}
	over := func(x *browsing) bool { return x.over }
	b.asked, b.waiting = slices.DeleteFunc(b.asked, over), slices.DeleteFunc(b.waiting, over)
	b.overs = 0
}

// pass answers until about browseSteps are spent; more says that some questions could not be looked at.
func (b *browsers) pass(m machine, applied uint64) (more bool) {
	left := browseSteps
	for left > 0 && len(b.asked) > 0 {
		x := b.asked[0]
		b.asked[0] = nil
		b.asked = b.asked[1:]
		left -= b.look(x, m, applied)
	}
	if len(b.asked) == 0 {
		b.asked = nil
	}
	left = min(left, lookSteps)
	for left > 0 && len(b.waiting) > 0 && b.waiting[0].seen < applied {
		x := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		left -= b.look(x, m, applied)
	}
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
	return len(b.asked) > 0 || len(b.waiting) > 0 && b.waiting[0].seen < applied
}

// look answers a question, or has it wait. It gives the steps that this took.
func (b *browsers) look(x *browsing, m machine, applied uint64) (steps int) {
	if x.over {
		b.overs--
		return 1
	}
	s, steps := m.Slice(x.of)
	if x.of.Wait && s.Incarnation != 0 && len(s.Messages) == 0 {
		x.of.After = s.Next
		if s.More { // it goes on behind the others
			b.asked = append(b.asked, x)
			return steps
		}
		x.seen = applied
		b.waiting = append(b.waiting, x)
		return steps
	}
	delete(b.by, browserKey{x.of.Local, x.of.Link})
	x.done(&s)
	return steps
}
