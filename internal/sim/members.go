package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// configured is a configuration that was committed, and the entry that made it; 0 is the founders'.
type configured struct {
	index uint64
	state.Configuration
}

// confChange is the type of an entry that changes the configuration.
const confChange = 2

// newNode makes a node, and what carries frames between it and the others; it isn't started.
func (w *world) newNode(exact bool) *node {
	n := &node{w: w, id: len(w.nodes) + 1, rate: 1_000_000, conns: map[uint64]*conn{}}
	if !exact {
		n.rate += int64(w.rng.IntN(2*w.knobs.drift+1) - w.knobs.drift)
	}
	n.limits = w.knobs.limits
	if n.limits.Tick == 0 {
		n.limits.Tick = 100 * time.Millisecond
	}
	n.limits.Tick += time.Duration(w.rng.IntN(20)) * time.Millisecond
	n.disk = NewDisk(rand.New(rand.NewPCG(w.rng.Uint64(), uint64(n.id))), DiskOptions{FlushBytes: w.knobs.flush, Real: w.knobs.real && w.cfg.Retain == 0})
	w.nodes = append(w.nodes, n)
	var row []*link
	for i, other := range w.nodes {
		row = append(row, &link{w: w, from: n, to: other})
		if other != n {
			w.links[i] = append(w.links[i], &link{w: w, from: other, to: n})
		}
	}
	w.links = append(w.links, row)
	return n
}

// turnMemberKnobs are those of a world whose members change: there is more time, and mostly so little log that who comes anew needs a
// checkpoint.
func (w *world) turnMemberKnobs(k *knobs) {
	w.count("members change")
	k.length += 4 * time.Second
	if w.chance(60) {
		k.limits.RetainBytes, k.limits.KeepEvery = int64(500+w.rng.IntN(4000)), w.between(20*time.Millisecond, 300*time.Millisecond)
		k.limits.LogFlushBytes = k.limits.RetainBytes
	}
}

// reach is how many nodes a client has the addresses of: those that come later have them reserved.
func (w *world) reach() int {
	if w.operator != nil {
		return max(len(w.nodes), w.operator.most)
	}
	return len(w.nodes)
}

// nodeAt is a node by its id, nil while it hasn't come.
func (w *world) nodeAt(id int) *node {
	if id < 1 || id > len(w.nodes) {
		return nil
	}
	return w.nodes[id-1]
}

// noteConfiguration notes the configuration that an entry which is committed has made. No two are under way at a time: a leader
// proposes the next when it has applied the one before.
func (w *world) noteConfiguration(n *node, index uint64) {
	c, _ := n.step.Machine().Configuration()
	w.configs = append(w.configs, configured{index, c})
	w.count("configuration changed")
	switch {
	case c.Joint():
		w.count("joint configuration")
		w.say("entry %d makes %v the voters in the place of %v", index, c.Voters, c.Outgoing)
	case len(c.Learners) > 0:
		w.count("learner")
		w.say("with entry %d the voters are %v, %v learn", index, c.Voters, c.Learners)
	default:
		w.say("with entry %d the voters are %v", index, c.Voters)
	}
}

// recent are the configurations by one of which a leader may count: the newest, and the one before, which holds where the newest isn't
// applied.
func (w *world) recent() []configured { return w.configs[max(0, len(w.configs)-2):] }

// electorates are the sets of voters of the recent configurations, each of which has a majority of its own.
func (w *world) electorates() (all [][]command.NodeID) {
	for i := range w.recent() {
		c := &w.recent()[i]
		all = append(all, c.Voters)
		if c.Joint() {
			all = append(all, c.Outgoing)
		}
	}
	return all
}

// safe says that an entry is where it must be once it is committed: a configuration's majority has it on disk, both of a joint one. The node
// that has a right to have forgotten it counts as one that has it.
func (w *world) safe(index uint64, is stored) bool {
	majority := func(voters []command.NodeID) bool {
		have := 0
		for _, id := range voters {
			if n := w.nodeAt(int(id)); n != nil && (n == w.doomed || n.owed.has(index, is)) {
				have++
			}
		}
		return have > len(voters)/2
	}
	for i := range w.recent() {
		c := &w.recent()[i]
		if majority(c.Voters) && (!c.Joint() || majority(c.Outgoing)) {
			return true
		}
	}
	return false
}

// spare says that the others decide without a node, whichever of the recent configurations counts.
func (w *world) spare(n *node) bool {
	for _, voters := range w.electorates() {
		if slices.Contains(voters, command.NodeID(n.id)) && len(voters) < 3 {
			return false
		}
	}
	return true
}

