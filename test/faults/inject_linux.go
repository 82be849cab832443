package faults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/test/cluster"
)

// private is set in a test process that has namespaces of its own (TestMain).
const private = "ONCEMQ_FAULTS_PRIVATE"

// Need skips the test where it has no namespaces of its own or one of the programs is
// missing.
func Need(tb testing.TB, programs ...string) {
	tb.Helper()
	if os.Getenv(private) == "" {
		tb.Skip("needs Linux, and root for namespaces of its own")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		} else if os.Getenv("ONCEMQ_SETUP") != "" {
			tb.Fatalf("make setup should have installed %s: %v", p, err)
		} else {
			tb.Skipf("needs the program %s (make setup installs it): %v", p, err)
		}
	}
}

// Long skips the test without ONCEMQ_LONG.
func Long(tb testing.TB) {
	tb.Helper()
	if os.Getenv("ONCEMQ_LONG") == "" {
		tb.Skip("takes long: set ONCEMQ_LONG=1")
	}
}

// Stop and Continue are SIGSTOP and SIGCONT.
func (w *World) Stop(list ...*cluster.Node) {
	for _, n := range list {
		n.Signal(syscall.SIGSTOP)
		w.Note("kill -STOP node %d", n.ID)
	}
}

// Continue ends Stop.
func (w *World) Continue(list ...*cluster.Node) {
	for _, n := range list {
		n.Signal(syscall.SIGCONT)
		w.Note("kill -CONT node %d", n.ID)
	}
}

// Dial opens so many connections to a node's AMQP port and says nothing on them; hang
// up closes them. Fewer are opened where the node takes no more.
func (w *World) Dial(n *cluster.Node, connections int) (hangUp func()) {
	w.tb.Helper()
	var list []net.Conn
	for range connections {
		c, err := net.DialTimeout("tcp", n.AMQP, 100*time.Millisecond)
		if err != nil {
			break
		}
		list = append(list, c)
	}
	w.Note("%d silent connections to node %d", len(list), n.ID)
	return func() {
		for _, c := range list {
			_ = c.Close()
		}
	}
}

// Link puts conditions on what node from says to node to: nodes send on what they
// dialled.
func (w *World) Link(from, to *cluster.Node, c cluster.Conditions) {
	w.peers[from.ID][to.ID].Set(true, c)
	w.Note("%d→%d: %+v", from.ID, to.ID, c)
}

// Isolate jams everything between n and the other nodes, without a word to either; the
// clients still reach it. rejoin ends it: what was said meanwhile arrives late.
func (w *World) Isolate(n *cluster.Node) (rejoin func()) {
	set := func(c cluster.Conditions) {
		for _, other := range w.Others(n) {
			for _, p := range []*cluster.Proxy{w.peers[n.ID][other.ID], w.peers[other.ID][n.ID]} {
				p.Set(true, c)
				p.Set(false, c)
			}
		}
	}
	set(cluster.Conditions{Jam: true})
	w.Note("node %d is isolated", n.ID)
	return func() {
		set(cluster.Conditions{})
		w.Note("node %d is reached again", n.ID)
	}
}

// Freezer is a control group of its own for each node.
type Freezer struct {
	w    *World
	root string
}

// NewFreezer puts each node's present process into a group.
func (w *World) NewFreezer() *Freezer {
	w.tb.Helper()
	mount := filepath.Join(w.dir, "cgroup")
	if err := os.Mkdir(mount, 0o700); err != nil {
		w.tb.Fatal(err)
	}
	if err := unix.Mount("none", mount, "cgroup2", 0, ""); err != nil {
		w.tb.Skipf("needs control groups, version 2: %v", err)
	}
	f := &Freezer{w: w, root: filepath.Join(mount, fmt.Sprintf("oncemq-faults-%d", os.Getpid()))}
	w.tb.Cleanup(func() {
		w.tb.Helper()
		_ = w.Close() // a group is removed only without processes
		for _, dir := range []string{f.dir(w.Nodes[0]), f.dir(w.Nodes[1]), f.dir(w.Nodes[2]), f.root} {
			if err := os.Remove(dir); err != nil {
				w.tb.Error(err)
			}
		}
		if err := unix.Unmount(mount, 0); err != nil {
			w.tb.Error(err)
		}
	})
	if err := os.Mkdir(f.root, 0o700); err != nil {
		w.tb.Fatal(err)
	}
	for _, n := range w.Nodes {
		if err := os.Mkdir(f.dir(n), 0o700); err != nil {
			w.tb.Fatal(err)
		}
		f.write(n, "cgroup.procs", strconv.Itoa(n.PID()))
	}
	return f
}

