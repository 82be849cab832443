package replica

import (
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
)

const (
	// deadJitter spreads the campaigns of those who saw the same leader die.
	deadJitter = 20 * time.Millisecond
	// retryMin and retryJitter are the pause before the next campaign while there is no
	// leader. Pre-vote makes a useless campaign harmless, but a new one drops the votes of a
	// candidate: behind each candidacy without a leader the pause doubles, retryDoublings times
	// at most, so that votes get their time to reach slow disks.
	retryDoublings = 5

	retryMin    = 40 * time.Millisecond
	retryJitter = 80 * time.Millisecond
	// startPause lets a living leader of a cluster that a node rejoins speak first.
	startPause = 120 * time.Millisecond
	// transferTimeout is when a hand-over that hasn't happened is given up.
	transferTimeout = time.Second
	// diskStall is after how long without a finished append, while the others' go on, a leader
	// hands over.
	diskStall = time.Second
	// slowTicks is for how many ticks a leader's disk may be behind the others' by a tick or more before it hands over.
	slowTicks = 50
)

// failover decides when to campaign without waiting for raft's election timeout: after a
// leader's process is seen to be gone, and at the start.
type failover struct {
	campaignAt time.Duration // 0: not planned
	up         map[uint64]bool

	term       uint64 // the highest that campaignTimer has seen
	candidates int    // terms begun since there was a leader: candidacies, by whomever
}

// leaderChanged: with a leader there is no campaign; without one, campaignTimer plans one.
func (f *failover) leaderChanged(lead uint64) {
	f.campaignAt = 0
	if lead != 0 {
		f.candidates = 0
	}
}

// majority reports that enough peers are connected to win an election.
func (c *core) majority() bool {
	enough := func(voters []command.NodeID) bool {
		n := 0
		for _, id := range voters {
			if uint64(id) == c.self || c.failover.up[uint64(id)] {
				n++
			}
		}
		return n > len(voters)/2
	}
	return enough(c.config.Voters) && (!c.config.Joint() || enough(c.config.Outgoing))
}

// campaignTimer campaigns when it is time.
func (c *core) campaignTimer() {
	f := &c.failover
	begun := c.term > f.term
	f.term = c.term
	if c.lead != 0 || !c.votes(c.self) || !c.majority() {
		f.campaignAt = 0
		return
	}
	if begun {
		// Somebody is a candidate, maybe this node: let the votes come.
		f.campaignAt = c.now + (retryMin+c.jitter(retryJitter))<<min(f.candidates, retryDoublings)
		f.candidates++
		return
	}
	if f.campaignAt == 0 {
		f.campaignAt = c.now
		if !c.alone() {
			f.campaignAt += startPause + c.jitter(retryJitter)
		}
	}
	if c.now >= f.campaignAt {
		f.campaignAt = c.now + retryMin + c.jitter(retryJitter)
		_ = c.node.Campaign()
	}
}

func (c *core) jitter(limit time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(limit)))
}

// peerChanged takes what is known about a peer's streams.
func (c *core) peerChanged(e *event) {
	f := &c.failover
	switch e.kind {
	case evUp:
		f.up[e.from] = true
		delete(c.epochs.refused, e.from)
		if e.from == c.lead {
			c.sender.restart(c.now)
			c.epochs.askAt = min(c.epochs.askAt, c.now)
		}
	case evLost:
		f.up[e.from] = false
		c.node.ReportUnreachable(e.from) // what was sent may be lost: ask where it stands
		if s := c.packer.streams[e.from]; s != nil {
			s.id = 0 // a new process counts its streams anew
		}
	case evGone:
		f.up[e.from] = false
		if e.refused {
			c.refused(e.from)
		}
	default: // core.handle sends no others
	}
}

// refused: the peer's process is gone. Everyone is told, since the leader ends its epoch
// only on the word of two; if it was the leader, the election begins at once.
func (c *core) refused(node uint64) {
	c.epochs.refusedDial(node, c.self, c.now)
	for _, other := range c.others {
		if other != node {
			c.out.notes = append(c.out.notes, outNote{other, peer.Note{Kind: peer.NoteRefused, Node: node}})
		}
	}
	if node != c.lead {
		return
	}
	c.logger.Info("the leader is gone", "leader", node)
	// With check-quorum a follower that remembers a leader ignores votes until the election
	// timeout.
	_ = c.node.ForgetLeader()
	c.lead = 0
	c.failover.campaignAt = c.now + c.jitter(deadJitter)
}

