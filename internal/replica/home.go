package replica

import (
	"crypto/rand"
	"sync"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// partsAhead is how many parts of a large command are under way at once, so that other
// records go between them [5.2].
const partsAhead = 2

// home is what this node has proposed and not yet applied [1.1]: the records of its
// present epoch, numbered without a gap, in order. Connections add, raft's goroutine sends,
// the apply goroutine removes.
type home struct {
	random func([]byte) // fills with what nobody else draws

	mu sync.Mutex // guards everything below

	epoch command.Epoch // 0: none
	nonce [16]byte      // of the NodeUp asked for or applied
	shut  bool          // Stop was called: nothing new is taken

	// pending are the unapplied records. Invariant: pending[i].number = pending[0].number+i,
	// and next is the last one's + 1.
	pending []pendingRecord
	next    uint64
	// unsent is the number of the first record not sent on the present stream.
	unsent uint64
	// bytes is the size of all bodies in pending and waiting.
	bytes int

	// waiting are large bodies, and records of the same connections behind them. The first
	// is on its way in parts: offset bytes of it are in pending.
	waiting  []waitingBody
	offset   int
	commands uint64 // the last large command's number
	partsOut int    // parts in pending
}

type pendingRecord struct {
	number uint64
	body   []byte
	cost   int // what leaves home.bytes once it is applied
	part   bool
	done   func(error) // may be nil
}

type waitingBody struct {
	conn command.ConnID
	body []byte
	done func(error)
}

// newHome draws the nonces of its epochs from random.
func newHome(random func([]byte)) *home {
	h := &home{random: random}
	random(h.nonce[:])
	return h
}

// cryptoRandom is the random of a real node.
func cryptoRandom(b []byte) { rand.Read(b) }

// propose takes a body, or reports false.
func (h *home) propose(body []byte, done func(error)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch == 0 || h.shut {
		return false
	}
	h.bytes += len(body)
	if len(body) > command.MaxPlain || h.mustWait(body) {
		h.waiting = append(h.waiting, waitingBody{command.BodyConn(body), body, done})
		h.feed()
		return true
	}
	h.push(pendingRecord{body: body, cost: len(body), done: done})
	return true
}

// mustWait reports that a large body of the same connection is still on its way.
func (h *home) mustWait(body []byte) bool {
	if len(h.waiting) == 0 {
		return false
	}
	conn := command.BodyConn(body)
	for i := range h.waiting {
		if conn != 0 && h.waiting[i].conn == conn {
			return true
		}
	}
	return false
}

func (h *home) push(p pendingRecord) {
	p.number = h.next
	h.next++
	h.pending = append(h.pending, p)
}

// feed moves waiting bodies on, a few parts at a time.
func (h *home) feed() {
	for len(h.waiting) > 0 {
		w := &h.waiting[0]
		if len(w.body) <= command.MaxPlain {
			h.push(pendingRecord{body: w.body, cost: len(w.body), done: w.done})
			h.popWaiting()
			continue
		}
		if h.partsOut >= partsAhead {
			return
		}
		if h.offset == 0 {
			h.commands++
		}
		// The record must stay below MaxPlain with the command's own bytes.
		data := w.body[h.offset:min(h.offset+command.MaxPlain-64, len(w.body))]
		part := command.Part{Command: h.commands, Offset: uint64(h.offset), Data: data}
		h.offset += len(data)
		part.Last = h.offset == len(w.body)
		p := pendingRecord{body: command.Append(make([]byte, 0, len(data)+64), &part), cost: len(data), part: true}
		h.partsOut++
		if part.Last {
			p.done = w.done
			h.popWaiting()
		}
		h.push(p)
	}
}

func (h *home) popWaiting() {
	h.waiting[0] = waitingBody{}
	h.waiting = h.waiting[1:]
	h.offset = 0
}

// applied removes the records up to number, which this replica has applied.
func (h *home) applied(epoch command.Epoch, number uint64) {
	h.mu.Lock()
	if epoch != h.epoch {
		h.mu.Unlock()
		return
	}
	n := 0
	for n < len(h.pending) && h.pending[n].number <= number {
		p := &h.pending[n]
		h.bytes -= p.cost
		if p.part {
			h.partsOut--
		}
		n++
	}
	gone := h.pending[:n]
	h.pending = h.pending[n:]
	h.unsent = max(h.unsent, number+1)
	h.feed()
	h.mu.Unlock()
	for i := range gone {
		if gone[i].done != nil {
			gone[i].done(nil)
		}
		gone[i] = pendingRecord{}
	}
}

// rewind makes the stream start anew at the oldest unapplied record.
func (h *home) rewind() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) > 0 && !mutant.On(mutant.NoRewind) {
		h.unsent = h.pending[0].number
	}
}

// take appends records not yet sent to dst, at most about limit bytes and at least one, and
// counts them as sent. untake takes that back.
func (h *home) take(dst []command.Record, node command.NodeID, limit int) []command.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 {
		return dst
	}
	for i := int(h.unsent - h.pending[0].number); i < len(h.pending) && limit > 0; i++ {
		p := &h.pending[i]
		dst = append(dst, command.Record{Node: node, Epoch: h.epoch, Number: p.number, Body: p.body})
		limit -= len(p.body)
		h.unsent = p.number + 1
	}
	return dst
}

// untake counts the records from number on as not sent.
func (h *home) untake(epoch command.Epoch, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch == h.epoch && len(h.pending) > 0 {
		h.unsent = max(number, h.pending[0].number)
	}
}

// oldest is the number of the oldest unapplied record that was sent, 0 for none.
func (h *home) oldest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 || h.unsent == h.pending[0].number {
		return 0
	}
	return h.pending[0].number
}

// begin starts an epoch.
func (h *home) begin(epoch command.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch, h.next, h.unsent = epoch, 1, 1
}

// end ends the epoch: what is pending may or may not have been applied. A new nonce is
// drawn for the next.
func (h *home) end() {
	h.mu.Lock()
	var dones []func(error)
	for i := range h.pending {
		dones = append(dones, h.pending[i].done)
	}
	for i := range h.waiting {
		dones = append(dones, h.waiting[i].done)
	}
	h.epoch, h.pending, h.waiting = 0, nil, nil
	h.offset, h.bytes, h.partsOut, h.commands = 0, 0, 0, 0
	h.random(h.nonce[:])
	h.mu.Unlock()
	for _, done := range dones {
		if done != nil {
			done(ErrEpochEnded)
		}
	}
}

// shutDown makes propose refuse from now on.
func (h *home) shutDown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = true
}

// life is the present epoch, or 0, the nonce, and whether one is wanted.
func (h *home) life() (epoch command.Epoch, nonce [16]byte, wanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epoch, h.nonce, !h.shut
}

func (h *home) backlog() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}
