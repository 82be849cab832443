package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// Nemesis lets faults happen by twos and threes, as its seed says.
type Nemesis struct {
	w      *World
	rng    *rand.Rand
	happen []happening  // all that this machine can do
	deck   []int        // of them, shuffled: each happens once before any happens again
	dead   map[int]bool // the nodes that this round has ended
	traced map[int]bool // those whose system calls it has in its hands
	after  []func()     // what has to be done when all run again
	// unsound is the node whose directory this round has damaged; nil: none. A second one may not be: the two would have no majority.
	unsound *cluster.Node

	played   map[string]int // by name
	combined [4]int         // rounds, by how many faults they had
	pairs    map[[2]string]bool
	slow     time.Duration // the longest wait for 50 commits after a round
}

// happening is one kind of fault: begin does it to a node, and returns how it is healed;
// nil: it can't happen to that node now. The nodes that it ends are in dead until the
// round is over.
type happening struct {
	name  string
	begin func(n *cluster.Node) (heal func())
}

// NewNemesis needs a World with proxies. Faults that need a disk of their own, root or a
// tracer happen where there is one.
func (w *World) NewNemesis(seed uint64) *Nemesis {
	x := &Nemesis{w: w, rng: rand.New(rand.NewPCG(seed, 0x6e656d)), played: make(map[string]int), pairs: make(map[[2]string]bool)}
	x.happen = []happening{
		{"kill", x.kill},
		{"kill all", x.killAll},
		{"stop", x.stop},
		{"pulses", x.pulses},
		{"isolate", x.isolate},
		{"one way", x.oneWay},
		{"cut link", x.cutLink},
		{"slow link", x.link(cluster.Conditions{Delay: 50 * time.Millisecond})},
		{"narrow link", x.link(cluster.Conditions{Rate: 125_000})},
		{"flip a bit", x.flipBit},
		{"jam clients", x.jamClients},
		{"reset clients", x.resetClients},
		{"bit in the log", x.bitIn("log")},
		{"bit in the state", x.bitIn("state")},
		{"bit in a small file", x.bitIn(".")},
		{"bit while it runs", x.bitWhileRunning},
		{"segment is cut", x.segmentIsCut},
		{"segment is gone", x.segmentIsGone},
		{"transfer", x.transfer},
		{"drain", x.drain},
	}
	if os.Getenv(private) != "" {
		x.happen = append(x.happen, happening{"starve", x.starve})
	}
	if w.options.Disks != nil {
		x.happen = append(x.happen, happening{"power loss", x.powerLoss}, happening{"power loss of all", x.powerLossOfAll}, happening{"disk full", x.diskFull})
	}
	if _, err := exec.LookPath("strace"); err == nil {
		x.happen = append(x.happen, happening{"sync fails", x.syncFails}, happening{"slow disk", x.slowDisk})
	}
	return x
}

// Round is one round: two or three faults on nodes of the seed's choice, which begin
// within 2 s of each other, last up to 6 s more, and are healed in another order;
// then commits must go on.
func (x *Nemesis) Round() {
	x.w.tb.Helper()
	x.dead, x.traced, x.after, x.unsound = make(map[int]bool), make(map[int]bool), nil, nil
	var heals []func()
	var names []string
	for range 2 + x.rng.IntN(2) {
		h := x.draw()
		if heal := h.begin(x.victim()); heal != nil {
			heals, names = append(heals, heal), append(names, h.name)
		}
		x.pause(2 * time.Second)
	}
	x.count(names)
	x.pause(6 * time.Second)
	for _, i := range x.rng.Perm(len(heals)) {
		heals[i]()
		x.pause(time.Second)
	}
	for _, node := range x.w.Nodes {
		if x.dead[node.ID] {
			node.Start()
			x.w.Note("node %d is started", node.ID)
		}
	}
	x.w.Note("healed")
	for _, do := range x.after {
		do()
	}
	for _, node := range x.w.Nodes {
		node.WaitReady()
	}
	x.slow = max(x.slow, x.w.Commits(50, 2*failover))
}

// draw takes the next card from the deck.
func (x *Nemesis) draw() happening {
	if len(x.deck) == 0 {
		x.deck = x.rng.Perm(len(x.happen))
	}
	h := x.happen[x.deck[0]]
	x.deck = x.deck[1:]
	return h
}

func (x *Nemesis) count(names []string) {
	x.combined[len(names)]++
	for i, a := range names {
		x.played[a]++
		for _, b := range names[:i] {
			x.pairs[[2]string{min(a, b), max(a, b)}] = true
		}
	}
}

func (x *Nemesis) rounds() int {
	return x.combined[0] + x.combined[1] + x.combined[2] + x.combined[3]
}

// Table says what was played how often, and what it cost.
func (x *Nemesis) Table(committed int, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s%6s\n", "fault", "played")
	for _, h := range x.happen {
		fmt.Fprintf(&b, "%-20s%6d\n", h.name, x.played[h.name])
	}
	fmt.Fprintf(&b, "%d rounds: %d of two faults at a time, %d of three; %d different pairs of %d\n",
		x.rounds(), x.combined[2], x.combined[3], len(x.pairs), len(x.happen)*(len(x.happen)-1)/2)
	fmt.Fprintf(&b, "%d transactions in %v, %.0f a second; longest time without a commit %v; 50 commits after a round took %v at most",
		committed, took.Round(time.Second), float64(committed)/took.Seconds(), x.w.longest.Round(10*time.Millisecond), x.slow.Round(10*time.Millisecond))
	return b.String()
}

