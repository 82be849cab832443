package replica

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
)

const (
	// planEvery is how often a leader compares who is to be a member with raft's configuration.
	planEvery = 200 * time.Millisecond
	// changeRetry is when a change that was proposed and not applied is proposed again.
	changeRetry = time.Second
)

// membership is who the members are, as of an applied entry. It is never changed.
type membership struct {
	all  []state.MemberInfo
	last command.NodeID
}

func (m *membership) removed(id uint64) bool {
	return m != nil && command.NodeID(id) <= m.last && !slices.ContainsFunc(m.all, func(x state.MemberInfo) bool { return uint64(x.ID) == id })
}

// outside says that a node is no member, or that it is to go and raft's configuration is without it.
func (m *membership) outside(id uint64) bool {
	return m.removed(id) || m != nil && slices.ContainsFunc(m.all, func(x state.MemberInfo) bool {
		return uint64(x.ID) == id && x.Leaving && x.Role == state.RoleNone
	})
}

// leaving says that a member is to go.
func (m *membership) leaving(id uint64) bool {
	return m != nil && slices.ContainsFunc(m.all, func(x state.MemberInfo) bool { return uint64(x.ID) == id && x.Leaving })
}

// peers is the members as package peer wants them.
func (m *membership) peers() peer.Members {
	out := peer.Members{Addresses: map[uint64]string{}, Last: uint64(m.last)}
	for i := range m.all {
		out.Addresses[uint64(m.all[i].ID)] = m.all[i].Addresses.Peer
	}
	return out
}

// situation is what a leader sees of the cluster's members.
type situation struct {
	self    command.NodeID
	members []state.MemberInfo
	config  state.Configuration
	// caughtUp says that a node answers and has the log up to what was committed a moment ago.
	caughtUp func(command.NodeID) bool
}

// move is the next step towards what is wanted: a change of the configuration, a hand-over of leadership, the end of a membership, or nothing.
type move struct {
	change   *pb.ConfChangeV2
	transfer command.NodeID
	gone     command.NodeID
}

// plan compares raft's configuration with who is to be a member. Members begin as learners. Voters change only by joint changes, between
// one and three [8.8], and only once a majority of the new ones has caught up, so that the cluster never waits for a node to fill. A leader
// that goes hands over while the change is joint, when both configurations still agree on everything.
func plan(s *situation) move {
	if s.config.Joint() {
		return s.leaveJoint()
	}
	if s.config.Role(s.self) == state.RoleNone {
		return move{transfer: s.successor()} // it was elected before it knew
	}
	rest := move{}
	for i := range s.members {
		m := &s.members[i]
		switch role := s.config.Role(m.ID); {
		case role == state.RoleNone && m.Leaving:
			rest.gone = m.ID
		case role == state.RoleNone && !m.Leaving:
			return single(pb.ConfChangeAddLearnerNode, m.ID)
		case role == state.RoleLearner && m.Leaving:
			return single(pb.ConfChangeRemoveNode, m.ID)
		}
	}
	want := s.voters()
	ready := 0
	for _, id := range want {
		if id == s.self || s.caughtUp(id) {
			ready++
		}
	}
	if slices.Equal(want, s.config.Voters) || ready <= len(want)/2 {
		return rest
	}
	change := &pb.ConfChangeV2{Transition: pb.ConfChangeTransitionJointExplicit.Enum()}
	add := func(kind pb.ConfChangeType, ids []command.NodeID, but []command.NodeID) {
		for _, id := range ids {
			if !slices.Contains(but, id) {
				change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: proto.Uint64(uint64(id))})
			}
		}
	}
	add(pb.ConfChangeAddNode, want, s.config.Voters)
	add(pb.ConfChangeRemoveNode, s.config.Voters, want)
	return move{change: change}
}

func single(kind pb.ConfChangeType, id command.NodeID) move {
	return move{change: &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: proto.Uint64(uint64(id))}}}}
}

// leaveJoint ends a joint change, by one of the new voters.
func (s *situation) leaveJoint() move {
	if slices.Contains(s.config.Voters, s.self) {
		return move{change: &pb.ConfChangeV2{}}
	}
	return move{transfer: s.successor()}
}

