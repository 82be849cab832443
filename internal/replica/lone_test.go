package replica

import (
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// nobody is the mailbox of a node without clients.
type nobody struct{}

func (nobody) Deliver(uint64, []command.Effect) {}
func (nobody) EpochBegun(command.Epoch)         {}
func (nobody) EpochEnded(string)                {}

// lone is a lone node over a disk in memory.
type lone struct {
	*Stepper
	t   *testing.T
	now time.Duration
	end func()
}

func newLone(t *testing.T, files store.FS) *lone {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := store.Open(store.Options{Dir: "/data", FS: files, Node: 1})
	must(err)
	log, err := d.OpenLog(store.LogOptions{SegmentBytes: 32 << 10})
	must(err)
	disk, err := d.OpenState(store.StateOptions{SpillInApply: true})
	must(err)
	s, err := NewStepper(StepOptions{
		Node: 1, Voters: []command.NodeID{1}, Cluster: [16]byte{7}, Log: log, State: disk, Mailbox: nobody{},
		Send: func(uint64, bool, []byte) bool { return false }, Rand: rand.New(rand.NewPCG(1, 1)), Stream: 1, Began: time.Unix(0, 0),
	})
	must(err)
	return &lone{Stepper: s, t: t, end: func() { disk.Close(); log.Close(); d.Close() }}
}

// until steps until ok; after each raft step it looks.
func (l *lone) until(what string, ok func() bool) {
	l.t.Helper()
	for limit := l.now + 20*time.Second; l.now < limit; l.now += time.Millisecond {
		l.Raft(l.now, l.now.Milliseconds())
		for _, step := range []func() error{l.Apply, l.Append, l.Apply} {
			if ok() {
				return
			}
			if err := step(); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	l.t.Fatalf("never: %s", what)
}

// A lone node that starts again knows an older commit index than it has answered for: the commit index is written with the next
// append only. A barrier must not be answered from that (C16).
func TestBarrierOfALoneNodeThatStarts(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	files := store.NewMemFS()
	first := newLone(t, files)
	first.until("an epoch", func() bool { return first.Ready() == nil })
	answered := false
	if err := first.Request(&command.QueueCreate{Name: "q"}, func(command.Effect, error) { answered = true }); err != nil {
		t.Fatal(err)
	}
	first.until("an answer", func() bool { return answered })
	first.end()

	second := newLone(t, files)
	defer second.end()
	second.until("it leads", func() bool { return second.Status().Role == roleLeader })
	asked, there := false, false
	second.Barrier(func(ok bool) {
		_, there = second.Machine().Queue("q")
		asked = ok
	})
	second.until("an answer", func() bool { return asked })
	if !there {
		t.Error("behind a barrier there is no queue, though its creation was answered before")
	}
}
