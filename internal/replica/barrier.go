package replica

import (
	"encoding/binary"
	"time"

	"github.com/oncemq/oncemq/internal/mutant"
)

const (
	// barrierRetry is when a read barrier without an answer is sent again: raft drops it
	// while there is no leader.
	barrierRetry = 100 * time.Millisecond
	// barrierTimeout is when a waiter is told "no majority".
	barrierTimeout = 5 * time.Second
	// leaseLength counts from the sending of a barrier that succeeded [3.8].
	leaseLength = time.Second
	// leaseRenew is how often the lease is renewed while it is wanted.
	leaseRenew = 300 * time.Millisecond
)

// barriers are the read barriers of this node: one in flight for all waiters, none of which
// is served by a barrier sent before it came.
type barriers struct {
	seq     uint64        // begins at random, so that an answer to a former life can't fit
	waiters []waiter      // not covered by a barrier that was sent
	sent    []sentBarrier // without an answer, oldest first

	wanted      bool          // a lease is
	wantedSince time.Duration // or since the last one that was had
	lease       time.Duration // until then; 0: none
	// after is the index from which on the lease counts. Behind a gap the node may have lost its epoch, and what it had
	// handed out is with others: it must have applied that before it writes anything more.
	after uint64
}

type waiter struct {
	since time.Duration
	done  func(bool)
}

type sentBarrier struct {
	seq     uint64
	at      time.Duration
	waiters []waiter
}

func (b *barriers) wait(now time.Duration, done func(bool)) {
	b.waiters = append(b.waiters, waiter{now, done})
}

func (b *barriers) want(now time.Duration, wanted bool) {
	if wanted && !b.wanted {
		b.wantedSince = now
	}
	b.wanted = wanted
}

// lastSent is when the last barrier was sent that has no answer yet.
func (b *barriers) lastSent() (at time.Duration, open bool) {
	if len(b.sent) == 0 {
		return 0, false
	}
	return b.sent[len(b.sent)-1].at, true
}

// due reports that a barrier is to be sent now.
func (b *barriers) due(now time.Duration) bool {
	if at, open := b.lastSent(); open {
		return now >= at+barrierRetry
	}
	return len(b.waiters) > 0 || b.wanted && now >= b.lease-leaseLength+leaseRenew
}

// wake is when due will be true, 0 for never.
func (b *barriers) wake() time.Duration {
	if at, open := b.lastSent(); open {
		return at + barrierRetry
	}
	if b.wanted {
		return max(b.lease-leaseLength+leaseRenew, 1)
	}
	return 0
}

// barrierTimer sends a barrier where one is due, and gives up on old ones.
func (c *core) barrierTimer() {
	b := &c.barriers
	b.expire(c)
	if !b.due(c.now) || c.unsettled() {
		return
	}
	b.seq++
	b.sent = append(b.sent, sentBarrier{b.seq, c.now, b.waiters})
	b.waiters = nil
	var ctx [8]byte
	binary.LittleEndian.PutUint64(ctx[:], b.seq)
	if mutant.On(mutant.LocalBarrier) {
		c.barrierAnswered(b.seq, c.commit)
		return
	}
	c.node.ReadIndex(ctx[:])
}

// unsettled says that this node leads alone, and its commit index may be older than what it has answered: a start knows it from
// the last write of the log, which is behind. Raft waits for an entry of the leader's own term before it answers a
// barrier, but not where the leader is alone.
func (c *core) unsettled() bool {
	return c.leads() && c.alone() && (c.own == 0 || c.commit < c.own)
}

// expire answers waiters that have waited too long with false.
func (b *barriers) expire(c *core) {
	keep := func(ws []waiter) []waiter {
		n := 0
		for n < len(ws) && c.now-ws[n].since > barrierTimeout {
			n++
		}
		if n > 0 {
			c.out.applies = append(c.out.applies, applyJob{kind: jobBarrier, waiters: ws[:n:n]})
		}
		return ws[n:]
	}
	b.waiters = keep(b.waiters)
	for i := range b.sent {
		b.sent[i].waiters = keep(b.sent[i].waiters)
	}
	for len(b.sent) > 1 && len(b.sent[0].waiters) == 0 && c.now-b.sent[0].at > leaseLength {
		b.sent = b.sent[1:]
	}
}

// barrierAnswered takes raft's answer: everything committed when barrier seq was asked lies
// at or below index. It answers the earlier ones too.
func (c *core) barrierAnswered(seq, index uint64) {
	b := &c.barriers
	c.heardMajority(seq)
	for len(b.sent) > 0 && b.sent[0].seq <= seq {
		s := b.sent[0]
		b.sent = b.sent[1:]
		if s.seq == seq {
			if s.at >= b.lease {
				b.after = index
			}
			b.lease = s.at + leaseLength
			b.wantedSince = c.now
		}
		if len(s.waiters) > 0 {
			c.out.applies = append(c.out.applies, applyJob{kind: jobBarrier, index: index, waiters: s.waiters})
		}
	}
	c.barrierTimer()
}

// granted is until when deliveries may be written, by a replica that has applied so much; 0: not at all.
func (b *barriers) granted(applied uint64) time.Duration {
	if applied < b.after {
		return 0
	}
	return b.lease
}

// leaseless is for how long a wanted lease has been missing.
func (b *barriers) leaseless(now time.Duration) time.Duration {
	if !b.wanted || now < b.lease {
		return 0
	}
	return now - max(b.lease, b.wantedSince)
}
