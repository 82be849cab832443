package state

import (
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// Configuration is who replicates the log as of an entry: raft's configuration. It is part of the state, so that it is
// on disk in the batch of the entry that made it. All lists ascend and are never changed in place.
type Configuration struct {
	// Voters are those whose majority commits.
	Voters []command.NodeID
	// Outgoing are the voters of before while a joint change is under way, whose majority is needed too; else empty.
	Outgoing []command.NodeID
	// Learners get the log and don't vote.
	Learners []command.NodeID
	// LearnersNext are outgoing voters that become learners when the joint change ends.
	LearnersNext []command.NodeID
	// AutoLeave says that raft ends the joint change by itself.
	AutoLeave bool
}

// Role is what a node is in a configuration.
type Role uint8

// The roles.
const (
	// RoleNone: it isn't in the configuration.
	RoleNone Role = iota
	// RoleLearner: it gets the log and doesn't vote.
	RoleLearner
	// RoleVoter: it votes.
	RoleVoter
	// RoleOutgoing: it votes until the joint change ends.
	RoleOutgoing
)

// String is the role's name as operators read it.
func (r Role) String() string {
	return [...]string{"none", "learner", "voter", "outgoing voter"}[min(r, RoleOutgoing)]
}

// Role is what a node is in the configuration.
func (c *Configuration) Role(id command.NodeID) Role {
	switch {
	case slices.Contains(c.Voters, id):
		return RoleVoter
	case slices.Contains(c.Outgoing, id):
		return RoleOutgoing
	case slices.Contains(c.Learners, id):
		return RoleLearner
	}
	return RoleNone
}

// Joint says that a joint change is under way.
func (c *Configuration) Joint() bool { return len(c.Outgoing) > 0 }

// Nodes are all nodes of the configuration, ascending, in a new slice.
func (c *Configuration) Nodes() []command.NodeID {
	all := slices.Concat(c.Voters, c.Outgoing, c.Learners)
	slices.Sort(all)
	return slices.Compact(all)
}

// AppendConfiguration adds the encoding of c to dst, as it stands under its key in the state.
func AppendConfiguration(dst []byte, c *Configuration) []byte {
	dst = putBools(dst, c.AutoLeave)
	for _, list := range c.lists() {
		dst = putUint(dst, uint64(len(*list)))
		for _, id := range *list {
			dst = putUint(dst, uint64(id))
		}
	}
	return dst
}

func (c *Configuration) lists() [4]*[]command.NodeID {
	return [4]*[]command.NodeID{&c.Voters, &c.Outgoing, &c.Learners, &c.LearnersNext}
}

// DecodeConfiguration is the inverse of AppendConfiguration. Errors wrap ErrState.
func DecodeConfiguration(src []byte) (c Configuration, err error) {
	f := fields{b: src}
	f.configuration(&c)
	if f.err == nil && len(f.b) != 0 {
		f.fault()
	}
	return c, f.err
}

func (f *fields) configuration(c *Configuration) {
	c.AutoLeave = f.byte()&1 != 0
	for _, list := range c.lists() {
		for range min(f.uint(), 4*maxMembers) {
			id := command.NodeID(f.uint())
			if n := len(*list); n > 0 && id <= (*list)[n-1] || id == 0 {
				f.fault()
			}
			*list = append(*list, id)
		}
	}
}

// ConfigurationKey is the key that Configure and ClusterInit write: what a tool that makes a state for other nodes
// replaces.
func ConfigurationKey(group uint16) []byte { return appendKey(nil, group, keyConfiguration) }

// Configuration is raft's configuration as of the last entry; ok is false before ClusterInit, when the founding voters
// are.
func (m *Machine) Configuration() (c Configuration, ok bool) {
	return m.configuration, m.founded
}

// Configure applies the entry at index, which changes raft's configuration to c, as Apply does: in the log's order, with
// changes and effects. Who is to leave and isn't in c any more serves nobody from then on; a member it is until MemberGone. c is the machine's.
func (m *Machine) Configure(index uint64, c Configuration, out Changes, effects []command.Effect) ([]command.Effect, error) {
	if !m.founded {
		return effects, fmt.Errorf("%w: entry %d changes the configuration of a cluster that isn't founded", ErrState, index)
	}
	m.beginEntry(index, out, effects)
	m.setConfiguration(c)
	for _, id := range sortedKeys(m.members) {
		if x := m.members[id]; x.leaving && c.Role(id) == RoleNone {
			m.silence(x)
		}
	}
	return m.endEntry(), nil
}

func (m *Machine) setConfiguration(c Configuration) {
	m.configuration = c
	m.dirty.configuration = true
	m.revision++
}