// successor is the voter to hand over to: one that stays in the cluster where there is one that has caught up. 0: nobody has.
func (s *situation) successor() (next command.NodeID) {
	for _, id := range s.config.Voters {
		switch leaves := s.leaving(id); {
		case s.caughtUp(id) && !leaves:
			return id
		case s.caughtUp(id) && next == 0:
			next = id // it hands over in its turn
		}
	}
	return next
}

// leaving says that a member is to go.
func (s *situation) leaving(id command.NodeID) bool {
	return (&membership{all: s.members}).leaving(uint64(id))
}

// voters are who should vote next, ascending: the voters that stay, then learners that have caught up, then, so that the number is three while
// others are on their way, voters that are to leave. What can't be reached now stays as it is.
func (s *situation) voters() []command.NodeID {
	var want, ready, leaving []command.NodeID
	staying := 0
	for i := range s.members {
		m := &s.members[i]
		voter := s.config.Role(m.ID) == state.RoleVoter
		if !m.Leaving {
			staying++
		}
		switch {
		case voter && m.Leaving:
			leaving = append(leaving, m.ID)
		case voter:
			want = append(want, m.ID)
		case !m.Leaving && s.caughtUp(m.ID):
			ready = append(ready, m.ID)
		}
	}
	number := 1
	if staying >= state.MaxVoters {
		number = state.MaxVoters
	}
	if len(want) > number {
		return s.config.Voters
	}
	want = append(want, ready[:min(len(ready), number-len(want))]...)
	if number == state.MaxVoters {
		want = append(want, leaving[:min(len(leaving), number-len(want))]...)
	}
	if len(want) != number {
		return s.config.Voters
	}
	slices.Sort(want)
	return want
}

// goes says that the joint change that is under way ends a member that is to leave. It gets no lease any more: the end of the change ends its epoch too, and
// what it went on to write then others would have been handed [3.8].
func (c *core) goes(id uint64) bool {
	return c.config.Role(command.NodeID(id)) == state.RoleOutgoing && c.progress.members.leaving(id)
}

// leased says that a member whose epoch the end of the joint change would end may still have a lease.
func (c *core) leased() bool {
	return slices.ContainsFunc(c.config.Outgoing, func(id command.NodeID) bool {
		return uint64(id) != c.self && c.goes(uint64(id)) && !c.epochs.unleased(uint64(id), c.now)
	})
}

// reconcile takes the next step towards the members that are wanted, on the leader. Whoever leads next goes on with it.
func (c *core) reconcile() {
	if !c.leads() || !c.safety || c.now < c.planAt || c.transferring() || !c.progress.founded || c.progress.members == nil {
		return
	}
	c.planAt = c.now + planEvery
	before := c.planMark
	c.planMark = c.commit
	if c.own == 0 || c.progress.index < c.own {
		return // raft takes no change before an entry of this term is applied
	}
	standing := map[command.NodeID]bool{}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		standing[command.NodeID(id)] = pr.RecentActive && c.failover.up[id] && pr.State == tracker.StateReplicate && pr.Match >= before
	})
	m := plan(&situation{
		self: command.NodeID(c.self), members: c.progress.members.all, config: c.config,
		caughtUp: func(id command.NodeID) bool { return standing[id] },
	})
	switch {
	case m.gone != 0:
		c.propose(&command.MemberGone{Node: m.gone})
	case m.transfer != 0:
		c.logger.Info("handing leadership over; this node is to leave the cluster", "to", uint64(m.transfer))
		c.transfer(func(id uint64) bool { return id == uint64(m.transfer) })
	case m.change != nil && c.config.Joint() && c.leased():
	case m.change != nil && c.now >= c.changeAt:
		c.changeAt = c.now + changeRetry
		c.logger.Info("changing the configuration", "change", raft.DescribeConfChange(m.change))
		if err := c.node.ProposeConfChange(m.change); err != nil {
			c.changeAt = 0
		}
	}
}
