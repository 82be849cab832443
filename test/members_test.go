package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

// grown is a cluster of real processes that is made by the cluster commands, and grows and shrinks by them.
type grown struct {
	t        *testing.T
	dir      string
	password string
	wrap     []string // before each command line: a network namespace's, or nothing
	host     func(machine int) string
	machines map[int]*machine
}

// machine is where a node runs; its number is the node's id.
type machine struct {
	g                  *grown
	number             int
	amqp, peer, adminA string
	cmd                *exec.Cmd // nil: not running
	log                string
}

func newGrown(t *testing.T) *grown {
	t.Helper()
	g := &grown{t: t, dir: t.TempDir(), machines: map[int]*machine{}, host: func(int) string { return "127.0.0.1" }}
	t.Cleanup(func() {
		for _, m := range g.machines {
			m.stop(syscall.SIGKILL)
			if t.Failed() {
				b, _ := os.ReadFile(m.log)
				t.Logf("log of node %d:\n%s", m.number, b[max(0, len(b)-4000):])
			}
		}
	})
	return g
}

// run runs a command of the binary, and gives its standard output; its error has the standard error.
func (g *grown) run(stdin string, args ...string) (string, error) {
	g.t.Helper()
	line := append(append(slices.Clone(g.wrap), cluster.Binary(g.t)), args...)
	ctx, cancel := context.WithTimeout(g.t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("oncemq %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String(), nil
}

// must is run where it has to work.
func (g *grown) must(stdin string, args ...string) string {
	g.t.Helper()
	out, err := g.run(stdin, args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// place finds addresses for a machine.
func (g *grown) place(number int) *machine {
	g.t.Helper()
	addrs, err := localcluster.FreeAddrs(3)
	if err != nil {
		g.t.Fatal(err)
	}
	port := func(i int) string { _, p, _ := net.SplitHostPort(addrs[i]); return p }
	m := &machine{
		g: g, number: number, amqp: addrs[0], peer: net.JoinHostPort(g.host(number), port(1)), adminA: addrs[2], log: filepath.Join(g.dir, fmt.Sprint("n", number, ".log")),
	}
	g.machines[number] = m
	return m
}

func (m *machine) data() string { return filepath.Join(m.g.dir, fmt.Sprint("n", m.number)) }

// serve starts the node.
func (m *machine) serve() {
	m.g.t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.g.t.Fatal(err)
	}
	defer log.Close()
	line := append(slices.Clone(m.g.wrap), cluster.Binary(m.g.t), "serve", "--data", m.data(), "--name", fmt.Sprint("mq", m.number),
		"--peer-listen", m.peer, "--listen", m.amqp, "--admin", m.adminA)
	m.cmd = exec.Command(line[0], line[1:]...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.g.t.Fatal(err)
	}
}

// stop ends the node and waits; the exit status is its end's.
func (m *machine) stop(sig syscall.Signal) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(sig)
	_ = m.cmd.Wait()
	m.cmd = nil
}

// ended waits for a node that ends by itself, and gives its exit status.
func (m *machine) ended() int {
	m.g.t.Helper()
	done := make(chan struct{})
	go func() { _ = m.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		m.g.t.Fatalf("node %d goes on", m.number)
	}
	code := m.cmd.ProcessState.ExitCode()
	m.cmd = nil
	return code
}

// cluster runs a cluster command against the node's admin API.
func (m *machine) cluster(args ...string) (string, error) {
	m.g.t.Helper()
	return m.g.run("", append(append([]string{"cluster"}, args...), "--admin", m.adminA)...)
}

func (m *machine) ok(args ...string) string {
	m.g.t.Helper()
	out, err := m.cluster(args...)
	if err != nil {
		m.g.t.Fatal(err)
	}
	return out
}

// await waits until the node's view of the cluster is as wanted.
func (m *machine) await(what string, ok func(*admin.Cluster) bool) {
	m.g.t.Helper()
	var out string
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		var c admin.Cluster
		if out, err = m.cluster("status", "-o", "json"); err == nil && json.Unmarshal([]byte(out), &c) == nil && ok(&c) {
			return
		}
	}
	m.g.t.Fatalf("node %d, %s: not within a minute: %s %v", m.number, what, out, err)
}

// voters says that the members are exactly these, all of them voters that are up.
func voters(ids ...uint64) func(*admin.Cluster) bool {
	return func(c *admin.Cluster) bool {
		var have []uint64
		for _, m := range c.Members {
			if m.Role != "voter" || !m.Up || m.Leaving {
				return false
			}
			have = append(have, m.Node)
		}
		return slices.Equal(have, ids)
	}
}

// first makes the cluster and starts its first node.
func (g *grown) first() *machine {
	g.t.Helper()
	m := g.place(1)
	out := g.must("", "cluster", "init", "--data", m.data())
	found := regexp.MustCompile(`password: (\S+)`).FindStringSubmatch(out)
	if found == nil {
		g.t.Fatalf("no password: %s", out)
	}
	g.password = found[1]
	m.serve()
	m.await("alone", voters(1))
	return m
}

// join has a machine join by a token of another.
func (g *grown) join(by *machine, number int, token ...string) *machine {
	g.t.Helper()
	m := g.place(number)
	text := by.ok(append([]string{"token"}, token...)...)
	out := g.must(text, "cluster", "join", "--token-file", "-", "--data", m.data(), "--peer-listen", m.peer)
	if !strings.Contains(out, "this is node "+strconv.Itoa(number)+" ") {
		g.t.Fatalf("joined as another node than %d: %s", number, out)
	}
	m.serve()
	return m
}

// load sends numbered messages to a queue until stop, over all addresses.
type load struct {
	client *oncemq.Client
	sent   atomic.Int64 // accepted: 1 to sent
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func (g *grown) load() *load {
	g.t.Helper()
	l := &load{}
	l.client = g.dial()
	s := must(l.client.OpenSession(g.t.Context(), nil))(g.t)
	out := must(s.NewSender(g.t.Context(), "life", nil))(g.t)
	ctx, cancel := context.WithCancel(g.t.Context())
	l.stop = cancel
	l.done.Go(func() {
		for i := int64(1); ctx.Err() == nil; i++ {
			call, end := context.WithTimeout(g.t.Context(), time.Minute)
			err := out.Send(call, oncemq.NewText(strconv.FormatInt(i, 10)))
			end()
			if err != nil {
				g.t.Errorf("send %d: %v", i, err)
				return
			}
			l.sent.Store(i)
		}
	})
	return l
}

func (g *grown) dial() *oncemq.Client {
	g.t.Helper()
	var urls []string
	for i := 1; i <= len(g.machines); i++ {
		urls = append(urls, "amqp://"+g.machines[i].amqp)
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), 30*time.Second)
	defer cancel()
	c := must(oncemq.Dial(ctx, strings.Join(urls, ","), &oncemq.Config{Credentials: oncemq.Credentials{User: "admin", Password: g.password}}))(g.t)
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// goesOn waits until a hundred more messages are accepted.
func (l *load) goesOn(t *testing.T, what string) {
	t.Helper()
	want := l.sent.Load() + 100
	for end := time.Now().Add(30 * time.Second); l.sent.Load() < want; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s nothing is accepted any more", what)
		}
	}
}

