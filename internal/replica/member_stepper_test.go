package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// changing is a stepped cluster whose nodes crash at any time while others take their places.
type changing struct {
	*stepped
	leaders map[uint64]uint64 // by term
	down    map[uint64]time.Duration
	torn    int // crashes between the append of a change and its apply (row 74)
	budget  int // how many of them may still come: a change is in the log until it can be applied
	calm    bool
}

// change is a node's change of the configuration that is in its log and not applied.
func (n *steppedNode) change() bool {
	applied, last := n.state.AppliedIndex(), n.log.LastIndex()
	entries, err := n.log.Entries(nil, max(applied+1, n.log.FirstIndex()), last+1, 1<<20)
	n.must(err)
	return slices.ContainsFunc(entries, func(e store.Entry) bool { return pb.EntryType(e.Type) == pb.EntryConfChangeV2 })
}

// chaos is what may happen in a millisecond; two nodes are down at most.
func (c *changing) chaos() {
	for _, n := range c.nodes {
		if n.Stepper == nil {
			if at, ok := c.down[n.id]; ok && c.now >= at {
				delete(c.down, n.id)
				n.start()
			}
			continue
		}
		if n.ended != nil {
			n.crash()
			continue
		}
		if st := n.Status(); st.Role == roleLeader {
			if other, ok := c.leaders[st.Term]; ok && other != n.id {
				c.t.Fatalf("n%d and n%d both lead term %d", other, n.id, st.Term) // K8
			}
			c.leaders[st.Term] = n.id
		}
		torn := c.budget > 0 && n.change() && c.rng.IntN(10) == 0
		if !c.calm && len(c.down) < 2 && (torn || c.rng.IntN(1500) == 0) {
			if torn {
				c.torn++
				c.budget--
			}
			if c.rng.IntN(2) == 0 {
				n.must(n.state.Flush()) // the next start goes on from here
			}
			n.crash()
			c.down[n.id] = c.now + time.Duration(20+c.rng.IntN(600))*time.Millisecond
		}
	}
}

// during is until, with chaos.
func (c *changing) during(what string, ok func() bool) {
	c.t.Helper()
	c.until(what, func() bool { c.chaos(); return ok() })
}

// asks has any node make a request until one has an answer.
func (c *changing) asks(cmd func() command.Command) (e command.Effect) {
	c.t.Helper()
	answered, asked := false, -time.Second
	c.during("an answer", func() bool {
		for _, n := range c.nodes {
			if n.Stepper != nil && n.ended == nil && n.Ready() == nil && c.now > asked+500*time.Millisecond {
				asked = c.now
				_ = n.Request(cmd(), func(got command.Effect, err error) {
					if err == nil {
						e, answered = got, true
					}
				})
			}
		}
		return answered
	})
	return e
}

// replace lets a new node take the place of another one, and waits until it has.
func (c *changing) replace(old uint64, voters []command.NodeID) []command.NodeID {
	c.t.Helper()
	hash := [32]byte{byte(len(c.nodes))}
	c.asks(func() command.Command {
		return &command.TokenPut{Hash: hash, Expires: 1 << 50, Replace: command.NodeID(old)}
	})
	e := c.asks(func() command.Command {
		return &command.MemberAdd{Token: hash, Key: hash, Addresses: command.Addresses{Peer: "peer"}}
	})
	if e.Refusal != nil || e.Number != uint64(len(c.nodes)+1) {
		c.t.Fatalf("%+v %+v", e, e.Refusal)
	}
	c.budget = 4
	n := &steppedNode{w: c.stepped, id: e.Number, files: store.NewMemFS()}
	c.nodes = append(c.nodes, n)
	n.start()
	for i := range voters {
		if uint64(voters[i]) == old {
			voters[i] = command.NodeID(n.id)
		}
	}
	slices.Sort(voters)
	c.during(fmt.Sprintf("the voters %v", voters), func() bool { return c.agreed(voters) })
	return voters
}

// agreed says that all of the voters, and they alone, are there and have that configuration.
func (c *changing) agreed(voters []command.NodeID) bool {
	for _, id := range voters {
		n := c.nodes[id-1]
		if n.Stepper == nil {
			return false
		}
		now, _ := n.Machine().Configuration()
		if want := (state.Configuration{Voters: voters}); string(state.AppendConfiguration(nil, &now)) != string(state.AppendConfiguration(nil, &want)) {
			return false
		}
	}
	return true
}

// Rows 73 and 74: nodes are replaced one after the other, leaders too, while any node may lose its power at any moment, between the append of
// a change and its apply as well. Each change arrives, no term has two leaders, and what was answered is on every node at the end.
func TestMembersUnderCrashes(t *testing.T) {
	torn := 0
	for seed := range uint64(40) {
		c := &changing{stepped: newStepped(t, seed), leaders: map[uint64]uint64{}, down: map[uint64]time.Duration{}}
		c.uncut = true
		c.ready()
		voters := ids(1, 2, 3)
		var names []string
		for round := range 3 {
			name := fmt.Sprint("queue ", round)
			c.asks(func() command.Command { return &command.QueueCreate{Name: name} })
			names = append(names, name)
			old := uint64(voters[c.rng.IntN(3)])
			for _, n := range c.nodes {
				if n.Stepper != nil && n.ended == nil && n.Status().Role == roleLeader && slices.Contains(voters, command.NodeID(n.id)) && round%2 == 0 {
					old = n.id
				}
			}
			voters = c.replace(old, voters)
		}
		c.calm = true
		c.during("equal states", func() bool {
			if !c.agreed(voters) {
				return false
			}
			first := c.nodes[voters[0]-1]
			for _, id := range voters {
				n := c.nodes[id-1]
				if n.Ready() != nil || n.Status().Applied != first.Status().Applied {
					return false
				}
			}
			return true
		})
		for _, id := range voters {
			m := c.nodes[id-1].Machine()
			if m.Digest() != c.nodes[voters[0]-1].Machine().Digest() {
				t.Errorf("seed %d: n%d has another digest", seed, id)
			}
			for _, name := range names {
				if _, ok := m.Queue(name); !ok {
					t.Errorf("seed %d: n%d doesn't have %s", seed, id, name)
				}
			}
		}
		torn += c.torn
	}
	if torn == 0 {
		t.Error("no node lost its power between the append of a change and its apply")
	}
	t.Logf("%d crashes between append and apply of a change", torn)
}
