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
	"github.com/oncemq/oncemq/internal/store"
)

type nobody struct{}

func (nobody) Deliver(uint64, []command.Effect) {}
func (nobody) EpochBegun(command.Epoch)         {}
func (nobody) EpochEnded(string)                {}

// directory makes the directory of a lone node that was stopped in order, with some queues and a log of several segments.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r, err := replica.Open(replica.Options{
		Node: 1, Peers: map[command.NodeID]string{1: "alone"}, Dir: dir, Mailbox: nobody{}, Logger: slog.New(slog.DiscardHandler),
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
	for i := range 60 {
		if _, err := r.Request(t.Context(), &command.QueueCreate{Name: fmt.Sprint("queue ", i, strings.Repeat("x", 150))}); err != nil {
			t.Fatal(err)
		}
	}
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

// TestNotThere: what isn't a data directory is said to be none.
func TestNotThere(t *testing.T) {
	if _, err := Check(Options{Dir: t.TempDir()}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Check(Options{Dir: "/nowhere/at/all"}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("no directory: %v", err)
	}
}
