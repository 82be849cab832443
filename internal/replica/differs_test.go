package replica

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// divided is the real machine, which answers an entry with the words "no two agree" as if it were the digests that showed that.
type divided struct{ *state.Machine }

func newDivided(s State) (machine, error) {
	m, err := loadMachine(s)
	return &divided{m}, err
}

func (m *divided) Apply(index uint64, entry []byte, out state.Changes, effects []command.Effect) ([]command.Effect, error) {
	effects, err := m.Machine.Apply(index, entry, out, effects)
	if bytes.Contains(entry, []byte("no two agree")) {
		for n := command.NodeID(1); n <= 3; n++ {
			effects = append(effects, command.Effect{Kind: command.EffectDigestDiffers, Node: n, Number: index})
		}
	}
	return effects, err
}

// 7.2: where no two nodes' digests agree, every one of them remembers it in its directory: a restart neither votes nor serves, until an
// operator has chosen one. What the entry had changed is not on the disk, so that dying before the mark changes nothing.
func TestNoTwoAgree(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.testMachine = newDivided })
	leader := c.leader() // which hears first that an entry is committed
	if _, err := leader.Request(t.Context(), &command.QueueCreate{Name: "before"}); err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Request(t.Context(), &command.QueueCreate{Name: "no two agree"}); err == nil {
		t.Fatal("it was answered")
	}
	var told []command.NodeID // the last one may never hear that the entry is committed
	c.wait("two nodes have ended", func() bool {
		for id, m := range c.nodes {
			select {
			case err := <-m.ran:
				if !errors.Is(err, ErrDamaged) || !errors.Is(err, ErrDiffers) {
					t.Fatalf("node %d ended with %v", id, err)
				}
				told = append(told, id)
			default:
			}
		}
		return len(told) >= 2
	})
	chosen := told[0]
	for range 2 { // a second start is no other
		for _, id := range told {
			c.start(id)
		}
		for _, id := range told {
			m := c.nodes[id]
			why := m.Recovering()
			if !errors.Is(why, store.ErrCorrupt) || !strings.Contains(why.Error(), "no two nodes agree") || m.Ready() == nil || m.Status().Role != roleRecovering {
				t.Errorf("node %d: %v, ready: %v, %s", id, why, m.Ready(), m.Status().Role)
			}
			for other := range c.peers {
				if other == id {
					continue
				}
				if answer, err := m.ask(t.Context(), uint64(other), &confirmQuery{}); err == nil && answer.Offer.Index > 0 {
					t.Errorf("node %d helps node %d with its state", other, id)
				}
			}
		}
		for _, id := range told {
			c.kill(id)
		}
	}
	f, err := Foresee(nil, c.dirs[chosen])
	if err != nil {
		t.Fatal(err)
	}
	if err := ForceNewCluster(ForceOptions{Dir: c.dirs[chosen], Cluster: [16]byte{0xAB}, History: f.History + 1}); err != nil {
		t.Fatal(err)
	}
	alone := newCluster(t, 0, func(o *Options) { o.testMachine = nil })
	alone.peers[chosen], alone.dirs[chosen] = "alone", c.dirs[chosen]
	m := alone.start(chosen)
	alone.wait("the chosen one is ready", func() bool { return m.Ready() == nil })
	if err := m.Read(t.Context(), func(s *state.Machine) {
		if len(s.Queues()) != 2 {
			t.Errorf("%d queues", len(s.Queues()))
		}
	}); err != nil {
		t.Error(err)
	}
}

// differing is a machine whose entries show that node 2 differs.
type differing struct{ machine }

func (differing) Apply(uint64, []byte, state.Changes, []command.Effect) ([]command.Effect, error) {
	return []command.Effect{{Kind: command.EffectDigestDiffers, Node: 2, Number: 4096}}, nil
}

// untouched is a state that takes nothing.
type untouched struct {
	State
	t *testing.T
}

func (u untouched) Apply(*store.Batch, uint64) error {
	u.t.Error("the changes of an entry that shows that the state differs went to the disk")
	return nil
}

// What an entry changes that shows that this node differs doesn't get to its disk.
func TestDiffersBeforeTheDisk(t *testing.T) {
	for agree := range uint32(2) {
		a := &applier{node: 2}
		own := command.Effect{Kind: command.EffectDigestDiffers, Node: 2, Number: 4096, Count: 2 * agree}
		other := command.Effect{Kind: command.EffectDigestDiffers, Node: 3, Number: 4096, Count: 2}
		if err := a.differs([]command.Effect{other, {Kind: command.EffectApplied, Node: 2}}); err != nil {
			t.Errorf("another node's: %v", err)
		}
		if err := a.differs([]command.Effect{other, own}); !errors.Is(err, ErrDiffers) || store.LossOf(err) != store.LostPromise {
			t.Errorf("%d agree: %v marks %d", 2*agree, err, store.LossOf(err))
		}
	}
	a := &applier{node: 2, machine: differing{}, state: untouched{t: t}, batch: new(store.Batch)}
	a.gathered = []*pb.Entry{{Index: proto.Uint64(5), Data: []byte("x")}}
	if err := a.group(); !errors.Is(err, ErrDiffers) {
		t.Errorf("the entry: %v", err)
	}
}
