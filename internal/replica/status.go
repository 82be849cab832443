package replica

import (
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// The roles of Status.
const (
	roleLeader       = "leader"
	roleFollower     = "follower"
	roleCandidate    = "candidate"
	rolePreCandidate = "pre-candidate"
	roleRecovering   = "recovering"
)

// Status is a snapshot of a node for the admin API.
type Status struct {
	// Node is this node, Leader the known leader (0: none).
	Node, Leader command.NodeID
	// Role is leader, follower, candidate or pre-candidate; starting before Run has
	// joined the cluster; recovering of a node whose directory is damaged.
	Role string
	// Recovering is why the node recovers and takes no part, empty where it doesn't.
	Recovering string
	// Term, Commit and Applied are raft's; Applied is what the state machine has.
	Term, Commit, Applied uint64
	// Cluster is the cluster's id, zero until it is founded.
	Cluster [16]byte
	// Epoch is the node's present epoch, 0: none.
	Epoch command.Epoch
	// Lag is how long ago the oldest entry that isn't applied yet was committed.
	Lag time.Duration
	// LogBytes is the size of the log, Backlog the bytes proposed and not yet applied.
	LogBytes int64
	Backlog  int
	// SafetyOff: answers come before replication and fsync.
	SafetyOff bool
	// MayStop: the others go on when this node stops; Stop says why, or why not. Where this node doesn't lead it only knows whom it
	// reaches, not whom they reach.
	MayStop bool
	Stop    string
	// Alone: this node is the only one that votes.
	Alone bool
	// Peers is what is known of the other nodes of the configuration, by id.
	Peers []PeerStatus
}

// PeerStatus is one other node as seen from here.
type PeerStatus struct {
	Node command.NodeID
	// Connected: both streams to it are up.
	Connected bool
	// Match is the highest index known on its disk; only the leader knows.
	Match uint64
	// Role is what the node is in raft's configuration.
	Role state.Role
}

// publish shows the outcome of a step to other goroutines. The status is only made anew
// where something but indexes has changed; those are read where they are.
func (s *steps) publish() {
	c := s.core
	s.lease.Store(int64(c.barriers.granted(c.progress.index)))
	s.lagNanos.Store(int64(c.lag.of(c.now)))
	old := s.shown.Load()
	epoch, _, _ := s.home.life()
	if old.Role == roleName(c.role) && uint64(old.Leader) == c.lead && old.Term == c.term && old.Epoch == epoch &&
		old.Cluster == c.stamp.Cluster && c.now-s.shownAt < c.limits.Tick {
		return
	}
	s.shownAt = c.now
	now := &Status{
		Node: s.opts.Node, Leader: command.NodeID(c.lead), Role: roleName(c.role), Term: c.term, Commit: c.commit,
		Cluster: c.stamp.Cluster, Epoch: epoch, SafetyOff: s.opts.SafetyOff, Alone: c.alone(),
	}
	now.MayStop, now.Stop = c.mayStop()
	for _, other := range c.others {
		now.Peers = append(now.Peers, PeerStatus{
			Node: command.NodeID(other), Connected: c.failover.up[other], Role: c.config.Role(command.NodeID(other)),
		})
	}
	if c.leads() {
		c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			for i := range now.Peers {
				if uint64(now.Peers[i].Node) == id {
					now.Peers[i].Match = pr.Match
				}
			}
		})
	}
	s.shown.Store(now)
}

func roleName(role raft.StateType) string {
	switch role {
	case raft.StateLeader:
		return roleLeader
	case raft.StateCandidate:
		return roleCandidate
	case raft.StatePreCandidate:
		return rolePreCandidate
	default:
		return roleFollower
	}
}

// Status is a snapshot that costs nothing. Commit and Peers may be a tick old.
func (s *steps) Status() Status {
	now := *s.shown.Load()
	now.Applied = s.state.AppliedIndex()
	now.Commit = max(now.Commit, now.Applied)
	now.Epoch, _, _ = s.home.life()
	now.Lag, now.Backlog, now.LogBytes = s.Lag(), s.Backlog(), s.log.SizeBytes()
	return now
}

// Ready is nil when the node may get clients: a leader is known, its epoch is applied,
// it doesn't lag. Otherwise it says which of these. With safety off only the leader has an
// epoch; the others are ready without.
func (s *steps) Ready() error {
	shown := s.shown.Load()
	switch epoch, _, wanted := s.home.life(); {
	case !wanted:
		return ErrClosed
	case shown.Leader == 0:
		return fmt.Errorf("no leader is known: %w", ErrNoQuorum)
	case epoch == 0 && (!shown.SafetyOff || shown.Role == roleLeader):
		return ErrNoEpoch
	case s.Lagging():
		return fmt.Errorf("this node is %s behind the cluster", s.Lag().Round(time.Millisecond))
	}
	return nil
}

// Ready is nil when the node may get clients: it is live, a leader is known, its epoch is
// applied, it doesn't lag. Otherwise it says which of these. With safety off only the leader
// has an epoch; the others are ready without.
func (r *Replica) Ready() error {
	if err := r.Live(); err != nil {
		return err
	}
	if r.damage != nil {
		return fmt.Errorf("this node recovers from the others and takes no part yet: %w", r.damage)
	}
	return r.steps.Ready()
}

// Live is nil, or the reason why only a restart helps.
func (r *Replica) Live() error {
	if f := r.failure.Load(); f != nil {
		return *f
	}
	select {
	case <-r.done:
		return ErrClosed
	default:
		return nil
	}
}

// StateReport describes the state's tables on disk for a human reader.
func (r *Replica) StateReport() string { return r.files.Report() }
