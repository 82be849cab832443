package faults

import (
	"math/rand/v2"
	"os/exec"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// Nemesis lets faults happen by twos and threes, as its seed says.
type Nemesis struct {
	w      *World
	rng    *rand.Rand
	happen []happening // all that this machine can do
	dead   map[int]bool
	counts map[string]int
	slow   time.Duration // the longest wait for a commit after a round
}

// happening is one kind of fault: begin does it to a node, and returns how it is healed.
// The nodes that it ends are in dead until the round is over.
type happening struct {
	name  string
	begin func(n *cluster.Node) (heal func())
}

// NewNemesis needs a World with proxies. Faults that need a disk of their own happen
// where there is one.
func (w *World) NewNemesis(seed uint64) *Nemesis {
	x := &Nemesis{w: w, rng: rand.New(rand.NewPCG(seed, 0x6e656d)), counts: make(map[string]int)}
	x.happen = []happening{
		{"kill", x.kill},
		{"kill", x.kill},
		{"stop", x.stop},
		{"isolate", x.isolate},
		{"one way", x.oneWay},
		{"cut link", x.cutLink},
		{"jam clients", x.jamClients},
		{"slow link", x.slowLink},
		{"flip a bit", x.flipBit},
	}
	if w.options.Disks != nil {
		x.happen = append(x.happen, happening{"power loss", x.powerLoss}, happening{"power loss of all", x.powerLossOfAll})
	}
	if _, err := exec.LookPath("strace"); err == nil {
		x.happen = append(x.happen, happening{"sync fails", x.syncFails})
	}
	return x
}

// Round is one round: two or three faults on nodes of the seed's choice, which begin
// within 2 s of each other, last up to 6 s more, and are healed in another order;
// then commits must go on.
func (x *Nemesis) Round() {
	x.w.tb.Helper()
	x.dead = make(map[int]bool)
	n := 2 + x.rng.IntN(2)
	var heals []func()
	for _, i := range x.rng.Perm(len(x.happen))[:n] {
		h := x.happen[i]
		x.counts[h.name]++
		heals = append(heals, h.begin(x.victim()))
		x.pause(2 * time.Second)
	}
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
	for _, node := range x.w.Nodes {
		node.WaitReady()
	}
	x.slow = max(x.slow, x.w.Commits(50, 2*failover))
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

func (x *Nemesis) slowLink(n *cluster.Node) func() {
	for _, other := range x.w.Others(n) {
		x.w.Link(n, other, cluster.Conditions{Delay: 50 * time.Millisecond})
	}
	return func() {
		for _, other := range x.w.Others(n) {
			x.w.Link(n, other, cluster.Conditions{})
		}
	}
}

func (x *Nemesis) flipBit(n *cluster.Node) func() {
	other := x.w.Others(n)[x.rng.IntN(nodes-1)]
	x.w.Link(n, other, cluster.Conditions{Flip: true})
	return func() { x.w.Link(n, other, cluster.Conditions{}) }
}

func (x *Nemesis) syncFails(n *cluster.Node) func() {
	if x.dead[n.ID] {
		return func() {}
	}
	n.ExpectEnd()
	x.dead[n.ID] = true
	end := x.w.Trace(n, "fsync,fdatasync", "error=EIO:when=1")
	return func() {
		x.w.Continue(n) // it may have been stopped before it could sync
		x.w.Kill(n)     // it may have had nothing to sync
		end()
	}
}