// check ends the load, and wants each message once, in order.
func (l *load) check(g *grown) {
	g.t.Helper()
	l.stop()
	l.done.Wait()
	s := must(l.client.OpenSession(g.t.Context(), nil))(g.t)
	in := must(s.NewReceiver(g.t.Context(), "life", nil))(g.t)
	for i := int64(1); i <= l.sent.Load(); i++ {
		ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
		d, err := in.Receive(ctx)
		if err == nil && d.Message.Value != strconv.FormatInt(i, 10) {
			err = fmt.Errorf("got %v", d.Message.Value)
		}
		if err == nil {
			err = d.Accept(ctx)
		}
		cancel()
		if err != nil {
			g.t.Fatalf("message %d of %d: %v", i, l.sent.Load(), err)
		}
	}
}

// TestClusterLife: one node becomes three under load, loses one, gets another in its place, moves leadership and clients, and becomes
// one again; every message that was accepted is there once.
func TestClusterLife(t *testing.T) {
	g := newGrown(t)
	m1 := g.first()
	if out := m1.ok("await-quorum"); !strings.Contains(out, "only one") {
		t.Errorf("a lone node: %s", out)
	}
	m2, m3 := g.join(m1, 2), g.join(m1, 3)
	m1.await("three voters", voters(1, 2, 3))
	m4 := g.place(4) // its address is in the clients' list from the beginning
	l := g.load()
	l.goesOn(t, "growing")

	m1.ok("transfer", "mq2")
	l.goesOn(t, "a transfer")
	m2.stop(syscall.SIGKILL)
	l.goesOn(t, "kill -9 of the leader")
	if _, err := m1.cluster("await-quorum", "--timeout", "1s"); err == nil {
		t.Error("one of two may stop")
	}
	m2.serve()
	m1.ok("await-quorum", "--timeout", "60s")
	for _, m := range []*machine{m1, m2, m3} {
		m.stop(syscall.SIGKILL)
	}
	for _, m := range []*machine{m3, m1, m2} {
		m.serve()
	}
	l.goesOn(t, "kill -9 of all three")
	m1.await("all three again", voters(1, 2, 3))
	// A node that has joined finds its stamp damaged: it says itself whose it is, and recovers from the others, whom it knows.
	m2.stop(syscall.SIGKILL)
	flip(t, filepath.Join(m2.data(), "STAMP"), 30)
	m2.serve()
	m1.await("node 2 with its stamp again", voters(1, 2, 3))
	m1.ok("await-quorum", "--timeout", "60s")
	l.goesOn(t, "a damaged stamp")
	if b, _ := os.ReadFile(m2.log); !strings.Contains(string(b), "recovers from the others") {
		t.Error("node 2 found no damage")
	}
	if out := m3.ok("step-down"); !strings.Contains(out, "leads") {
		t.Error(out)
	}

	if out, err := m1.cluster("remove", "3"); err == nil || !strings.Contains(err.Error(), "two voters") {
		t.Errorf("two voters would be left: %s %v", out, err)
	}
	// Node 3 is dead when it is replaced.
	m3.stop(syscall.SIGKILL)
	g.replace(m1, m4, 3)
	m1.await("node 4 in the place of node 3", voters(1, 2, 4))
	l.goesOn(t, "a replacement")
	m3.serve()
	if code := m3.ended(); code != 1 {
		t.Errorf("a removed node ends with %d", code)
	}
	if b, _ := os.ReadFile(m3.log); !strings.Contains(string(b), "removed from the cluster") {
		t.Error("a removed node doesn't say so")
	}

	g.drainAndRevive(m1, m2, m4)
	l.goesOn(t, "drains")
	m4.ok("remove", "mq2", "4")
	m1.await("alone again", voters(1))
	l.goesOn(t, "shrinking")
	l.check(g)
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[at] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// replace has a machine, whose place is found already, join for node old.
func (g *grown) replace(by, m *machine, old int) {
	g.t.Helper()
	text := by.ok("token", "--replace", strconv.Itoa(old))
	g.must(text, "cluster", "join", "--token-file", "-", "--data", m.data(), "--peer-listen", m.peer)
	m.serve()
}

// drainAndRevive drains each of three nodes in turn: it loses its clients and leadership and isn't ready, the others go on; then
// clients are spread by rebalance.
func (g *grown) drainAndRevive(all ...*machine) {
	g.t.Helper()
	const clients = 6
	for range clients {
		g.dial()
	}
	for _, m := range all {
		m.ok("await-quorum", "--timeout", "60s")
		m.ok("drain", "--over", "200ms")
		var s admin.NodeService
		if out := m.ok("drain", "--over", "0s", "-o", "json"); json.Unmarshal([]byte(out), &s) != nil || s.Connections != 0 || s.Leads || !s.Drained {
			g.t.Errorf("after a drain: %s", out)
		}
		ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Second)
		said := (*admin.StatusError)(nil)
		if err := admin.Call(ctx, m.adminA, "GET", "/readyz", nil, nil); !errors.As(err, &said) || said.Code != 503 {
			g.t.Errorf("a drained node is ready: %v", err)
		}
		cancel()
		m.ok("revive")
	}
	last := all[len(all)-1]
	last.await("the clients are elsewhere", func(c *admin.Cluster) bool { return connectionsOf(c, last) == 0 && total(c) > clients })
	// Where a client goes is its own choice, so one round may not be enough.
	last.await("the clients are spread", func(c *admin.Cluster) bool {
		for _, m := range all[:2] {
			m.ok("rebalance", "--over", "10ms")
		}
		return connectionsOf(c, last) > 0 && connectionsOf(c, all[0]) > 0 && connectionsOf(c, all[1]) > 0
	})
}

