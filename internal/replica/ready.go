package replica

import (
	"encoding/binary"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/peer"
)

// ready takes what raft wants done and sorts it: entries to the log, committed entries to
// the machine, messages to peers. With asynchronous storage writes the leader's append and
// its sends start at the same time.
func (c *core) ready() {
	rd := c.node.Ready()
	if rd.HardState != nil {
		c.term, c.commit = max(c.term, rd.HardState.GetTerm()), max(c.commit, rd.HardState.GetCommit())
		c.packer.commit = c.commit
		c.lag.known = max(c.lag.known, c.commit)
	}
	if rd.SoftState != nil {
		c.changed(rd.SoftState.RaftState, rd.SoftState.Lead)
	}
	for _, s := range rd.ReadStates {
		if len(s.RequestCtx) == 8 {
			c.barrierAnswered(binary.LittleEndian.Uint64(s.RequestCtx), s.Index)
		}
	}
	c.entries(rd.Entries)
	for _, m := range holdVotes(rd.Messages) {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.out.appends = append(c.out.appends, m)
		case raft.LocalApplyThread:
			c.out.applies = append(c.out.applies, applyJob{kind: jobCommitted, message: m})
		default:
			c.send(m)
		}
	}
}

// holdVotes puts what asks for votes behind the append that has the candidate's term and its own vote. Raft lets it go at
// once and only waits with counting the candidate's own vote: but two others' make a leader, and one that crashes before its
// term is on disk would come back in the term before, ask again, be voted for by those who had voted for it, and lead the
// same term with other entries: two logs with the same terms and indexes.
func holdVotes(messages []*pb.Message) []*pb.Message {
	at := slices.IndexFunc(messages, func(m *pb.Message) bool { return m.GetTo() == raft.LocalAppendThread })
	if at < 0 {
		return messages
	}
	write := messages[at]
	return slices.DeleteFunc(messages, func(m *pb.Message) bool {
		vote := m.GetType() == pb.MsgVote
		if vote {
			write.Responses = append(write.Responses, m)
		}
		return vote
	})
}

// entries looks at what is about to be appended.
func (c *core) entries(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	c.last = entries[len(entries)-1].GetIndex()
	for _, e := range entries {
		if c.own == 0 && c.leads() && e.GetTerm() == c.term {
			c.own = e.GetIndex()
		}
		if len(e.Data) == 0 || e.GetType() != pb.EntryNormal {
			continue
		}
		if h, _, err := command.DecodeEntry(e.Data); err == nil {
			c.clock.seen(h)
		}
		if c.leads() && e.GetTerm() == c.term {
			c.packer.appended(e.GetIndex(), len(e.Data))
			c.packer.fresh = max(0, c.packer.fresh-1)
		}
	}
	if (!c.safety || mutant.On(mutant.EarlyApply)) && c.leads() {
		c.out.applies = append(c.out.applies, applyJob{kind: jobEarly, entries: entries})
	}
}

// send passes a raft message on, with what rides along.
func (c *core) send(m *pb.Message) {
	if m.GetType() == pb.MsgReadIndexResp && (c.epochs.dooms(m.GetTo(), c.progress.epochs) || c.goes(m.GetTo())) {
		return // it asks again
	}
	c.out.sends = append(c.out.sends, m)
	switch m.GetType() {
	case pb.MsgHeartbeatResp:
		if c.now < c.clockAt+clockEvery {
			return
		}
		c.clockAt = c.now
		c.out.notes = append(c.out.notes, outNote{m.GetTo(), peer.Note{Kind: peer.NoteClock, Clock: c.civil}})
	case pb.MsgReadIndexResp:
		c.epochs.answered(m.GetTo(), c.now)
	default: // goes alone
	}
}

// changed takes a change of role or leader.
func (c *core) changed(role raft.StateType, lead uint64) {
	was := c.role
	if role != was || lead != c.lead {
		c.logger.Info("raft role", "role", role.String(), "leader", lead, "term", c.node.BasicStatus().GetTerm())
	}
	c.role = role
	if lead != c.lead {
		c.lead, c.leaderless = lead, c.now
		c.failover.leaderChanged(lead)
	}
	c.term = c.node.BasicStatus().GetTerm()
	if role == raft.StateLeader && was != role {
		c.elected()
	}
	if role != raft.StateLeader && was == raft.StateLeader {
		c.packer.reset()
		c.transferUntil = 0
		if !c.safety || mutant.On(mutant.EarlyApply) {
			c.out.applies = append(c.out.applies, applyJob{kind: jobEarly}) // no more of them
		}
	}
	c.again = true
	c.clockAt = -clockEvery // a new leader is told at once
	c.sender.restart(c.now)
	c.epochs.askAt = 0
	c.digests.at = c.now
}

// elected starts this node's leadership.
func (c *core) elected() {
	c.packer.reset()
	c.clock.elected(c.now)
	c.tickIndex, c.tickEntry = 0, 0
	c.own = 0
	c.planAt, c.changeAt, c.planMark = 0, 0, math.MaxUint64
	c.transferUntil = 0
	c.epochs.elected(c.now)
	c.disk = stalled{since: c.now}
	if !c.progress.founded {
		// The first command of a cluster, and of a new history: nothing comes before it. Repeats change nothing.
		founding := &command.ClusterInit{Cluster: c.stamp.Cluster, History: c.stamp.History, Level: command.Level, Version: c.version}
		for _, v := range c.stamp.Voters {
			founding.Voters = append(founding.Voters, command.NodeID(v))
		}
		c.propose(founding)
	}
}

// urgent reports that a raft message must not wait behind log entries.
func urgent(m *pb.Message) bool {
	return m.GetType() != pb.MsgApp && m.GetType() != pb.MsgSnap
}
