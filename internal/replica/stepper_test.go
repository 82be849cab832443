package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// stepped is a cluster of three Steppers with real disks in memory, in one goroutine: all that happens hangs on the seed.
type stepped struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Duration
	nodes []*steppedNode
	wire  []wired // under way, in the order of sending
	said  []string
	uncut bool // logs are never cut: nobody here fetches a checkpoint
}

// steppedNode is a node with its disk; the Stepper is nil while it is dead.
type steppedNode struct {
	*Stepper
	w     *stepped
	id    uint64
	files store.FS
	close func()
	born  time.Duration
	wake  time.Duration
	got   []string // effects
	epoch command.Epoch
	held  bool  // it stands still: what it is sent waits
	hangs bool  // its disk does
	ends  bool  // its append step may fail
	ended error // it has
}

// wired is a frame on its way.
type wired struct {
	from, to uint64
	at       time.Duration
	frame    []byte
}

func newStepped(t *testing.T, seed uint64) *stepped {
	cryptotest.SetGlobalRandom(t, seed) // raft's
	w := &stepped{t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	for id := uint64(1); id <= 3; id++ {
		w.nodes = append(w.nodes, &steppedNode{w: w, id: id, files: store.NewMemFS()})
	}
	for _, n := range w.nodes {
		n.start()
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			if n.Stepper != nil {
				n.close()
			}
		}
	})
	return w
}

// say adds a line to what happened.
func (w *stepped) say(format string, v ...any) {
	w.said = append(w.said, fmt.Sprintf("%s ", w.now)+fmt.Sprintf(format, v...))
}

