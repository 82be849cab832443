package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
)

// The memory of a node of row 11, the least that --memory takes, and what its process may take in all: beside what --memory divides, the program itself,
// and what the collector hasn't given back yet.
const (
	littleMemory = 64 << 20
	mostResident = 2 * littleMemory
)

// Row 11: small messages by the thousand a transaction, more than the nodes have memory for. Senders are held back before it is used up, settlements pass, no
// process ends or takes much more than it may, and all goes on with room.
func TestRow11Memory(t *testing.T) {
	Long(t)
	memory(t, func(w *World, stored *atomic.Int64) {
		for _, n := range w.Nodes {
			w.Until(5*time.Minute, "senders to be held back", func() bool { return w.status(n).Room.Memory != "ok" })
		}
		for last := int64(-1); last != stored.Load(); w.For(3 * time.Second) { // credit that was given before is used up
			last = stored.Load()
		}
		st := w.status(w.Nodes[0])
		w.tb.Logf("held back at %d messages: %d of %d bytes are counted", stored.Load(), st.Room.MemoryUsed, st.Room.MemoryBudget)
		if len(st.Alarms) == 0 {
			w.tb.Error("no alarm")
		}
		s := w.session(w.urls(1))
		short, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		sender, err := s.NewSender(short, "row11", nil)
		if err == nil {
			err = sender.Send(short, oncemq.NewText("no room"))
		}
		if err == nil {
			w.tb.Error("a send without memory for it was accepted")
		}
	})
}

// Row 11, short: what is counted is what messages take.
func TestRow11MemoryIsCounted(t *testing.T) {
	memory(t, func(w *World, stored *atomic.Int64) {
		w.Until(time.Minute, "some messages", func() bool { return stored.Load() >= 30_000 })
	})
}

// memory has two programs store messages in transactions of a thousand until enough returns, then takes them all out again.
func memory(t *testing.T, enough func(w *World, stored *atomic.Int64)) {
	t.Helper()
	const each = 1000
	w := New(t, Options{Rate: 50, Patience: 10 * time.Minute, Flags: []string{fmt.Sprintf("--memory=%dMiB", littleMemory>>20)}})
	w.Run(func() {
		pids, before := map[int]int{}, w.status(w.Nodes[0]).Room.MemoryUsed
		for _, n := range w.Nodes {
			pids[n.ID] = n.PID()
		}
		ctx, cancel := context.WithCancel(w.ctx)
		var stored atomic.Int64
		var programs sync.WaitGroup
		for i := range 2 {
			s := w.session(w.urls(i))
			programs.Go(func() {
				if err := store(ctx, s, each, &stored); err != nil && ctx.Err() == nil {
					t.Errorf("storing: %v", err)
				}
			})
		}
		enough(w, &stored)
		cancel()
		programs.Wait()
		used := w.status(w.Nodes[0]).Room.MemoryUsed - before
		if bytes := int64(used) / stored.Load(); bytes < 80 || bytes > 120 {
			t.Errorf("%d messages, %d bytes of state counted each", stored.Load(), bytes)
		}
		var said strings.Builder
		for _, n := range w.Nodes {
			dir := fmt.Sprintf("/proc/%d/", n.PID())
			now, peak := w.memory(dir, "VmRSS"), w.memory(dir, "VmHWM")
			fmt.Fprintf(&said, "node %d: %d MiB, %d at its peak; ", n.ID, now>>20, peak>>20)
			if peak > mostResident {
				t.Errorf("node %d took %d MiB with --memory=%dMiB", n.ID, peak>>20, littleMemory>>20)
			}
		}
		t.Log(said.String())
		w.takeAll("row11", int(stored.Load()), each)
		for _, n := range w.Nodes {
			w.Until(time.Minute, "room", func() bool { return w.status(n).Room.Memory == "ok" })
			if n.PID() != pids[n.ID] {
				t.Errorf("node %d has ended", n.ID)
			}
		}
		w.Commits(50, failover)
	})
}

// store sends transactions of small messages until ctx ends.
func store(ctx context.Context, s *oncemq.Session, each int, stored *atomic.Int64) error {
	sender, err := s.NewSender(ctx, "row11", nil)
	for err == nil {
		err = s.InTx(ctx, func(tx *oncemq.Tx) error {
			for range each {
				if err := tx.Send(ctx, sender, oncemq.NewText("small")); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			stored.Add(int64(each))
		}
		if errors.Is(err, oncemq.ErrRolledBack) {
			err = nil
		}
	}
	return err
}

// takeAll takes and settles so many messages at least, in transactions.
func (w *World) takeAll(queue string, messages, each int) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	s := w.session(w.urls(0))
	receiver, err := s.NewReceiver(ctx, queue, &oncemq.ReceiverOptions{Prefetch: 2 * each})
	for left := messages; err == nil && left > 0; left -= each {
		err = s.InTx(ctx, func(tx *oncemq.Tx) error {
			for range min(left, each) {
				d, err := receiver.Receive(ctx)
				if err == nil {
					err = tx.Accept(d)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		w.tb.Fatalf("taking messages out of %s: %v", queue, err)
	}
	w.Note("%d messages were taken and settled", messages)
}
