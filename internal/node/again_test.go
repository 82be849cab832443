package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// said takes a node's log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// TestServeBeginsAnew: a node that missed more than the logs keep is opened again in the same process, where it was, and is
// announced once.
func TestServeBeginsAnew(t *testing.T) {
	addrs, err := localcluster.FreeAddrs(9)
	if err != nil {
		t.Fatal(err)
	}
	peers := map[uint64]string{1: addrs[0], 2: addrs[1], 3: addrs[2]}
	dir := t.TempDir()
	serve := func(id uint64, log *said) (ready *line, stop func()) {
		ready = &line{full: make(chan struct{})}
		cfg := config.Serve{
			Node: id, Data: filepath.Join(dir, fmt.Sprint(id)), Peers: peers, PeerListen: peers[id], Dev: true,
			Listen: addrs[2+id], Admin: addrs[5+id],
			Sizes: config.Sizes{RetainLog: 64 << 10, LogSegment: 32 << 10, FlushLog: 64 << 10},
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{
				Config: cfg, Version: "test", Ready: ready, Logger: slog.New(slog.NewTextHandler(log, nil)),
				Fatal: func(err error) { t.Errorf("node %d: fatal: %v", id, err) },
			})
		}()
		stop = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("node %d: %v", id, err)
			}
		})
		t.Cleanup(stop)
		return ready, stop
	}
	wait := func(ready *line) {
		t.Helper()
		select {
		case <-ready.full:
		case <-time.After(30 * time.Second):
			t.Fatal("not ready within 30 s")
		}
	}
	var log said
	one, _ := serve(1, new(said))
	two, _ := serve(2, new(said))
	three, stop := serve(3, new(said))
	wait(one)
	wait(two)
	wait(three)
	stop()
	had := []uint64{highest(t, dir, 1), highest(t, dir, 2)}
	send(t, "amqp://"+addrs[3]+",amqp://"+addrs[4], 300)
	for deadline := time.Now().Add(30 * time.Second); lowest(t, dir, 1) <= had[0] || lowest(t, dir, 2) <= had[1]; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the logs are not cut")
		}
	}
	for range 2 { // the second time it needs none: it has it
		three, stop = serve(3, &log)
		wait(three)
		stop()
	}
	for _, text := range []string{"a checkpoint is fetched and verified", "the node begins anew", "a checkpoint is installed"} {
		if !log.has(text) {
			t.Errorf("the log doesn't say %q:\n%s", text, log.text.String())
		}
	}
	three, _ = serve(3, &log)
	wait(three)
	send(t, "amqp://"+addrs[5], 1)
}

// segments are the numbers of a node's log segments, ascending.
func segments(t *testing.T, dir string, node int) (numbers []uint64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, fmt.Sprint(node), "log", "*.seg"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		n, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".seg"), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

func lowest(t *testing.T, dir string, node int) uint64 { return segments(t, dir, node)[0] }

func highest(t *testing.T, dir string, node int) uint64 {
	numbers := segments(t, dir, node)
	return numbers[len(numbers)-1]
}

// send sends some messages of 4 KiB.
func send(t *testing.T, urls string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := oncemq.Dial(ctx, urls, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(ctx)
	session, err := client.OpenSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := sender.Send(ctx, oncemq.NewMessage(make([]byte, 4<<10))); err != nil {
			t.Fatal(err)
		}
	}
}