// start opens the disk and begins a life.
func (n *steppedNode) start() {
	n.w.t.Helper()
	d, err := store.Open(store.Options{Dir: "/data", FS: n.files, Node: n.id})
	if err != nil {
		n.w.t.Fatal(err)
	}
	log, err := d.OpenLog(store.LogOptions{SegmentBytes: 32 << 10})
	if err != nil {
		n.w.t.Fatal(err)
	}
	disk, err := d.OpenState(store.StateOptions{SpillInApply: true})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.close = func() { disk.Close(); log.Close(); d.Close() }
	n.born, n.wake = n.w.now, 0
	n.Stepper, err = NewStepper(StepOptions{
		Node: command.NodeID(n.id), Voters: []command.NodeID{1, 2, 3}, Cluster: [16]byte{7}, Log: log, State: disk, Mailbox: n,
		Send: n.send, Rand: rand.New(rand.NewPCG(n.w.rng.Uint64(), n.id)), Stream: uint64(n.born/time.Microsecond) + 1,
		Began: time.Unix(0, int64(n.born)),
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.w.say("n%d starts at %d", n.id, n.Status().Applied)
	for _, other := range n.w.nodes {
		if other != n && other.Stepper != nil {
			n.PeerUp(other.id)
			other.PeerUp(n.id)
		}
	}
}

// crash is a loss of power.
func (n *steppedNode) crash() {
	n.w.say("n%d crashes", n.id)
	past := n.close
	n.files = store.CrashFS(n.files, 0, 100*n.w.rng.IntN(2)) // others hang on the order of a map
	past()
	n.Stepper, n.epoch = nil, 0
	n.w.wire = slices.DeleteFunc(n.w.wire, func(f wired) bool { return f.from == n.id || f.to == n.id })
	for _, other := range n.w.nodes {
		if other.Stepper != nil {
			other.PeerLost(n.id)
			other.PeerGone(n.id, true)
		}
	}
}

func (n *steppedNode) send(to uint64, _ bool, frame []byte) bool {
	if to > uint64(len(n.w.nodes)) || n.w.nodes[to-1].Stepper == nil { // a member may not have been started yet
		return false
	}
	h := fnv.New64a()
	h.Write(frame)
	n.w.say("n%d to n%d: %d bytes, %x", n.id, to, len(frame), h.Sum64())
	n.w.wire = append(n.w.wire, wired{n.id, to, n.w.now + time.Duration(1+n.w.rng.IntN(2))*time.Millisecond, frame})
	return true
}

// Deliver, EpochBegun and EpochEnded implement Mailbox.
func (n *steppedNode) Deliver(local uint64, effects []command.Effect) {
	for _, e := range effects {
		n.got = append(n.got, fmt.Sprintf("%d of %d", e.Kind, local))
		n.w.say("n%d: effect %d for %d", n.id, e.Kind, local)
	}
}

func (n *steppedNode) EpochBegun(e command.Epoch) { n.epoch = e; n.w.say("n%d: epoch %d", n.id, e) }
func (n *steppedNode) EpochEnded(reason string)   { n.epoch = 0; n.w.say("n%d: %s", n.id, reason) }

// steps does what is due on a node now, in an order that the seed decides.
func (n *steppedNode) steps() {
	if n.ended != nil || n.held {
		return
	}
	for _, step := range n.w.rng.Perm(3) {
		p := n.Pending()
		switch {
		case step == 0 && (p.Raft || n.w.now >= n.wake):
			n.wake = n.born + n.Raft(n.w.now-n.born, n.w.now.Milliseconds())
		case step == 1 && p.Append && !n.hangs && n.w.rng.IntN(3) > 0: // disks take their time
			if err := n.Append(); !n.ends {
				n.must(err)
			} else if n.ended = err; err != nil {
				return
			}
		case step == 2 && p.Apply && n.w.rng.IntN(2) > 0:
			if err := n.Apply(); !errors.Is(err, ErrRemoved) {
				n.must(err)
			} else if n.ended = err; err != nil {
				return
			}
		}
	}
	if n.w.now%time.Second == 0 && !n.w.uncut {
		n.must(n.Keep())
	}
}

func (n *steppedNode) must(err error) {
	if err != nil {
		n.w.t.Fatalf("n%d: %v", n.id, err)
	}
}

// until runs the cluster until ok, or fails.
func (w *stepped) until(what string, ok func() bool) {
	w.t.Helper()
	for limit := w.now + 20*time.Second; !ok(); w.now += time.Millisecond {
		if w.now > limit {
			w.t.Fatalf("never: %s", what)
		}
		due := w.wire
		w.wire = nil
		for _, f := range due {
			if f.at > w.now || w.nodes[f.to-1].held {
				w.wire = append(w.wire, f)
			} else if err := w.nodes[f.to-1].Receive(f.from, f.frame); err != nil {
				w.t.Fatal(err)
			}
		}
		for _, n := range w.nodes {
			if n.Stepper != nil {
				n.steps()
			}
		}
	}
}

func (w *stepped) ready() {
	w.t.Helper()
	w.until("all nodes ready", func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *steppedNode) bool { return n.Stepper == nil || n.Ready() != nil })
	})
}

// leader waits for a node that leads.
func (w *stepped) leader() (leader *steppedNode) {
	w.t.Helper()
	w.until("a leader", func() bool {
		at := slices.IndexFunc(w.nodes, func(n *steppedNode) bool { return n.Stepper != nil && n.Status().Role == roleLeader })
		if at >= 0 {
			leader = w.nodes[at]
		}
		return at >= 0
	})
	return leader
}

// create makes a queue through a node, and waits for the answer.
func (w *stepped) create(n *steppedNode, name string) {
	w.t.Helper()
	var answers []string
	err := n.Request(&command.QueueCreate{Name: name}, func(e command.Effect, err error) {
		answers = append(answers, fmt.Sprint(e.Kind, e.Refusal, err))
	})
	n.must(err)
	w.until("an answer", func() bool { return len(answers) > 0 })
	if want := fmt.Sprint(command.EffectQueue, nil, nil); answers[0] != want {
		w.t.Errorf("creating %s: %s, want %s", name, answers[0], want)
	}
}

