package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/backup"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/replica"
)

const alicePassword = "correct horse battery staple"

// serveAll opens nodes that know each other; their directories are in dir, by id.
func serveAll(t *testing.T, dir string, ids ...uint64) (nodes []*running, urls string) {
	t.Helper()
	addrs, err := localcluster.FreeAddrs(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	peers := map[uint64]string{}
	for i, id := range ids {
		peers[id] = addrs[i]
	}
	var all []string
	for _, id := range ids {
		n := openAs(t, config.Serve{Node: id, Data: filepath.Join(dir, fmt.Sprint(id)), Peers: peers, PeerListen: peers[id]})
		nodes, all = append(nodes, n), append(all, "amqp://"+n.server.Addr().String())
	}
	for _, n := range nodes {
		n.waitReady(t)
	}
	return nodes, strings.Join(all, ",")
}

// backupOf is a whole backup that a node's admin API makes.
func (r *running) backupOf(t *testing.T) []byte {
	t.Helper()
	stream, err := admin.OpenBackup(t.Context(), r.admin.Addr().String(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var b bytes.Buffer
	if _, err := backup.Copy(&b, stream); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restoreAll restores a backup for nodes of one cluster.
func restoreAll(t *testing.T, b []byte, dir string, ids ...uint64) {
	t.Helper()
	for _, id := range ids {
		o := backup.RestoreOptions{Dir: filepath.Join(dir, fmt.Sprint(id)), Node: id, Voters: ids}
		if _, err := backup.Restore(bytes.NewReader(b), o); err != nil {
			t.Fatal(err)
		}
	}
}

// alice is a client with a session.
func alice(t *testing.T, urls string) (*oncemq.Client, *oncemq.Session) {
	t.Helper()
	cfg := login("alice", alicePassword)
	c, err := oncemq.Dial(t.Context(), urls, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
		defer cancel()
		_ = c.Close(ctx) // its node may be gone
	})
	s, err := c.OpenSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// sendTexts sends messages outside of transactions.
func sendTexts(t *testing.T, s *oncemq.Session, queue string, texts ...string) {
	t.Helper()
	out, err := s.NewSender(t.Context(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if err := out.Send(t.Context(), oncemq.NewText(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantTexts takes what a queue has and wants exactly these messages, of which the first redelivered ones may have been seen.
func wantTexts(t *testing.T, s *oncemq.Session, queue string, redelivered int, want ...string) {
	t.Helper()
	in, err := s.NewReceiver(t.Context(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < len(want) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		d, err := in.Receive(ctx)
		cancel()
		if err != nil {
			t.Fatalf("behind %q: %v", got, err)
		}
		if d.Redelivered() != (len(got) < redelivered) {
			t.Errorf("%s: redelivered %v", fmt.Sprint(d.Message.Value), d.Redelivered())
		}
		got = append(got, fmt.Sprint(d.Message.Value))
		if err := d.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("queue %s has %q, want %q", queue, got, want)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestBackupMovesHouse: three nodes, under load of a kind, are backed up, restored as one node of another name, and that as three again. Messages
// and users are there, what consumers had comes again, later things are not there, and transactions of the old history are Expired.
func TestBackupMovesHouse(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old, urls := serveAll(t, filepath.Join(dir, "old"), 1, 2, 3)
	old[0].want(t, 201, "PUT", "/api/v1/users/alice", fmt.Sprintf(`{"password":%q}`, alicePassword))
	_, s := alice(t, urls)
	sendTexts(t, s, "orders", "a", "b", "c", "d")
	in, err := s.NewReceiver(ctx, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // held, and not settled; credit holds the others
		if _, err := in.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.NewSender(ctx, "done", nil)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(committed.Send(ctx, out, oncemq.NewText("x")), committed.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	open, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Send(ctx, out, oncemq.NewText("of an open transaction")); err != nil {
		t.Fatal(err)
	}
	first := old[2].backupOf(t)
	if err := open.Commit(ctx); err != nil { // behind the cut
		t.Fatal(err)
	}
	sendTexts(t, s, "orders", "later")
	for _, n := range old {
		n.stopAndCheck(t)
	}

	restoreAll(t, first, filepath.Join(dir, "alone"), 9)
	alone, urls := serveAll(t, filepath.Join(dir, "alone"), 9)
	if _, err := use(t, urls, login("alice", "guess")); !errors.Is(err, oncemq.ErrCredentials) {
		t.Errorf("a wrong password: %v", err)
	}
	c, s := alice(t, urls)
	for _, tx := range []*oncemq.Tx{committed, open} {
		if _, err := c.Outcome(ctx, tx.ID()); !errors.Is(err, oncemq.ErrExpired) {
			t.Errorf("a transaction of the old history: %v", err)
		}
	}
	// All four had been handed out: the home that knew what it had written is lost (C8).
	wantTexts(t, s, "orders", 4, "a", "b", "c", "d")
	wantTexts(t, s, "done", 0, "x")
	sendTexts(t, s, "orders", "e", "f")
	second := alone[0].backupOf(t)
	alone[0].stopAndCheck(t)

	restoreAll(t, second, filepath.Join(dir, "new"), 1, 2, 3)
	_, urls = serveAll(t, filepath.Join(dir, "new"), 1, 2, 3)
	_, s = alice(t, urls)
	wantTexts(t, s, "orders", 0, "e", "f")
	sendTexts(t, s, "orders", "g")
	wantTexts(t, s, "orders", 0, "g")
}

// TestRestoredApart: a directory that is restored once more, while the others have gone on, never takes its old place; nor do nodes of
// different backups make one cluster.
func TestRestoredApart(t *testing.T) {
	dir := t.TempDir()
	source, _ := serveAll(t, filepath.Join(dir, "source"), 1)
	first := source[0].backupOf(t)
	source[0].want(t, 201, "PUT", "/api/v1/queues/orders", "")
	second := source[0].backupOf(t)
	source[0].stopAndCheck(t)

	addrs, err := localcluster.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	peers := map[uint64]string{1: addrs[0], 2: addrs[1], 3: addrs[2]}
	restore := func(b []byte, id uint64, name string) config.Serve {
		cfg := config.Serve{Node: id, Data: filepath.Join(dir, name), Peers: peers, PeerListen: peers[id], Dev: true, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"}
		if _, err := backup.Restore(bytes.NewReader(b), backup.RestoreOptions{Dir: cfg.Data, Node: id, Voters: []uint64{1, 2, 3}}); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	one, two := open(t, restore(first, 1, "1")), open(t, restore(first, 2, "2"))
	wantApart := func(cfg config.Serve) {
		t.Helper()
		n, err := Open(Options{Config: cfg, Version: "test", Ready: io.Discard, Logger: slog.New(slog.DiscardHandler), Fatal: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := n.Run(ctx); !errors.Is(err, replica.ErrEmptyDirectory) {
			t.Errorf("node %d of %s: %v", cfg.Node, cfg.Data, err)
		}
	}
	three := restore(first, 3, "3")
	n := open(t, three)
	for _, x := range []*running{one, two, n} {
		x.waitReady(t)
	}
	n.stopAndCheck(t)
	wantApart(restore(first, 3, "again"))
	wantApart(restore(second, 3, "other"))
	n = open(t, three) // the right one is taken
	n.waitReady(t)
}
