// Package cluster starts nodes of the real oncemq binary as child processes on
// loopback, for tests that need what only processes have: kill -9, stop signals,
// sockets and files. It is used by the tests of this module alone; it knows the
// command line and the admin API of a node and nothing of its packages.
//
// A child dies with the test process (parent-death signal) and with the test that
// started it. Methods are safe for concurrent use on different nodes.
package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cluster is a set of nodes with one static list of peers.
type Cluster struct {
	Nodes []*Node
	tb    testing.TB
}

// Node is one child process, which may be killed and started again over the same
// directory and addresses.
type Node struct {
	ID                int
	Addr, Peer, Admin string // host:port
	Dir               string
	binary, peers     string
	tb                testing.TB
	mu                sync.Mutex
	cmd               *exec.Cmd
	exited            chan struct{}
	stderr            *os.File
	extra             []string
}

// Status is what GET /api/v1/status says.
type Status struct {
	Node         int    `json:"node"`
	Leader       int    `json:"leader"`
	Role         string `json:"role"`
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	Safety       string `json:"safety"`
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "oncemq-test-bin")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "oncemq")
	cmd := exec.Command("go", "build", "-o", out, "./cmd/oncemq")
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building oncemq: %w\n%s", err, text)
	}
	return out, nil
})

// Binary is the path of the oncemq binary: $ONCEMQ where set, else built once from
// the directory above the test's.
func Binary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("ONCEMQ"); path != "" {
		return path
	}
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Start starts n nodes and waits until all are ready. extra flags go to each.
func Start(tb testing.TB, n int, extra ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	addrs := freeAddrs(tb, 3*n)
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("%d=%s", i+1, addrs[3*i+1]))
	}
	for i := range n {
		c.Nodes = append(c.Nodes, &Node{
			ID: i + 1, Addr: addrs[3*i], Peer: addrs[3*i+1], Admin: addrs[3*i+2],
			Dir: filepath.Join(tb.TempDir(), fmt.Sprintf("node%d", i+1)), binary: Binary(tb),
			peers: strings.Join(peers, ","), tb: tb, extra: extra,
		})
	}
	tb.Cleanup(func() {
		for _, node := range c.Nodes {
			node.Kill()
		}
		if tb.Failed() {
			c.dumpLogs()
		}
	})
	for _, node := range c.Nodes {
		node.Start()
	}
	for _, node := range c.Nodes {
		node.WaitReady(30 * time.Second)
	}
	return c
}

// URLs is the address list for clients, amqp://host:port,….
func (c *Cluster) URLs() string {
	var list []string
	for _, n := range c.Nodes {
		list = append(list, "amqp://"+n.Addr)
	}
	return strings.Join(list, ",")
}

// Leader is the node that most nodes call the leader; it waits up to 10 s for one.
func (c *Cluster) Leader() *Node {
	c.tb.Helper()
	var leader *Node
	Wait(c.tb, 10*time.Second, "a leader", func() bool {
		votes := make(map[int]int)
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil {
				votes[s.Leader]++
			}
		}
		for id, v := range votes {
			if id > 0 && v*2 > len(c.Nodes) {
				leader = c.Nodes[id-1]
				return true
			}
		}
		return false
	})
	return leader
}

func (c *Cluster) dumpLogs() {
	for _, n := range c.Nodes {
		text, err := os.ReadFile(n.Dir + ".log")
		if err != nil {
			continue
		}
		if len(text) > 8000 {
			text = text[len(text)-8000:]
		}
		c.tb.Logf("log of node %d:\n%s", n.ID, text)
	}
}

// Start starts the node's process, without waiting for it.
func (n *Node) Start() {
	n.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	log, err := os.OpenFile(n.Dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.tb.Fatal(err)
	}
	args := append([]string{
		"serve", "--dev", "--node", fmt.Sprint(n.ID), "--data", n.Dir, "--listen", n.Addr,
		"--peer-listen", n.Peer, "--peers", n.peers, "--admin", n.Admin,
	}, n.extra...)
	cmd := exec.Command(n.binary, args...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.tb.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			_, _ = fmt.Fprintln(log, s.Text())
		}
		_ = cmd.Wait() // killed on purpose more often than not
		_ = log.Close()
		close(exited)
	}()
	n.cmd, n.exited, n.stderr = cmd, exited, log
}

// Signal sends a signal to the node's process.
func (n *Node) Signal(sig syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(sig) // it may be gone already
	}
}

// Kill is kill -9, and returns when the process is gone.
func (n *Node) Kill() {
	n.Signal(syscall.SIGCONT)
	n.Signal(syscall.SIGKILL)
	n.WaitExit()
}

// WaitExit returns when the process is gone.
func (n *Node) WaitExit() {
	n.mu.Lock()
	exited := n.exited
	n.mu.Unlock()
	if exited != nil {
		<-exited
	}
}

// ExitCode is the exit status of the process, once WaitExit has returned.
func (n *Node) ExitCode() int { return n.cmd.ProcessState.ExitCode() }

// WaitReady returns when /readyz answers 200.
func (n *Node) WaitReady(limit time.Duration) {
	n.tb.Helper()
	Wait(n.tb, limit, fmt.Sprintf("node %d to be ready", n.ID), func() bool {
		resp, err := client.Get("http://" + n.Admin + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

var client = &http.Client{Timeout: 3 * time.Second}

// Status asks the node's admin API.
func (n *Node) Status() (Status, error) {
	var s Status
	return s, n.Get("/api/v1/status", &s)
}

// Get decodes the JSON answer of the admin API's path into v.
func (n *Node) Get(path string, v any) error {
	resp, err := client.Get("http://" + n.Admin + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, text)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// Wait polls cond every 10 ms until it holds; after limit the test fails.
func Wait(tb testing.TB, limit time.Duration, what string, cond func() bool) {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("waited %v in vain for %s", limit, what)
		}
	}
}

// freeAddrs finds n free ports of loopback, below the range of outgoing ones, where
// nobody's connection can take them between two lives of a node.
func freeAddrs(tb testing.TB, n int) []string {
	tb.Helper()
	var addrs []string
	var held []net.Listener
	for port := 20000 + os.Getpid()%8000; len(addrs) < n; port++ {
		if port > 32000 {
			tb.Fatal(errors.New("no free port between 20000 and 32000 on loopback"))
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		addrs = append(addrs, l.Addr().String())
	}
	for _, l := range held {
		_ = l.Close()
	}
	return addrs
}