func (f *Freezer) dir(n *cluster.Node) string {
	return filepath.Join(f.root, fmt.Sprintf("node%d", n.ID))
}

func (f *Freezer) write(n *cluster.Node, file, text string) {
	f.w.tb.Helper()
	if err := os.WriteFile(filepath.Join(f.dir(n), file), []byte(text), 0); err != nil {
		f.w.tb.Fatal(err)
	}
}

// Freeze freezes a node; with false, it thaws.
func (f *Freezer) Freeze(n *cluster.Node, on bool) {
	f.w.tb.Helper()
	text := "0"
	if on {
		text = "1"
	}
	f.write(n, "cgroup.freeze", text)
	f.w.Note("freeze node %d: %v", n.ID, on)
}

// Kill kills all nodes at the same instant, as near as the kernel can.
func (f *Freezer) Kill() {
	f.w.tb.Helper()
	for _, n := range f.w.Nodes {
		n.ExpectEnd()
	}
	if err := os.WriteFile(filepath.Join(f.root, "cgroup.kill"), []byte("1"), 0); err != nil {
		f.w.tb.Fatal(err)
	}
	for _, n := range f.w.Nodes {
		n.Wait()
	}
	f.w.Note("all nodes are killed at once")
}

// Trace makes system calls of a node's process fail or wait from now on, as strace's
// inject says it; end lets go of the process, if it still lives.
func (w *World) Trace(n *cluster.Node, calls, inject string) (end func()) {
	w.tb.Helper()
	log := filepath.Join(w.dir, fmt.Sprintf("strace%d.log", n.ID))
	cmd := exec.Command("strace", "-f", "-q", "-o", log, "-p", strconv.Itoa(n.PID()), "-e", "trace="+calls, "-e", "inject="+calls+":"+inject)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	attached := false
	for !attached && len(ended) == 0 {
		w.For(time.Millisecond)
		attached = traced(n.PID())
	}
	if !attached {
		w.tb.Skipf("needs strace to attach to a process: %v: %s", <-ended, said.String())
	}
	w.Note("node %d: %s: %s", n.ID, calls, inject)
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended: // its status is the node's, or that of the signal
		case <-time.After(time.Second): // it waits for the end of a call that it delays itself
			_ = cmd.Process.Kill()
			<-ended
		}
		w.Note("node %d is traced no more", n.ID)
	}
}

// traced reports that a process has a tracer, or has ended already.
func traced(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || !strings.Contains(string(text), "TracerPid:\t0\n")
}

// Routes are rules of the kernel that swallow what one node says to others. They tell
// nodes apart by user: node i runs as user firstUser+i.
type Routes struct{ w *World }

const firstUser = 40000

// AsUsers is an Options.Wrap: it runs each node as a user of its own, who may do what
// root may.
func AsUsers(node int) []string {
	id := strconv.Itoa(firstUser + node)
	return []string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--pdeathsig", "KILL"}
}

// NewRoutes lets rules come before the table of local addresses, which is the first.
func (w *World) NewRoutes() *Routes {
	w.tb.Helper()
	w.run("ip", "rule", "add", "pref", "100", "lookup", "local")
	w.run("ip", "rule", "del", "pref", "0")
	w.tb.Cleanup(func() {
		w.run("ip", "rule", "add", "pref", "0", "lookup", "local")
		w.run("ip", "rule", "del", "pref", "100")
	})
	return &Routes{w}
}

// Silence lets vanish what from says on connections that it dialled to others; heal
// ends it.
func (r *Routes) Silence(from *cluster.Node, others ...*cluster.Node) (heal func()) {
	r.w.tb.Helper()
	rule := func(verb string, to *cluster.Node) {
		_, port, _ := strings.Cut(to.Peer, ":")
		user := strconv.Itoa(firstUser + from.ID)
		r.w.run("ip", "rule", verb, "pref", "1", "uidrange", user+"-"+user, "ipproto", "tcp", "dport", port, "blackhole")
	}
	for _, to := range others {
		rule("add", to)
		r.w.Note("what node %d says to node %d vanishes", from.ID, to.ID)
	}
	return func() {
		r.w.tb.Helper()
		for _, to := range others {
			rule("del", to)
			r.w.Note("node %d is heard by node %d again", from.ID, to.ID)
		}
	}
}
