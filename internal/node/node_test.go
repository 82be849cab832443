package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a node that runs in this process.
type running struct {
	*Node
	stop  context.CancelFunc
	ended chan error
	lines *line
}

// line takes the ready line.
type line struct {
	mu   sync.Mutex
	text string
	full chan struct{}
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	if strings.HasSuffix(l.text, "\n") {
		close(l.full) // a second line panics: there must be one
	}
	return len(b), nil
}

func open(t *testing.T, cfg config.Serve) *running {
	t.Helper()
	cfg.Dev = true
	return openAs(t, cfg)
}

// openAs is open without --dev.
func openAs(t *testing.T, cfg config.Serve) *running {
	t.Helper()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	r := &running{lines: &line{full: make(chan struct{})}, ended: make(chan error, 1)}
	n, err := Open(Options{
		Config: cfg, Version: "test", Ready: r.lines, Logger: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Errorf("node %d: fatal: %v", cfg.Node, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.Node, r.stop = n, cancel
	go func() { r.ended <- n.Run(ctx) }()
	t.Cleanup(r.end)
	return r
}

// end stops the node, if it still runs, and waits until it has ended.
func (r *running) end() {
	r.stop()
	if err, ok := <-r.ended; ok {
		r.ended <- err
	}
}

// stopAndCheck stops the node in order.
func (r *running) stopAndCheck(t *testing.T) {
	t.Helper()
	r.stop()
	err := <-r.ended
	r.ended <- err
	if err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.lines.full:
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("not ready within 20 s")
	}
}

func (r *running) status(t *testing.T) (st admin.Status) {
	t.Helper()
	if err := admin.Call(t.Context(), r.admin.Addr().String(), http.MethodGet, "/api/v1/status", nil, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestLoneNode(t *testing.T) {
	cfg := config.Serve{Node: 1, Data: t.TempDir(), PeerListen: "127.0.0.1:0", Peers: map[uint64]string{1: "127.0.0.1:0"}}
	r := open(t, cfg)
	r.waitReady(t)
	if want := "ready: node 1 of 1, leader 1, epoch "; !strings.HasPrefix(r.lines.text, want) || strings.Contains(r.lines.text, "epoch 0") {
		t.Errorf("ready line %q, want %q and an epoch", r.lines.text, want)
	}
	if st := r.status(t); st.Role != "leader" || st.Leader != 1 || st.Safety != "on" || st.Version != "test" {
		t.Errorf("status %+v", st)
	}
	base := r.admin.Addr().String()
	var q admin.Queue
	for _, step := range []struct {
		method, path string
		answer       any
	}{
		{http.MethodGet, "/readyz", nil},
		{http.MethodGet, "/livez", nil},
		{http.MethodPut, "/api/v1/queues/orders", nil},
		{http.MethodPost, "/api/v1/queues/orders/purge", nil},
		{http.MethodGet, "/api/v1/queues/orders", &q},
		{http.MethodDelete, "/api/v1/queues/orders", nil},
	} {
		if err := admin.Call(t.Context(), base, step.method, step.path, nil, step.answer); err != nil {
			t.Errorf("%s %s: %v", step.method, step.path, err)
		}
	}
	if q != (admin.Queue{Name: "orders"}) {
		t.Errorf("queue %+v", q)
	}
	var status *admin.StatusError
	if err := admin.Call(t.Context(), base, http.MethodGet, "/api/v1/queues/orders", nil, nil); !errors.As(err, &status) || status.Code != 404 {
		t.Errorf("a deleted queue: %v, want 404", err)
	}
	r.stopAndCheck(t)
}

func TestOpenSaysWhatIsInTheWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, set := range map[string]func(*config.Serve){
		"listen": func(c *config.Serve) { c.Listen = l.Addr().String() },
		"admin":  func(c *config.Serve) { c.Admin = l.Addr().String() },
	} {
		cfg := config.Serve{
			Node: 1, Data: t.TempDir(), Dev: true, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
			PeerListen: "127.0.0.1:0", Peers: map[uint64]string{1: "127.0.0.1:0"},
		}
		set(&cfg)
		_, err := Open(Options{Config: cfg, Ready: &bytes.Buffer{}, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("%s: %v, want an error that names %s", name, err, l.Addr())
		}
	}
}

// peerAddrs finds addresses for three nodes.
func peerAddrs(t *testing.T) map[uint64]string {
	t.Helper()
	addrs, err := localcluster.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	return map[uint64]string{1: addrs[0], 2: addrs[1], 3: addrs[2]}
}

// TestGracefulStopOfTheLeader: a client that commits all the time sees no error and no
// unknown when the leader, its home, is stopped in order; and all three stop in order.
func TestGracefulStopOfTheLeader(t *testing.T) {
	peers := peerAddrs(t)
	var nodes []*running
	for id := uint64(1); id <= 3; id++ {
		nodes = append(nodes, open(t, config.Serve{Node: id, Data: t.TempDir(), PeerListen: peers[id], Peers: peers}))
	}
	for _, n := range nodes {
		n.waitReady(t)
	}
	lead := int(nodes[0].status(t).Leader) - 1
	if lead < 0 {
		t.Fatal("no leader")
	}
	urls := ""
	for i := range nodes {
		urls += fmt.Sprintf(",amqp://%s", nodes[(lead+i)%3].server.Addr())
	}
	client, err := oncemq.Dial(t.Context(), urls[1:], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	session, err := client.OpenSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(t.Context(), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	const total, stopAt = 200, 50
	var longest time.Duration
	for i := range total {
		if i == stopAt {
			nodes[lead].stop()
		}
		begun := time.Now()
		err := session.InTx(t.Context(), func(tx *oncemq.Tx) error {
			return tx.Send(t.Context(), sender, oncemq.NewText(fmt.Sprint(i)))
		})
		if err != nil {
			t.Fatalf("transaction %d: %v", i, err)
		}
		longest = max(longest, time.Since(begun))
	}
	t.Logf("longest commit %v", longest)
	nodes[lead].stopAndCheck(t)
	other := nodes[(lead+1)%3]
	q, err := (&adminNode{replica: other.replica}).Queue(t.Context(), "orders")
	if err != nil || q.Depth != total {
		t.Errorf("queue after the stop: %+v, %v; want %d messages", q, err, total)
	}
}