func connectionsOf(c *admin.Cluster, m *machine) uint64 {
	for i := range c.Members {
		if c.Members[i].Node == uint64(m.number) {
			return c.Members[i].Connections
		}
	}
	return 0
}

func total(c *admin.Cluster) (n uint64) {
	for i := range c.Members {
		n += c.Members[i].Connections
	}
	return n
}

// TestClusterOffLoopback: nodes at addresses that aren't loopback, in a network namespace of the test's own, speak TLS alone.
func TestClusterOffLoopback(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	ns := "oncemq-members-" + strconv.Itoa(os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", ns)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", ns).Run() })
	ip("-n", ns, "link", "set", "lo", "up")
	g := newGrown(t)
	g.wrap = []string{"ip", "netns", "exec", ns}
	g.host = func(machine int) string {
		a := "10.231.7." + strconv.Itoa(machine)
		ip("-n", ns, "addr", "replace", a+"/32", "dev", "lo")
		return a
	}
	m1 := g.first()
	g.join(m1, 2)
	g.join(m1, 3)
	m1.await("three voters", voters(1, 2, 3))
	m1.ok("step-down")
	// Who speaks to it without TLS gets no answer of a node.
	probe := exec.CommandContext(t.Context(), "ip", "netns", "exec", ns, "bash", "-c",
		fmt.Sprintf("exec 3<>/dev/tcp/%s; printf 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' >&3; timeout 10 cat <&3", strings.Replace(m1.peer, ":", "/", 1)))
	if out, err := probe.Output(); len(out) > 7 || bytes.Contains(out, []byte("OMQP")) { // an alert has 7 bytes
		t.Errorf("answered without TLS: %q, %v", out, err)
	}
}
