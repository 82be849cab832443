package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
)

// TestMain makes this test binary a node when it is started as one: an admin port
// that tells what it was given, and an end by SIGTERM. Node 2 leads.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func serve(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	node := flags.Uint64("node", 0, "")
	addr := flags.String("admin", "", "")
	flags.Bool("dev", false, "")
	for _, name := range []string{"data", "listen", "peers", "safety"} {
		flags.String(name, "", "")
	}
	flags.Parse(args)
	st := admin.Status{Node: *node, PID: os.Getpid(), Role: "follower", Safety: flags.Lookup("safety").Value.String()}
	if *node == 2 {
		st.Role, st.Term = "leader", 7
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(st) })
	mux.HandleFunc("/api/v1/queues/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") == "none" {
			http.Error(w, `{"error":"no such queue"}`, http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(admin.Queue{Name: r.PathValue("name"), Depth: 5})
	})
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServe(*addr, mux) }()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	select {
	case <-term:
		return 0
	case <-failed:
		return 3
	}
}

func start(t *testing.T, nodes int) (*Cluster, context.Context) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(Config{Binary: self, Dir: t.TempDir(), Nodes: nodes, SafetyOff: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return c, ctx
}

func TestClusterLife(t *testing.T) {
	c, ctx := start(t, 3)
	leader, err := c.Leader(ctx)
	if err != nil || leader.ID != 2 {
		t.Fatalf("leader %v, %v; want node 2", leader, err)
	}
	if n := c.ByAMQP(leader.AMQP); n != leader || c.ByAMQP("127.0.0.1:1") != nil {
		t.Errorf("by address: %v", n)
	}
	if urls := strings.Split(c.URLs(1), ","); len(urls) != 3 || urls[0] != "amqp://"+leader.AMQP {
		t.Errorf("addresses from the second on: %v", urls)
	}
	q, exists, err := leader.Queue(ctx, "orders")
	if err != nil || !exists || q.Depth != 5 {
		t.Errorf("queue: %+v, %v, %v", q, exists, err)
	}
	if _, exists, err := leader.Queue(ctx, "none"); err != nil || exists {
		t.Errorf("no queue: %v, %v", exists, err)
	}

	before := leader.PID()
	if err := leader.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	leader.Wait()
	if _, err := leader.Status(ctx); err == nil {
		t.Error("a killed node answers")
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err == nil {
		t.Error("started a running node")
	}
	if err := leader.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if st, err := leader.Status(ctx); err != nil || st.PID == before || st.PID != leader.PID() || st.Safety != "off" {
		t.Errorf("after the restart: %+v, %v (pid before: %d)", st, err, before)
	}
	pids := []int{}
	for _, n := range c.Nodes() {
		pids = append(pids, n.PID())
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	select {
	case ended := <-c.Unexpected():
		t.Errorf("what was ordered is reported: %v", ended.Err)
	default:
	}
}

// TestUnexpectedEnd: a node that ends by itself is reported, with its log's name.
func TestUnexpectedEnd(t *testing.T) {
	c, ctx := start(t, 1)
	n := c.Nodes()[0]
	if err := syscall.Kill(n.PID(), syscall.SIGKILL); err != nil { // behind the cluster's back
		t.Fatal(err)
	}
	select {
	case ended := <-c.Unexpected():
		err := ended.Err
		if ended.Node != n || !strings.Contains(err.Error(), "node 1 ended by itself") || !strings.Contains(err.Error(), filepath.Base(n.LogPath)) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("not reported")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoppedNodeIsStoppedByClose(t *testing.T) {
	c, _ := start(t, 1)
	if err := c.Nodes()[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestNodeThatCannotRunIsSaid(t *testing.T) {
	c, err := Start(Config{Binary: "/bin/false", Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Error(err)
	}
	if _, err := Start(Config{Binary: "/nowhere/oncemq", Dir: t.TempDir(), Nodes: 1}); err == nil {
		t.Error("started what doesn't exist")
	}
}

// TestPortsAreOutOfTheKernelsRange: a dead node's port must not become some client's.
func TestPortsAreOutOfTheKernelsRange(t *testing.T) {
	addrs, err := FreeAddrs(9)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		if n, _ := strconv.Atoi(port); seen[addr] || n >= firstEphemeral() || n < 10000 {
			t.Errorf("%s among %v", addr, addrs)
		}
		seen[addr] = true
	}
}

// TestCommandLine: where the settings go.
func TestCommandLine(t *testing.T) {
	cfg := Config{
		Binary: "oncemq", Dir: "d", SafetyOff: true, Flags: []string{"--more"},
		Data: func(node int) string { return "disk" + strconv.Itoa(node) },
		Dial: func(from, to int, addr string) string { return addr + strconv.Itoa(10*from+to) },
		Wrap: func(node int) []string { return []string{"wrap", strconv.Itoa(node)} },
	}
	all := []*Node{cfg.node(1, []string{"a1", "p1", "h1"}), cfg.node(2, []string{"a2", "p2", "h2"})}
	got := strings.Join(cfg.commandLine(all[1], all), " ")
	want := "wrap 2 oncemq serve --dev --node 2 --data disk2 --listen a2 --admin h2 --peers 1=p121,2=p2 --safety off --more"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	bare := Config{Binary: "oncemq", Dir: "d"}
	n := bare.node(1, []string{"a", "p", "h"})
	if got, want := strings.Join(bare.commandLine(n, []*Node{n}), " "), "oncemq serve --dev --node 1 --data d/node1 --listen a --admin h --peers 1=p"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestExpectedEnd: an end that was announced isn't reported, and its status can be read.
func TestExpectedEnd(t *testing.T) {
	c, _ := start(t, 1)
	n := c.Nodes()[0]
	if got := n.ExitCode(); got != -1 {
		t.Errorf("exit status %d of a running node", got)
	}
	n.ExpectEnd()
	p, err := os.FindProcess(n.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil { // not by the node's own Signal
		t.Fatal(err)
	}
	n.Wait()
	if got := n.ExitCode(); got != 0 {
		t.Errorf("exit status %d, want 0", got)
	}
	// Had it been reported, it would stand before the next one.
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Unexpected(); !strings.Contains(e.Err.Error(), "killed") {
		t.Errorf("the announced end was reported: %v", e.Err)
	}
}
