package server

import (
	"sync"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
)

// mailbox is how other goroutines reach a connection's loop. Putting never blocks: an effect's place is reserved by the
// command or the allowance that caused it, a barrier's by its asking, and the rest are flags [4.8].
type mailbox struct {
	signal chan struct{} // holds one: something is there

	mu       sync.Mutex
	effects  []command.Effect
	barriers []barrierAnswer
	slices   []*command.BrowseSlice
	stops    int
	moves    bool // the stops are so that others take the connection
	reason   string
	ended    bool
	closed   bool
}

type barrierAnswer struct {
	id uint64
	ok bool
}

func (m *mailbox) wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// deliver copies effects in; false if nobody will look any more.
func (m *mailbox) deliver(effects []command.Effect) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.effects = append(m.effects, effects...)
	m.wake()
	return true
}

// close makes deliver refuse.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
}

func (m *mailbox) barrier(id uint64, ok bool) {
	m.mu.Lock()
	m.barriers = append(m.barriers, barrierAnswer{id, ok})
	m.mu.Unlock()
	m.wake()
}

// browsed brings the answer to a browser's question, of which it has one at a time.
func (m *mailbox) browsed(s *command.BrowseSlice) {
	m.mu.Lock()
	if !m.closed {
		m.slices = append(m.slices, s)
	}
	m.mu.Unlock()
	m.wake()
}

// stop asks for a graceful end, perhaps so that another node takes the connection; a second call for one at once.
func (m *mailbox) stop(reason string, move bool) {
	m.mu.Lock()
	m.stops++
	m.moves = m.moves || move
	m.reason = reason
	m.mu.Unlock()
	m.wake()
}

func (m *mailbox) endEpoch(reason string) {
	m.mu.Lock()
	m.ended, m.reason = true, reason
	m.mu.Unlock()
	m.wake()
}

// orphans are answers to ConnOpen whose connection was given up meanwhile: it has to be ended in the log, but not on the
// goroutine that delivers.
type orphans struct {
	mu     sync.Mutex
	list   []command.Effect
	signal chan struct{}
}

func (o *orphans) add(e command.Effect) {
	o.mu.Lock()
	o.list = append(o.list, e)
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// tend ends orphans until done is closed.
func (o *orphans) tend(node *frontend.Node, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-o.signal:
		}
		o.mu.Lock()
		list := o.list
		o.list = nil
		o.mu.Unlock()
		for i := range list {
			node.EndOrphan(&list[i])
		}
	}
}

// mail is what was in a mailbox.
type mail struct {
	effects  []command.Effect
	barriers []barrierAnswer
	slices   []*command.BrowseSlice
	stops    int
	moves    bool
	reason   string
	ended    bool
}

// take empties the mailbox into old, whose slices become the mailbox's.
func (m *mailbox) take(old *mail) {
	clear(old.effects)
	clear(old.slices)
	m.mu.Lock()
	m.effects, old.effects = old.effects[:0], m.effects
	m.barriers, old.barriers = old.barriers[:0], m.barriers
	m.slices, old.slices = old.slices[:0], m.slices
	old.stops, old.moves, old.reason, old.ended = m.stops, m.moves, m.reason, m.ended
	m.stops, m.moves, m.ended = 0, false, false
	m.mu.Unlock()
}
