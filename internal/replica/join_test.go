package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// grown is a cluster whose nodes come and go.
type grown struct {
	*cluster
	founders map[command.NodeID]string
	tokens   byte
}

// newGrown founds a cluster of size nodes with the real machine.
func newGrown(t *testing.T, size int, opts func(*Options)) *grown {
	g := &grown{founders: map[command.NodeID]string{}}
	g.cluster = &cluster{t: t, peers: map[command.NodeID]string{}, dirs: map[command.NodeID]string{}, nodes: map[command.NodeID]*member{}, wire: newWire()}
	g.opts = func(o *Options) {
		realMachine(o)
		o.Name = fmt.Sprintf("n%d", o.Node)
		o.Addresses = command.Addresses{Peer: g.peers[o.Node], AMQP: "amqp"}
		// A founder is given the list at the first start; afterwards, and who joins, only its own address.
		if empty, err := store.Empty(nil, o.Dir); err == nil && empty {
			o.Peers = g.founders
		} else {
			o.Peers = nil
		}
		var err error
		if o.Listener, err = net.Listen("tcp", g.peers[o.Node]); err != nil {
			t.Fatal(err)
		}
		if opts != nil {
			opts(o)
		}
	}
	for id := range command.NodeID(size) {
		g.place(id + 1)
		g.founders[id+1] = g.peers[id+1]
	}
	for id := range g.founders {
		g.start(id)
	}
	g.ready()
	return g
}

// place finds an address and a directory for a node.
func (g *grown) place(id command.NodeID) {
	g.peers[id], g.dirs[id] = freeAddrs(g.t, 1)[0], g.t.TempDir()
	g.t.Cleanup(func() { // before the directory goes
		if m := g.nodes[id]; m != nil {
			m.Close()
		}
	})
}

// asks has a member make a request, again where its answer is lost.
func (g *grown) asks(cmd func() command.Command) command.Effect {
	g.t.Helper()
	var e command.Effect
	g.wait("an answer", func() bool {
		for _, m := range g.nodes {
			if m.Ready() != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			var err error
			e, err = m.Request(ctx, cmd())
			return err == nil
		}
		return false
	})
	return e
}

// admit makes a member of a new node, with the directory that a joining one gets; it isn't started.
func (g *grown) admit(replace command.NodeID) command.NodeID {
	g.t.Helper()
	g.tokens++
	secret := [32]byte{g.tokens}
	expires := time.Now().Add(time.Hour).UnixMilli()
	// Asked again it may be there already.
	g.asks(func() command.Command { return &command.TokenPut{Hash: secret, Expires: expires, Replace: replace} })
	e := g.asks(func() command.Command {
		return &command.MemberAdd{Token: secret, Key: secret, Addresses: command.Addresses{Peer: "later"}}
	})
	if e.Refusal != nil {
		g.t.Fatalf("joining: %+v", e.Refusal)
	}
	id := command.NodeID(e.Number)
	g.place(id)
	d, err := store.Open(store.Options{Dir: g.dirs[id], Node: uint64(id)})
	if err != nil {
		g.t.Fatal(err)
	}
	defer d.Close()
	known := map[uint64]string{uint64(id): g.peers[id]}
	for other := range g.nodes {
		known[uint64(other)] = g.peers[other]
	}
	var voters []uint64
	for id := range g.founders {
		voters = append(voters, uint64(id))
	}
	slices.Sort(voters)
	for _, m := range g.nodes {
		s := m.dir.Stamp()
		if err := errors.Join(d.SetVoters(voters), d.SetMembers(known), d.SetCluster(s.Cluster, s.History)); err != nil {
			g.t.Fatal(err)
		}
		break
	}
	return id
}

// join is admit, and the node's first start.
func (g *grown) join(replace command.NodeID) *member {
	g.t.Helper()
	return g.start(g.admit(replace))
}

// configured waits until all running nodes have a configuration.
func (g *grown) configured(want state.Configuration) {
	g.t.Helper()
	g.wait(fmt.Sprintf("the configuration %+v", want), func() bool {
		for _, m := range g.nodes {
			var got state.Configuration
			err := m.Read(g.soon(), func(s *state.Machine) { got, _ = s.Configuration() })
			if err != nil || string(state.AppendConfiguration(nil, &got)) != string(state.AppendConfiguration(nil, &want)) {
				return false
			}
		}
		return true
	})
}

