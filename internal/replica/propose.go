package replica

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
)

const (
	// recordsBytes is about how much goes into one frame of records.
	recordsBytes = 128 << 10
	// stuckAfter is how long the oldest record may stay unapplied before the stream starts
	// anew: whatever lost it, sending again harms nothing.
	stuckAfter = time.Second
	// expectedPause is how long the same "expected n" is not answered again, while records
	// of the former stream are still on their way through the log.
	expectedPause = 100 * time.Millisecond
)

// sender is the home's side of the stream to the leader: one for each leader term, and a
// new one whenever something may have been lost [1.1].
type sender struct {
	stream  uint64 // rises with every start
	rewound bool   // the stream starts at the next send

	oldest     uint64 // the oldest unapplied record when it was looked at last
	since      time.Duration
	expectedN  uint64
	expectedAt time.Duration
	scratch    []command.Record
}

// restart makes the next send begin a new stream at the oldest unapplied record.
func (s *sender) restart(now time.Duration) { s.rewound, s.since = true, now }

// expected takes state's "expected n".
func (s *sender) expected(now time.Duration, n uint64) {
	if n == s.expectedN && now < s.expectedAt+expectedPause {
		return
	}
	s.expectedN, s.expectedAt = n, now
	s.restart(now)
}

// progress notes that something was applied, so that a slow log isn't taken for a loss.
func (s *sender) progress(now time.Duration) { s.since = now }

// sendRecords moves what this node's home has on to the leader.
func (c *core) sendRecords() {
	s := &c.sender
	if c.lead == 0 || !c.leads() && !c.failover.up[c.lead] || c.transferring() {
		return
	}
	if oldest := c.home.oldest(); oldest == 0 || oldest != s.oldest {
		s.oldest, s.since = oldest, c.now
	} else if c.now-s.since > stuckAfter {
		c.logger.Warn("records are stuck; sending them again", "oldest", oldest, "leader", c.lead)
		s.restart(c.now)
	}
	if s.rewound {
		s.rewound = false
		s.stream++
		c.home.rewind()
	}
	if c.leads() {
		c.takeOwn()
		return
	}
	for {
		s.scratch = c.home.take(s.scratch[:0], command.NodeID(c.self), recordsBytes)
		if len(s.scratch) == 0 {
			return
		}
		size := 0
		for i := range s.scratch {
			size += len(s.scratch[i].Body) + 24
		}
		data := make([]byte, 0, size)
		for i := range s.scratch {
			data = command.AppendRecord(data, s.scratch[i])
		}
		c.out.records = append(c.out.records, outRecords{
			to: c.lead, epoch: s.scratch[0].Epoch, first: s.scratch[0].Number,
			records: peer.Records{Term: c.term, Stream: s.stream, Data: data},
		})
	}
}

// takeOwn moves the leader's own records straight to the packer.
func (c *core) takeOwn() {
	own := c.packer.streams[c.self]
	if own.id != c.sender.stream {
		own.id, own.records = c.sender.stream, nil
	}
	if len(own.records) > 0 && c.packer.waiting(c.limits.EntryBytes) >= c.limits.EntryBytes {
		return // enough for the next entry; the rest waits at its home
	}
	c.sender.scratch = c.home.take(c.sender.scratch[:0], command.NodeID(c.self), c.limits.EntryBytes)
	for i := range c.sender.scratch {
		own.records = append(own.records, packed{record: c.sender.scratch[i]})
	}
}

// records takes a home's records, if they are for this leader in this term.
func (c *core) records(e *event) {
	c.epochs.heard(e.from, c.now)
	if !c.leads() || e.term != c.term {
		return
	}
	if err := c.packer.receive(e.from, e.stream, e.data); err != nil {
		c.logger.Error("bad records from a peer", "peer", e.from, "error", err)
	}
}