// pause waits up to d.
func (x *Nemesis) pause(d time.Duration) { x.w.For(time.Duration(x.rng.Int64N(int64(d)))) }

// victim is a node: the leader half of the time, if there is one now.
func (x *Nemesis) victim() *cluster.Node {
	n := x.w.Nodes[x.rng.IntN(nodes)]
	if x.rng.IntN(2) == 0 {
		return n
	}
	for _, other := range x.w.Nodes {
		if x.dead[other.ID] {
			continue
		}
		if st, err := other.Status(x.w.ctx); err == nil && st.Role == "leader" {
			return other
		}
	}
	return n
}

// end kills nodes; those that are dead already stay so.
func (x *Nemesis) end(kill func(list ...*cluster.Node), list ...*cluster.Node) {
	for _, n := range list {
		x.dead[n.ID] = true
	}
	kill(list...)
}

func (x *Nemesis) kill(n *cluster.Node) func() {
	x.end(x.w.Kill, n)
	return func() {}
}

func (x *Nemesis) powerLoss(n *cluster.Node) func() {
	x.end(x.w.PowerLoss, n)
	return func() {}
}

func (x *Nemesis) powerLossOfAll(*cluster.Node) func() {
	x.end(x.w.PowerLoss, x.w.Nodes...)
	return func() {}
}

func (x *Nemesis) stop(n *cluster.Node) func() {
	x.w.Stop(n)
	return func() { x.w.Continue(n) }
}

func (x *Nemesis) isolate(n *cluster.Node) func() { return x.w.Isolate(n) }

func (x *Nemesis) oneWay(n *cluster.Node) func() {
	for _, other := range x.w.Others(n) {
		x.w.Link(other, n, cluster.Conditions{Jam: true})
	}
	return func() {
		for _, other := range x.w.Others(n) {
			x.w.Link(other, n, cluster.Conditions{})
		}
	}
}

func (x *Nemesis) cutLink(n *cluster.Node) func() {
	other := x.w.Others(n)[x.rng.IntN(nodes-1)]
	set := func(on bool) {
		x.w.peers[n.ID][other.ID].Refuse(on)
		x.w.peers[other.ID][n.ID].Refuse(on)
		x.w.Note("link of %d and %d is cut: %v", n.ID, other.ID, on)
	}
	set(true)
	return func() { set(false) }
}

func (x *Nemesis) jamClients(n *cluster.Node) func() {
	toServer := x.rng.IntN(2) == 0
	set := func(on bool) {
		x.w.fronts[n.ID].Set(toServer, cluster.Conditions{Jam: on})
		x.w.Note("clients of node %d are jammed (what they say: %v): %v", n.ID, toServer, on)
	}
	set(true)
	return func() { set(false) }
}

// link puts conditions on what a node says to the others.
func (x *Nemesis) link(c cluster.Conditions) func(n *cluster.Node) func() {
	return func(n *cluster.Node) func() {
		for _, other := range x.w.Others(n) {
			x.w.Link(n, other, c)
		}
		return func() {
			for _, other := range x.w.Others(n) {
				x.w.Link(n, other, cluster.Conditions{})
			}
		}
	}
}

func (x *Nemesis) flipBit(n *cluster.Node) func() {
	other := x.w.Others(n)[x.rng.IntN(nodes-1)]
	x.w.Link(n, other, cluster.Conditions{Flip: true})
	return func() { x.w.Link(n, other, cluster.Conditions{}) }
}

func (x *Nemesis) killAll(*cluster.Node) func() {
	x.end(x.w.Kill, x.w.Nodes...)
	return func() {}
}

// pulses stops a node for 200 ms, five times.
func (x *Nemesis) pulses(n *cluster.Node) func() {
	for range 5 {
		x.w.Stop(n)
		x.w.For(200 * time.Millisecond)
		x.w.Continue(n)
		x.w.For(200 * time.Millisecond)
	}
	return func() {}
}

func (x *Nemesis) resetClients(n *cluster.Node) func() {
	x.w.fronts[n.ID].Cut()
	x.w.Note("the clients of node %d are cut off", n.ID)
	return func() {}
}

func (x *Nemesis) starve(n *cluster.Node) func() {
	if x.dead[n.ID] {
		return nil
	}
	hog, heal := x.w.outrank(n)
	return func() {
		if x.dead[n.ID] { // its process is another's number now, perhaps
			hog()
			return
		}
		heal()
	}
}

func (x *Nemesis) diskFull(n *cluster.Node) func() {
	if x.dead[n.ID] {
		return nil
	}
	n.ExpectEnd() // it may end, since it can't write
	x.dead[n.ID] = true
	empty := x.w.Fill(n, 64<<10)
	return func() {
		x.w.Kill(n)
		empty()
	}
}

func (x *Nemesis) syncFails(n *cluster.Node) func() {
	if x.dead[n.ID] || x.traced[n.ID] {
		return nil
	}
	n.ExpectEnd()
	x.dead[n.ID], x.traced[n.ID] = true, true
	end := x.w.Trace(n, "fsync,fdatasync", "error=EIO:when=1")
	return func() {
		x.w.Continue(n) // it may have been stopped before it could sync
		x.w.Kill(n)     // it may have had nothing to sync
		end()
	}
}

func (x *Nemesis) slowDisk(n *cluster.Node) func() {
	if x.dead[n.ID] || x.traced[n.ID] {
		return nil
	}
	x.traced[n.ID] = true
	return x.w.Trace(n, "fsync,fdatasync", "delay_enter=100000")
}