// life is a cluster's life under a seed: elections, writes, a crash of the leader and of each other node, at last an orderly
// end of an epoch. It returns what happened.
func life(t *testing.T, seed uint64) []string {
	w := newStepped(t, seed)
	w.ready()
	for round := range 4 {
		for i := range 10 {
			w.create(w.nodes[(round+i)%3], fmt.Sprint("queue ", round, " ", i))
		}
		old := w.leader()
		if round == 3 {
			old = w.nodes[w.rng.IntN(3)]
		}
		old.crash()
		w.leader()
		w.until("two are ready", func() bool {
			return !slices.ContainsFunc(w.nodes, func(n *steppedNode) bool { return n != old && n.Ready() != nil })
		})
		w.create(w.leader(), fmt.Sprint("without ", old.id, " ", round))
		old.start()
		w.ready()
	}
	n := w.nodes[w.rng.IntN(3)]
	var left error
	n.Barrier(func(ok bool) { w.say("barrier %v", ok) })
	n.Leave()
	w.until("the epoch's end", func() bool { left = n.Ready(); return n.epoch == 0 })
	if !errors.Is(left, ErrClosed) {
		t.Errorf("after Leave: %v", left)
	}
	w.until("the same applied index", func() bool {
		a := w.nodes[0].Status().Applied
		return w.nodes[1].Status().Applied == a && w.nodes[2].Status().Applied == a
	})
	for _, n := range w.nodes {
		w.say("n%d: digest %x, %d effects", n.id, n.Machine().Digest(), len(n.got))
		if d := w.nodes[0].Machine().Digest(); n.Machine().Digest() != d {
			t.Errorf("n%d's digest is %x, n1's %x", n.id, n.Machine().Digest(), d)
		}
		for round := range 4 {
			for i := range 10 {
				if _, ok := n.Machine().Queue(fmt.Sprint("queue ", round, " ", i)); !ok {
					t.Errorf("n%d has no queue %d %d", n.id, round, i)
				}
			}
		}
	}
	return w.said
}

// TestStepperIsDeterministic: a cluster in one goroutine elects, applies, crashes and restarts, and does so again, to the
// byte, under the same seed; under another seed it does something else.
func TestStepperIsDeterministic(t *testing.T) {
	var former []string
	for seed := range uint64(3) {
		first, second := life(t, seed), life(t, seed)
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("seed %d, line %d of %d: %q, then %q", seed, i, len(first), first[i], second[i])
			}
		}
		if len(first) != len(second) {
			t.Fatalf("seed %d: %d lines, then %d", seed, len(first), len(second))
		}
		if slices.Equal(first, former) {
			t.Error("two seeds, one story")
		}
		former = first
	}
}

// TestStepperRefuses: damaged frames, and options that make no sense.
func TestStepperRefuses(t *testing.T) {
	w := newStepped(t, 1)
	frame := peer.AppendNote(nil, peer.Note{Kind: peer.NoteClock, Clock: 5})
	if err := w.nodes[0].Receive(2, frame); err != nil || !w.nodes[0].Pending().Raft {
		t.Errorf("a good frame: %v, pending %+v", err, w.nodes[0].Pending())
	}
	binary.LittleEndian.PutUint32(frame, 1<<30)
	if err := w.nodes[0].Receive(2, frame); !errors.Is(err, peer.ErrFrame) {
		t.Errorf("a bad frame: %v", err)
	}
	good := StepOptions{
		Node: 1, Voters: []command.NodeID{1}, Cluster: [16]byte{1}, Log: w.nodes[0].log, State: w.nodes[0].state,
		Mailbox: w.nodes[0], Send: w.nodes[0].send, Rand: w.rng,
	}
	for what, change := range map[string]func(*StepOptions){
		"two voters":          func(o *StepOptions) { o.Voters = []command.NodeID{1, 2} },
		"no node":             func(o *StepOptions) { o.Node = 0 },
		"voters in disorder":  func(o *StepOptions) { o.Voters = []command.NodeID{3, 2, 1} },
		"no cluster":          func(o *StepOptions) { o.Cluster = [16]byte{} },
		"no source of chance": func(o *StepOptions) { o.Rand = nil },
	} {
		o := good
		change(&o)
		if _, err := NewStepper(o); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
