package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/state"
)

// Raft's configuration belongs to the state at its index: it is written with the changes of the entry that makes it, and a start takes it
// from there. Both goroutines compute it from that entry: the apply goroutine, whose result counts, and raft's, which is told of the entry
// before it hears that it is applied.

// confChange is a change of the configuration that this replica has applied.
type confChange struct {
	index  uint64
	change *pb.ConfChangeV2
	now    state.Configuration // behind it
}

// confState is a configuration as raft has it.
func confState(c *state.Configuration) *pb.ConfState {
	return pb.EnsureConfState(&pb.ConfState{
		Voters: plain(c.Voters), VotersOutgoing: plain(c.Outgoing), Learners: plain(c.Learners), LearnersNext: plain(c.LearnersNext),
		AutoLeave: proto.Bool(c.AutoLeave),
	})
}

// configurationOf is the inverse of confState.
func configurationOf(c *pb.ConfState) state.Configuration {
	return state.Configuration{
		Voters: named(c.GetVoters()), Outgoing: named(c.GetVotersOutgoing()), Learners: named(c.GetLearners()), LearnersNext: named(c.GetLearnersNext()),
		AutoLeave: c.GetAutoLeave(),
	}
}

func plain(ids []command.NodeID) []uint64 {
	var out []uint64
	for _, id := range ids {
		out = append(out, uint64(id))
	}
	return out
}

// named are ids of raft's as nodes, ascending.
func named(ids []uint64) []command.NodeID {
	var out []command.NodeID
	for _, id := range ids {
		out = append(out, command.NodeID(id))
	}
	slices.Sort(out)
	return out
}

// decodeChange reads an entry that changes the configuration.
func decodeChange(e *pb.Entry) (*pb.ConfChangeV2, error) {
	c := new(pb.ConfChangeV2)
	if err := proto.Unmarshal(e.Data, c); err != nil {
		return nil, fmt.Errorf("entry %d changes the configuration and can't be read: %w", e.GetIndex(), err)
	}
	return c, nil
}

// changed is the configuration behind a change, computed as raft does.
func changed(before state.Configuration, c *pb.ConfChangeV2) (state.Configuration, error) {
	now := tracker.MakeProgressTracker(1, 0)
	cfg, progress, err := confchange.Restore(confchange.Changer{Tracker: now}, confState(&before))
	if err != nil {
		return before, err
	}
	now.Config, now.Progress = cfg, progress
	changer := confchange.Changer{Tracker: now}
	if c.LeaveJoint() {
		cfg, _, err = changer.LeaveJoint()
	} else if auto, joint := c.EnterJoint(); joint {
		cfg, _, err = changer.EnterJoint(auto, c.Changes...)
	} else {
		cfg, _, err = changer.Simple(c.Changes...)
	}
	if err != nil {
		return before, err
	}
	now.Config = cfg
	return configurationOf(now.ConfState()), nil
}

// configure applies an entry that changes the configuration.
func (a *applier) configure(e *pb.Entry, effects []command.Effect) ([]command.Effect, error) {
	change, err := decodeChange(e)
	if err != nil {
		return effects, err
	}
	before, _ := a.machine.Configuration()
	now, err := changed(before, change)
	if err != nil {
		return effects, fmt.Errorf("entry %d changes the configuration %+v: %w; report this as a bug", e.GetIndex(), before, err)
	}
	a.out.changes = append(a.out.changes, confChange{e.GetIndex(), change, now})
	return a.machine.Configure(e.GetIndex(), now, a.batch, effects)
}

// reconfigure makes raft's configuration the one that this replica has applied, before raft hears that it did.
func (c *core) reconfigure(changes []confChange) {
	for i := range changes {
		x := &changes[i]
		if mutant.On(mutant.OldQuorum) && c.leads() {
			c.configured(x.now)
			continue
		}
		now := configurationOf(c.node.ApplyConfChange(x.change))
		if a, b := state.AppendConfiguration(nil, &now), state.AppendConfiguration(nil, &x.now); string(a) != string(b) {
			c.out.lost = fmt.Errorf("entry %d makes raft's configuration %+v, the state's %+v; report this as a bug", x.index, now, x.now)
			return
		}
		c.logger.Info("the configuration has changed", "entry", x.index, "voters", now.Voters, "outgoing", now.Outgoing, "learners", now.Learners)
		c.configured(now)
		c.planAt = 0
	}
}

// configured makes the rest of the node follow raft's configuration.
func (c *core) configured(now state.Configuration) {
	c.config = now
	c.storage.conf = now
	c.others = nil
	for _, id := range now.Nodes() {
		if uint64(id) != c.self {
			c.others = append(c.others, uint64(id))
		}
	}
	c.packer.setNodes(append([]uint64{c.self}, c.others...))
	c.epochs.setNodes(c.others, c.now)
	c.clock.setVoters(plain(now.Voters), c.self)
	for id := range c.failover.up {
		if r := c.progress.members; r != nil && r.removed(id) {
			delete(c.failover.up, id)
		}
	}
	c.again = true
}

// votes says that a node's vote counts, be it until a joint change ends.
func (c *core) votes(id uint64) bool {
	r := c.config.Role(command.NodeID(id))
	return r == state.RoleVoter || r == state.RoleOutgoing
}

// alone says that this node is the only one whose vote counts.
func (c *core) alone() bool {
	return len(c.config.Voters) == 1 && c.votes(c.self) && !c.config.Joint()
}
