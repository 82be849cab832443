package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

type nobody struct{}

func (nobody) Deliver(uint64, []command.Effect) {}
func (nobody) EpochBegun(command.Epoch)         {}
func (nobody) EpochEnded(string)                {}

// directory makes the directory of a lone node that was stopped in order, with some queues and a log of several segments.
func directory(t *testing.T) string {
	t.Helper()
	return directoryOf(t, nobody{}, func(r *replica.Replica) {
		for i := range 60 {
			if _, err := r.Request(t.Context(), &command.QueueCreate{Name: fmt.Sprint("queue ", i, strings.Repeat("x", 150))}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// directoryOf makes the directory of a lone node that did something and was stopped in order.
func directoryOf(t *testing.T, mailbox replica.Mailbox, do func(r *replica.Replica)) string {
	t.Helper()
	dir := t.TempDir()
	r, err := replica.Open(replica.Options{
		Node: 1, Peers: map[command.NodeID]string{1: "alone"}, Dir: dir, Mailbox: mailbox, Logger: slog.New(slog.DiscardHandler),
		Limits: replica.Limits{SegmentBytes: 64 << 10, LogFlushBytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.Background()) }()
	deadline := time.Now().Add(20 * time.Second)
	for r.Ready() != nil {
		if time.Now().After(deadline) {
			t.Fatal(r.Ready())
		}
		<-time.After(time.Millisecond)
	}
	do(r)
	if err := errors.Join(r.Stop(t.Context()), <-ended); err != nil {
		t.Fatal(err)
	}
	return dir
}

// spoil changes one byte of a file in a copy of the directory.
func spoil(t *testing.T, dir, file string, offset int64) string {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(copied, file), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
	return copied
}

func check(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Check(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Print(io.Discard); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSound: a directory that nothing is wrong with is called so, and described.
func TestSound(t *testing.T) {
	r := check(t, directory(t))
	if !r.Sound || len(r.Damage) > 0 || r.Node != 1 || r.State.Queues != 60 || r.State.Applied < 60 || !slices.Equal(r.Voters, []uint64{1}) {
		t.Fatalf("%+v, state %+v", r, r.State)
	}
	if l := r.Log; len(l.Pieces) != 1 || l.Pieces[0].Last < r.State.Applied || l.Term == 0 || l.Segments < 2 {
		t.Errorf("log %+v", l)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node 1", "verdict: sound", "60 queues", "can be started"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, &text)
		}
	}
}

// TestDamaged: each kind of damage is found, named with its place, and comes with what is lost and what is safe to do.
func TestDamaged(t *testing.T) {
	dir := directory(t)
	tables, err := filepath.Glob(filepath.Join(dir, "state", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, tc := range []struct {
		path         string
		offset       int64
		part         string
		lost, advice string
	}{
		{"STAMP", 20, "stamp", "whose directory", "Put STAMP back"},
		{"VOTERS", 0, "voters", "", "Copy VOTERS"},
		{"log/0000000000000001.seg", 3*4096 + 20, "log", " of the log", "lone node"},
		{"log/0000000000000002.seg", 20, "log", "", "lone node"},
		{"state/" + filepath.Base(tables[0]), 30, "state", "the state", "whole from its first entry on"},
	} {
		copied := spoil(t, dir, tc.path, tc.offset)
		r := check(t, copied)
		if r.Sound || len(r.Damage) == 0 || r.Damage[0].Part != tc.part || !slices.ContainsFunc(r.Damage, func(d Damage) bool { return d.Path == filepath.Join(copied, tc.path) }) {
			t.Errorf("%s: %+v", tc.path, r.Damage)
		}
		if lost := strings.Join(r.Lost, "\n"); !strings.Contains(lost, tc.lost) || (lost == "") != (tc.lost == "") {
			t.Errorf("%s: lost: %q, want %q", tc.path, lost, tc.lost)
		}
		if advice := strings.Join(r.Advice, "\n"); !strings.Contains(advice, tc.advice) || !strings.Contains(advice, "delete nothing") {
			t.Errorf("%s: advice: %q, want %q", tc.path, advice, tc.advice)
		}
	}
}

// sender takes what a node says to one connection.
type sender struct{ effects chan command.Effect }

func (s sender) Deliver(_ uint64, effects []command.Effect) {
	for _, e := range effects {
		s.effects <- e
	}
}
func (sender) EpochBegun(command.Epoch) {}
func (sender) EpochEnded(string)        {}

// TestBodies: a message whose body is gone or cut is damage, though every block is sound; a body too many is none, and said.
func TestBodies(t *testing.T) {
	from := sender{make(chan command.Effect, 100)}
	dir := directoryOf(t, from, func(r *replica.Replica) {
		propose := func(c command.Command, kind command.EffectKind) command.Effect {
			if !r.Propose(command.Append(nil, c)) {
				t.Fatal("no epoch")
			}
			select {
			case e := <-from.effects:
				if e.Kind != kind || e.Refusal != nil {
					t.Fatalf("%+v", e)
				}
				return e
			case <-time.After(20 * time.Second):
				t.Fatal("no answer")
			}
			panic("not reached")
		}
		conn := propose(&command.ConnOpen{Local: 7, Principal: "p", ContainerID: "c"}, command.EffectConnOpened).Detail.(*command.ConnOpened).Conn
		if _, err := r.Request(t.Context(), &command.QueueCreate{Name: "queue"}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			propose(&command.Send{Conn: conn, Link: 1, Request: uint64(i + 1), Address: "queue", Message: []byte(strings.Repeat("m", 10+i))}, command.EffectSent)
		}
	})
	if r := check(t, dir); !r.Sound || r.State.Bodies != 3 || r.State.BodyBytes != 33 || r.State.Orphans != 0 || r.State.Messages != 3 {
		t.Fatalf("%+v %+v", r.Damage, r.State)
	}
	change := func(change func(b *store.Batch, bodies [][]byte)) *Report {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		d, err := store.Open(store.Options{Dir: copied, Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.OpenState(store.StateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var keys [][]byte
		b := s.NewBatch()
		first, behind := state.BodyRange(group)
		err = s.IterateRange(first, behind, func(key, _ []byte) bool { keys = append(keys, slices.Clone(key)); return true })
		if err == nil {
			change(b, keys)
			err = s.Apply(b, s.AppliedIndex()+1)
		}
		if err = errors.Join(err, s.Flush(), s.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		return check(t, copied)
	}
	has := func(r *Report, text string) bool {
		return slices.ContainsFunc(r.Damage, func(d Damage) bool { return d.Part == "state" && strings.Contains(d.What, text) })
	}
	if r := change(func(b *store.Batch, bodies [][]byte) { b.Delete(bodies[1]) }); r.Sound || !has(r, "message 2 of the queue") || len(r.Lost) == 0 || len(r.Advice) < 2 {
		t.Errorf("a body is gone: %+v", r)
	}
	if r := change(func(b *store.Batch, bodies [][]byte) { b.Put(bodies[2], []byte("cut")) }); r.Sound || !has(r, "a body of 3 bytes, and should have 12") {
		t.Errorf("a body is cut: %+v", r)
	}
	r := change(func(b *store.Batch, bodies [][]byte) { b.Put(append(bodies[2], 0), []byte("nobody's")) })
	if has(r, "body") || r.State.Orphans != 1 || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "1 bodies") }) {
		t.Errorf("a body too many: %+v %+v", r, r.State)
	}
}

// TestNotThere: what isn't a data directory is said to be none.
func TestNotThere(t *testing.T) {
	if _, err := Check(Options{Dir: t.TempDir()}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Check(Options{Dir: "/nowhere/at/all"}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("no directory: %v", err)
	}
}