// ends waits until a node has ended, and forgets it.
func (g *grown) ends(id command.NodeID, want error) {
	g.t.Helper()
	select {
	case err := <-g.nodes[id].ran:
		if !errors.Is(err, want) {
			g.t.Errorf("node %d ended with %v, want %v", id, err, want)
		}
	case <-time.After(20 * time.Second):
		g.t.Fatalf("node %d doesn't end", id)
	}
	delete(g.nodes, id)
}

// writes puts a queue's name into the log, through any node.
func (g *grown) writes(name string) {
	g.t.Helper()
	if e := g.asks(func() command.Command { return &command.QueueCreate{Name: name} }); e.Refusal != nil {
		g.t.Fatalf("%+v", e.Refusal)
	}
}

// has wants queues in the state of every node.
func (g *grown) has(names ...string) {
	g.t.Helper()
	g.digests()
	for _, m := range g.nodes {
		err := m.Read(g.soon(), func(s *state.Machine) {
			for _, name := range names {
				if _, ok := s.Queue(name); !ok {
					g.t.Errorf("node %d doesn't have %q", m.id, name)
				}
			}
		})
		if err != nil {
			g.t.Error(err)
		}
	}
}

// [8.8] A lone node grows to three: with one learner nothing changes, with two all three vote. Then any of them may be lost.
func TestGrow(t *testing.T) {
	g := newGrown(t, 1, nil)
	g.writes("one")
	if ok, why := g.nodes[1].Status().MayStop, g.nodes[1].Status().Stop; !ok || why == "" {
		t.Errorf("a lone node: %v %s", ok, why)
	}
	g.join(0)
	g.ready() // a learner has an epoch, and so clients
	g.configured(state.Configuration{Voters: ids(1), Learners: ids(2)})
	g.writes("two")
	g.join(0)
	g.configured(state.Configuration{Voters: ids(1, 2, 3)})
	g.writes("three")
	g.has("one", "two", "three")
	for _, m := range g.nodes {
		g.wait("two others", func() bool { return m.Status().MayStop })
	}
	for id := range g.nodes {
		g.kill(id)
		g.writes(fmt.Sprintf("without %d", id))
		g.wait("one of two must not stop", func() bool { st := g.leader().Status(); return !st.MayStop && !st.Alone })
		g.start(id)
		g.ready()
	}
	g.has("without 1", "without 2", "without 3")
	var names []string
	for _, m := range g.nodes {
		if err := m.Read(t.Context(), func(s *state.Machine) {
			for _, x := range s.Members() {
				names = append(names, x.Name+" "+x.Addresses.AMQP)
				if x.Addresses.Peer != g.peers[x.ID] || !x.Up {
					t.Errorf("%+v", x)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		break
	}
	if !slices.Equal(names, []string{"n1 amqp", "n2 amqp", "n3 amqp"}) {
		t.Errorf("%v", names)
	}
}

// A dead node is replaced; when it comes back it is told so and ends, and so does its next start.
func TestReplaceDead(t *testing.T) {
	g := newGrown(t, 3, nil)
	g.kill(3)
	g.join(3)
	g.configured(state.Configuration{Voters: ids(1, 2, 4)})
	g.writes("four")
	g.kill(2)
	g.writes("two of three")
	g.has("four", "two of three")
	for range 2 {
		g.start(3)
		g.ends(3, ErrRemoved)
	}
	g.start(2)
	g.ready()
	g.has("two of three")
}

// [8.8] The leader is replaced while it leads: it hands over within the change, and ends by its own state.
func TestReplaceLeader(t *testing.T) {
	g := newGrown(t, 3, nil)
	old := g.leader().id
	g.join(old)
	g.ends(old, ErrRemoved)
	var voters []command.NodeID
	for id := range g.nodes {
		voters = append(voters, id)
	}
	slices.Sort(voters)
	g.configured(state.Configuration{Voters: voters})
	g.writes("without the leader")
	g.has("without the leader")
	g.start(old)
	g.ends(old, ErrRemoved)
}

// Two of three leave together, the leader among them, and one goes on alone [8.8].
func TestShrink(t *testing.T) {
	g := newGrown(t, 3, nil)
	l := g.leader().id
	stays := l%3 + 1
	goes := ids(l, 6-l-stays)
	slices.Sort(goes)
	if e := g.asks(func() command.Command { return &command.MemberRemove{Nodes: goes[:1]} }); e.Refusal == nil {
		t.Error("one of three may leave")
	}
	if e := g.asks(func() command.Command { return &command.MemberRemove{Nodes: goes} }); e.Refusal != nil {
		t.Fatalf("%+v", e.Refusal)
	}
	for _, id := range goes {
		g.ends(id, ErrRemoved)
	}
	g.configured(state.Configuration{Voters: ids(stays)})
	g.wait("the last one", func() bool { return g.nodes[stays].Status().Alone })
	g.writes("alone")
	g.kill(stays)
	g.start(stays)
	g.ready()
	g.has("alone")
}

// A node that joins where the log doesn't begin with the first entry any more gets a checkpoint, with the configuration in it [6.4].
func TestJoinBySnapshot(t *testing.T) {
	g := newGrown(t, 3, smallLogs)
	for i := range 100 {
		g.writes(fmt.Sprintf("%03d%0240d", i, i))
	}
	for _, m := range g.nodes {
		if err := m.files.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	g.wait("cut logs", func() bool {
		for _, m := range g.nodes {
			if m.log.FirstIndex() < 10 {
				return false
			}
		}
		return true
	})
	g.kill(3)
	m := g.join(3)
	g.ends(m.id, ErrInstalled)
	g.start(m.id)
	g.configured(state.Configuration{Voters: ids(1, 2, 4)})
	g.writes("behind the checkpoint")
	g.has("behind the checkpoint")
}

// Row 73: the leader is cut off in the middle of a change. The others go on with it or without it, and when it is back there is one
// configuration, the one that was wanted, and nothing that was answered is lost.
func TestPartitionInChange(t *testing.T) {
	for _, at := range []state.Role{state.RoleLearner, state.RoleVoter} {
		t.Run(at.String(), func(t *testing.T) {
			g := newGrown(t, 3, nil)
			l := g.leader()
			out := l.id%3 + 1
			g.writes("before")
			m := g.join(out)
			g.wait("the change", func() bool {
				for _, p := range l.Status().Peers {
					if p.Node == m.id && p.Role >= at {
						return true
					}
				}
				return false
			})
			g.isolate(l.id, true)
			g.wait("another leader", func() bool {
				for id, n := range g.nodes {
					if st := n.Status(); id != l.id && st.Role == roleLeader {
						return true
					}
				}
				return false
			})
			cut := g.nodes[l.id]
			delete(g.nodes, l.id)
			g.wait("a write", func() bool {
				for _, n := range g.nodes {
					if n.Ready() == nil {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						e, err := n.Request(ctx, &command.QueueCreate{Name: "meanwhile"})
						return err == nil && e.Refusal == nil
					}
				}
				return false
			})
			g.nodes[l.id] = cut
			g.isolate(l.id, false)
			g.ends(out, ErrRemoved)
			want := ids(l.id, 6-l.id-out, m.id)
			slices.Sort(want)
			g.configured(state.Configuration{Voters: want})
			g.has("before", "meanwhile")
		})
	}
}

// Leadership goes where it is asked to go, by whichever node is asked, and to nobody who doesn't vote.
func TestTransfer(t *testing.T) {
	g := newGrown(t, 3, nil)
	learner := g.join(0)
	g.configured(state.Configuration{Voters: ids(1, 2, 3), Learners: ids(4)})
	for range 2 {
		l := g.leader()
		to := g.follower()
		if err := to.Transfer(t.Context(), to.id); err != nil || g.leader().id != to.id {
			t.Fatalf("from %d to %d: %v", l.id, to.id, err)
		}
	}
	l := g.leader()
	if err := l.Transfer(t.Context(), learner.id); !errors.Is(err, ErrNotLeading) {
		t.Errorf("to a learner: %v", err)
	}
	if err := g.leader().StepDown(t.Context()); err != nil || g.leader().id == l.id {
		t.Errorf("stepping down: %v", err)
	}
	if err := l.StepDown(t.Context()); err != nil {
		t.Errorf("one that doesn't lead: %v", err)
	}
}

// What a start knows of the members is the newer of what was noted and what the state says, and nothing of another history.
func TestKnownMembers(t *testing.T) {
	g := newGrown(t, 3, nil)
	g.kill(3)
	g.join(3)
	g.configured(state.Configuration{Voters: ids(1, 2, 4)})
	one := g.nodes[1]
	g.wait("the list", func() bool {
		m, err := one.dir.Members()
		return err == nil && len(m) == 3 && m[4] == g.peers[4]
	})
	if err := one.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(g.nodes, 1)
	r, err := Open(g.options(1, &box{}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.dir.SetMembers(map[uint64]string{1: "", 2: "elsewhere", 3: "removed", 4: "", 9: "new"}); err != nil {
		t.Fatal(err)
	}
	got := r.known()
	if _, removed := got.Addresses[3]; removed || got.Last != 9 || got.Addresses[2] != "elsewhere" || got.Addresses[9] != "new" || got.Addresses[4] != g.peers[4] {
		t.Errorf("%+v", got)
	}
}