// stays says that a node isn't to leave the cluster.
func (c *core) stays(id uint64) bool { return !c.progress.members.leaving(id) }

// handOver hands leadership to a node that stays in the cluster, 0: to any; to nobody else.
func (c *core) handOver(to uint64) {
	c.transfer(func(id uint64) bool { return c.stays(id) && (to == 0 || id == to) })
}

// transfer hands leadership to the voter that has most of the log, of those that fit; without one it stays here.
func (c *core) transfer(fits func(id uint64) bool) {
	if !c.leads() {
		return
	}
	best, match := uint64(0), uint64(0)
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		votes := c.config.Role(command.NodeID(id)) == state.RoleVoter
		if id != c.self && c.failover.up[id] && pr.Match >= match && votes && fits(id) {
			best, match = id, pr.Match
		}
	})
	if best != 0 {
		c.transferUntil = c.now + transferTimeout
		c.node.TransferLeader(best)
	}
}

// stalled follows a leader's own log: what the others have committed and this node's disk
// has not taken.
type stalled struct {
	match  uint64 // what is on disk here
	since  time.Duration
	commit uint64 // what was committed a tick ago
	behind int    // ticks at which that was not on disk here, less twice those at which it was
}

// checkDisk makes a leader with a stuck disk, or one that is slower than the others' all the time, hand over to those
// whose disks work. Where all are slow nothing is committed without this node's, and it stays.
func (c *core) checkDisk() {
	match := c.commit
	whole := map[uint64]bool{} // peers that have all that is committed
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == c.self {
			match = pr.Match
		} else if pr.Match >= c.commit {
			whole[id] = true
		}
	})
	d := &c.disk
	if match < d.commit {
		d.behind++
	} else {
		d.behind = max(0, d.behind-2)
	}
	d.commit = c.commit
	if d.behind >= slowTicks && !c.transferring() {
		d.behind = 0
		c.logger.Error("this node's disk is much slower than the others'; handing leadership over")
		c.transfer(func(id uint64) bool { return whole[id] && c.stays(id) })
		return
	}
	if match >= c.commit || match != c.disk.match {
		d.match, d.since = match, c.now
		return
	}
	if c.now-c.disk.since > diskStall && !c.transferring() {
		c.logger.Error("this node's disk takes nothing while the others' do; handing leadership over", "for", c.now-c.disk.since)
		c.transfer(c.stays)
	}
}

// tellCut computes what every node has on disk, and tells everyone: the log is cut
// below that [6.2], and beyond it only where it has become too long. Who was not heard of
// since is told again: it may have forgotten what it had acknowledged, and finds out by
// this alone.
func (c *core) tellCut() {
	everyone := c.commit
	var behind []uint64
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		everyone = min(everyone, pr.Match)
		// A learner may never have had it, and nothing hangs on what it has forgotten.
		if id != c.self && pr.Match < c.cutIndex && c.votes(id) {
			behind = append(behind, id)
		}
	})
	tell := behind
	if everyone > c.cutIndex {
		c.cutIndex, c.out.cut = everyone, everyone
		tell = c.others
	}
	for _, other := range tell {
		c.out.notes = append(c.out.notes, outNote{other, peer.Note{Kind: peer.NoteCut, Index: c.cutIndex}})
	}
}

// lagMeter measures how long ago the oldest entry that isn't applied here was known to be
// committed, by samples [3.5].
type lagMeter struct {
	known   uint64 // the highest index known committed, by whomever
	samples []lagSample
}

type lagSample struct {
	index uint64
	at    time.Duration
}

const lagSampleEvery = 100 * time.Millisecond

// committed notes the commit index of a leader's message.
func (l *lagMeter) committed(index uint64, kind pb.MessageType, _ time.Duration) {
	if kind == pb.MsgApp || kind == pb.MsgHeartbeat {
		l.known = max(l.known, index)
	}
}

// sample drops what is applied and adds what is known now.
func (l *lagMeter) sample(now time.Duration, applied uint64) {
	n := 0
	for n < len(l.samples) && l.samples[n].index <= applied {
		n++
	}
	l.samples = l.samples[n:]
	if l.known <= applied {
		return
	}
	if k := len(l.samples); k == 0 || l.samples[k-1].index < l.known && now-l.samples[k-1].at >= lagSampleEvery {
		l.samples = append(l.samples, lagSample{l.known, now})
	}
}

// of is the lag.
func (l *lagMeter) of(now time.Duration) time.Duration {
	if len(l.samples) == 0 {
		return 0
	}
	return now - l.samples[0].at
}
