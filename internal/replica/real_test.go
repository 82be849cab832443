package replica

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

func realMachine(o *Options) { o.testMachine = nil }

// digests waits until all nodes have the same digest at the same applied index.
func (c *cluster) digests() {
	c.t.Helper()
	c.wait("equal digests", func() bool {
		var sums, indexes []uint64
		for _, m := range c.nodes {
			err := m.Read(c.soon(), func(s *state.Machine) {
				sums = append(sums, s.Digest())
				indexes = append(indexes, m.Status().Applied)
			})
			if err != nil {
				return false
			}
		}
		return len(slices.Compact(sums)) == 1 && len(slices.Compact(indexes)) == 1
	})
}

// effects is a Mailbox that hands everything to a channel.
type effects struct {
	ch     chan command.Effect
	epochs chan command.Epoch
}

func (b *effects) Deliver(_ uint64, effects []command.Effect) {
	for _, e := range effects {
		b.ch <- e
	}
}
func (b *effects) EpochBegun(e command.Epoch) { b.epochs <- e }
func (b *effects) EpochEnded(string)          {}

func (b *effects) want(t *testing.T, kind command.EffectKind) command.Effect {
	t.Helper()
	select {
	case e := <-b.ch:
		if e.Kind != kind || e.Refusal != nil {
			t.Fatalf("effect %+v, want kind %d", e, kind)
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatalf("no effect of kind %d", kind)
	}
	panic("unreachable")
}

// A message goes in at one node and comes out at another, its body from the store, through
// the real machine; all nodes have the same digest, before and after a restart of all.
func TestRealMachine(t *testing.T) {
	boxes := map[command.NodeID]*effects{}
	c := newCluster(t, 3, func(o *Options) {
		realMachine(o)
		b := &effects{make(chan command.Effect, 1000), make(chan command.Epoch, 10)}
		boxes[o.Node] = b
		o.Mailbox = b
	})
	f := c.follower()
	b := boxes[f.id]
	for want, existed := range []bool{false, true} {
		e, err := f.Request(t.Context(), &command.QueueCreate{Name: "q"})
		if err != nil || e.Refusal != nil || e.Existed != existed {
			t.Fatalf("creating, time %d: %+v, %v", want, e, err)
		}
	}
	propose := func(cs ...command.Command) {
		var body []byte
		for _, c := range cs {
			body = command.Append(body, c)
		}
		if !f.Propose(body) {
			t.Fatal("no epoch")
		}
	}
	propose(&command.ConnOpen{Local: 7, Principal: "p", ContainerID: "c"})
	conn := b.want(t, command.EffectConnOpened).Detail.(*command.ConnOpened).Conn
	propose(&command.SenderOpen{Conn: conn, Request: 1, Link: 1, Name: "s", Address: "q"})
	target := b.want(t, command.EffectSenderOpened).Detail.(*command.SenderOpened).Incarnation
	large := []byte("\x00Su" + strings.Repeat("m", 700<<10))
	propose(&command.Send{Conn: conn, Link: 1, Request: 2, Target: target, Message: large})
	b.want(t, command.EffectSent)
	err := c.leader().Read(t.Context(), func(m *state.Machine) {
		if q, ok := m.Queue("q"); !ok || q.Depth != 1 {
			t.Errorf("queue %+v, %v", q, ok)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var number uint64
	c.wait("the message's body on the leader", func() bool {
		for number = 0; number < 4; number++ {
			if body, err := c.leader().Message(nil, target, number); err == nil {
				return string(body) == string(large)
			}
		}
		return false
	})
	if _, err := f.Message(nil, target, number+100); !errors.Is(err, command.ErrNoMessage) {
		t.Errorf("a message that isn't there: %v", err)
	}
	c.digests()
	for _, id := range []command.NodeID{1, 2, 3} {
		c.kill(id)
	}
	for _, id := range []command.NodeID{1, 2, 3} {
		c.start(id)
	}
	c.ready()
	c.digests()
	err = c.nodes[1].Read(t.Context(), func(m *state.Machine) {
		if q, ok := m.Queue("q"); !ok || q.Depth != 1 || m.Sessions() != 0 {
			t.Errorf("queue after a restart: %+v, %v", q, ok)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// [3.8] 5 s without a lease while clients are there: they are closed, and the node takes
// part again once it can.
func TestLeaselessHomeClosesItsClients(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	f := c.follower()
	f.WantLease(true)
	c.wait("a lease", func() bool { return time.Now().Before(f.LeaseUntil()) })
	c.isolate(f.id, true)
	at := time.Now()
	c.wait("the end", func() bool { _, _, ended := f.box.counts(); return ended == 1 })
	if took := time.Since(at); took < closeAfterLeaseless {
		t.Errorf("closed %s after the cut", took)
	}
	if f.Propose(body("x")) {
		t.Error("proposed without an epoch")
	}
	answer := make(chan bool, 1)
	f.Barrier(func(ok bool) { answer <- ok })
	c.isolate(f.id, false)
	if ok := <-answer; !ok {
		t.Error("no barrier")
	}
	c.ready()
	c.write(f, "again")
	c.same()
}

// C14: a failed write ends the node: Fatal is told, nothing is answered, Run returns it.
func TestFailedWriteEndsTheNode(t *testing.T) {
	fatal := make(chan error, 1)
	var broken atomic.Bool
	c := newCluster(t, 1, func(o *Options) {
		o.Fatal = func(err error) { fatal <- err }
		o.testFault = func() error {
			if broken.Load() {
				return store.ErrDisk
			}
			return nil
		}
	})
	m := c.nodes[1]
	c.write(m, "before")
	broken.Store(true)
	err := m.RawWriter().Write(t.Context(), body("never answered"))
	if !errors.Is(err, ErrEpochEnded) && !errors.Is(err, ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if got := <-fatal; !errors.Is(got, store.ErrDisk) || m.Live() == nil {
		t.Errorf("Fatal: %v, Live: %v", got, m.Live())
	}
	if err := <-m.ran; !errors.Is(err, store.ErrDisk) {
		t.Errorf("Run: %v", err)
	}
	if got, _, _ := m.box.counts(); got != 1 {
		t.Errorf("%d effects delivered, want that of the first write", got)
	}
}