// noteRemoved notes who a node has applied to be no member any more: it ends what it had with it, as package peer does.
func (w *world) noteRemoved(n *node) {
	if w.operator == nil {
		return
	}
	m := n.step.Machine()
	for _, other := range w.nodes {
		if other == n || !m.Removed(command.NodeID(other.id)) {
			continue
		}
		if !m.Removed(command.NodeID(n.id)) {
			w.expel(other) // until a member knows it, its vote may be needed
		}
		w.link(n, other).drop()
		w.link(other, n).lose()
	}
}

// expel notes that a node was removed: what its disk may have forgotten, or that it never comes back, hurts nobody any more.
func (w *world) expel(n *node) {
	if n.removed {
		return
	}
	n.removed = true
	w.count("node removed")
	w.say("n%d is no member any more", n.id)
	if w.doomed == n {
		w.doomed = nil
	}
	if w.lost == n {
		w.lost = nil
	}
	n.held, n.recovering = false, false
}

// leaves ends a process for good that has learned that its node was removed (ErrRemoved). Only one that was has a right to.
func (n *node) leaves(err error) bool {
	if !errors.Is(err, replica.ErrRemoved) {
		return false
	}
	if !n.removed && n.step != nil && n.step.Machine().Removed(command.NodeID(n.id)) {
		n.w.expel(n)
	}
	if !n.removed {
		n.w.fail("K8", "n%d ends as one that was removed, and it was not: %v", n.id, err)
	}
	n.w.count("removed node ended")
	n.w.say("n%d ends: %v", n.id, err)
	n.gone = true
	n.crash(false)
	return true
}

// stranger handles a dial between two of which one may know that the other was removed; true: nothing comes of it.
func (l *link) stranger() bool {
	if l.w.operator == nil {
		return false
	}
	if l.from.step.Machine().Removed(command.NodeID(l.to.id)) {
		return true // nobody dials who was removed
	}
	if m := l.to.step.Machine(); m.Removed(command.NodeID(l.to.id)) && m.Removed(command.NodeID(l.from.id)) {
		l.dial(time.Second) // only a member may say so
		return true
	}
	if !l.to.step.Machine().Removed(command.NodeID(l.from.id)) {
		return false
	}
	l.w.count("removed node told so")
	l.from.step.Removed(uint64(l.to.id))
	l.from.kick()
	l.dial(time.Second)
	return true
}

// membersBound is for how long a change of the members may go on, once all are healed.
const membersBound = 40 * time.Second

// settleMembers waits until the members are as they are to be (K10), on every node that is one, and nobody else goes on.
func (w *world) settleMembers() {
	if w.operator == nil || w.fatal != "" || w.dead != nil || w.lost != nil {
		return
	}
	var wrong string
	look := time.Duration(0)
	w.runUntil(w.now+membersBound, func() bool {
		if w.now < look {
			return false
		}
		look = w.now + 50*time.Millisecond
		wrong = w.unsettled()
		return wrong == ""
	})
	if wrong != "" && w.fatal == "" {
		w.fail("K10", "%v after everything was healed %s; %s", membersBound, wrong, w.stand())
	}
}

// unsettled is what isn't as it is to be, "" for nothing.
func (w *world) unsettled() string {
	m := w.machine()
	if m == nil {
		return "no node is up"
	}
	c, _ := m.Configuration()
	members := m.Members()
	switch want := min(len(members), state.MaxVoters) | 1; {
	case slices.ContainsFunc(members, func(x state.MemberInfo) bool { return x.Leaving }):
		return "a member hasn't left"
	case c.Joint() || len(members) != 2 && len(c.Voters) != want:
		return "the configuration isn't what it is to be"
	}
	for _, n := range w.nodes {
		member := c.Role(command.NodeID(n.id)) != state.RoleNone
		switch {
		case !member && n.up && !n.gone:
			return "a node that was removed goes on"
		case !member || n.gone:
		case !n.up || n.epoch == 0:
			return "a member doesn't serve"
		default:
			own, _ := n.step.Machine().Configuration()
			if string(state.AppendConfiguration(nil, &own)) != string(state.AppendConfiguration(nil, &c)) {
				return "nodes have different configurations"
			}
		}
	}
	return w.operator.unkept(m)
}

// leaves says that a node is no member, or that the configuration is without it: it serves nobody.
func (w *world) leaves(n *node) bool {
	m := w.machine()
	if m == nil || w.operator == nil {
		return false
	}
	c, _ := m.Configuration()
	return m.Removed(command.NodeID(n.id)) || c.Role(command.NodeID(n.id)) == state.RoleNone
}
