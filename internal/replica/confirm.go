package replica

import "github.com/oncemq/oncemq/internal/mutant"

// A node that doesn't know any more what it promised, entries or votes, asks a leader. The leader confirms three things: it hears
// from a majority in its own term after the question; the asker isn't counted in that, for it answers no heartbeat while it
// recovers; and the checkpoint that it offers goes at least as far as its log went when it was asked. store.Confirmed says why
// that is enough.

// asking is the question of one node.
type asking struct {
	id   [16]byte
	term uint64 // of this leader
	last uint64 // index of its last entry, when it was asked
	seq  uint64 // of the last read barrier before that
	// heard: a barrier sent later was answered.
	heard bool
}

// confirm takes a node's question, or its repetition, and says up to which entry a checkpoint must go at least; term is 0 where this
// node doesn't lead, last is 0 while a majority hasn't been heard yet.
func (c *core) confirm(from uint64, id [16]byte) (term, last uint64) {
	if !c.leads() || c.transferring() {
		return 0, 0
	}
	a := c.askings[from]
	if a == nil || a.id != id || a.term != c.term {
		a = &asking{id: id, term: c.term, last: c.last, seq: c.barriers.seq}
		if c.askings == nil {
			c.askings = map[uint64]*asking{}
		}
		c.askings[from] = a
		c.barriers.wait(c.now, func(bool) {})
	}
	if !a.heard && !mutant.On(mutant.AskerCounts) {
		return c.term, 0
	}
	if mutant.On(mutant.LowCheckpoint) {
		return c.term, 1
	}
	return c.term, a.last
}

// heardMajority notes that a read barrier of this node was answered.
func (c *core) heardMajority(seq uint64) {
	for _, a := range c.askings {
		if c.leads() && a.term == c.term && seq > a.seq {
			a.heard = true
		}
	}
}

// confirmation answers a node's question: the raft step's part was done.
func (s *steps) confirmation(term, last uint64) Confirmation {
	c := Confirmation{Term: term}
	if term == 0 {
		c.Leader = s.core.lead
		return c
	}
	if last == 0 {
		return c
	}
	if o := s.offers.atLeast(last); o != nil {
		c.Offer, c.Leader = *o, uint64(s.opts.Node)
	}
	return c
}
