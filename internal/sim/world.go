package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// Config is one world.
type Config struct {
	// Seed decides everything.
	Seed uint64
	// Liveness: when the faults end a minority stays dead, and all that is pending must end within a bound (K10). Without it
	// everybody is healed.
	Liveness bool
	// Nodes is 1 or 3 (default 3, and now and then 1 by the seed).
	Nodes int
	// Skip drops the faults with these numbers, in the order of their planning: the shrinker's.
	Skip map[int]bool
	// Jobs, if not 0, bounds the clients: the shrinker's.
	Jobs int
	// Retain, if not 0, is how many bytes of the log are kept for a node that is behind: few, so that it needs a checkpoint.
	Retain int64
	// MaxSteps bounds the events (default 3 million).
	MaxSteps int
	// Judge says what is wrong with an object's history, "" for nothing (K7); nil: nobody does.
	Judge func(*Object) string
	// Trace takes the transcript; nil: only its hash is kept.
	Trace io.Writer
}

// Result is how a world ended.
type Result struct {
	// Violations are what the checkers found, empty for a good world.
	Violations []string
	// Sum is a hash over the transcript and all bytes on all wires.
	Sum uint64
	// Coverage counts what happened (K15).
	Coverage map[string]int
	// Planned is how many faults were drawn, Faults how many of them were not left out, Clients how many clients there were, Ops how many operations clients asked for, Steps how many events there were.
	Planned, Faults, Clients, Ops, Steps int
	// Time is how long the world lasted, in its own time.
	Time time.Duration
}

// world is one run.
type world struct {
	cfg   Config
	rng   *rand.Rand
	knobs knobs
	trace trace
	now   time.Duration
	seq   uint64
	queue events
	steps int

	nodes   []*node
	links   [][]*link
	cutOff  map[int]bool // nodes that no client reaches
	sockets int
	open    []*socket
	agents  []*agent
	jobs    []job
	asker   *asker
	// operator changes the members; nil: they stay.
	operator *operator
	calm     bool          // no further fault
	stands   time.Duration // how long the next node with a hand-out stands still; 0: it does not
	winding  bool          // clients begin nothing new
	ops      int
	faults   int

	home   int                                                 // where clients begin; 0: anywhere
	sent   func(l *link, stream int, frame []byte) (kept bool) // a scenario's hands: it keeps the frame, and may carry it later
	handed func(n *node, e []command.Effect)                   // and its eyes

	moments     int64 // stamps given out
	queues      map[string]*Object
	private     []string        // queues of one client each
	mortal      map[string]bool // queues that are deleted and purged under their clients
	history     history
	entries     [][]stored // all that was ever stored at an index, by any node
	committed   []stored   // what was applied, of 1 and on
	settled     uint64     // what was applied somewhere when the followers began to rest
	founders    []command.NodeID
	configs     []configured // that were committed, the founders' first
	lonely      bool         // there are configurations of one voter
	timeSet     bool         // an operator was told that civil time is set
	clocksRight bool         // when that was asked for, and since
	doomed      *node        // the one whose disk may lose for good what it called durable
	lost        *node        // the one that never comes back, and is a member
	dead        *node        // the one that stays dead when all are healed
	leaders     map[uint64]int
	digests     map[uint64]uint64
	coverage    map[string]int
	violations  []string
	fatal       string
}

// Run is one world from its beginning to its verdict. A panic, of the product or of the world, is a violation.
func Run(cfg Config) (r *Result) {
	if cfg.MaxSteps == 0 {
		cfg.MaxSteps = 300_000
	}
	w := newWorld(cfg)
	defer func() {
		if p := recover(); p != nil {
			w.fail("K14", "panic: %v", p)
			w.violations[len(w.violations)-1] += "\n" + string(debug.Stack()) // addresses differ: not in the transcript
			r = w.result()
		}
	}()
	w.knobs = w.turnKnobs()
	if cfg.Retain > 0 {
		w.knobs.limits.RetainBytes, w.knobs.limits.LogFlushBytes, w.knobs.limits.KeepEvery = cfg.Retain, cfg.Retain, 50*time.Millisecond
	}
	w.say("seed %d, liveness %v, knobs %+v", cfg.Seed, cfg.Liveness, w.knobs)
	w.found()
	w.startJobs()
	w.planFaults()
	w.planOrdeal()
	w.runUntil(w.knobs.length, nil)
	w.heal()
	w.finish()
	return w.verdict()
}

// newWorld is a world before anything is in it.
func newWorld(cfg Config) *world {
	w := &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6f6e63656d71)), trace: trace{out: cfg.Trace},
		queues: map[string]*Object{}, mortal: map[string]bool{}, cutOff: map[int]bool{}, leaders: map[uint64]int{}, digests: map[uint64]uint64{}, coverage: map[string]int{},
	}
	w.history = history{w: w, messages: map[string]*message{}}
	return w
}

// verdict drains the queues and calls the checkers.
func (w *world) verdict() *Result {
	w.drain()
	w.check()
	w.close()
	w.judge()
	w.say("end: %d operations, %d faults, %d violations", w.ops, w.faults, len(w.violations))
	return w.result()
}

// result is what there is to be said of the world up to now.
func (w *world) result() *Result {
	return &Result{
		Violations: w.violations, Sum: w.trace.sum, Coverage: w.coverage, Planned: w.knobs.faults, Faults: w.faults,
		Clients: len(w.jobs), Ops: w.ops, Steps: w.steps, Time: w.now,
	}
}

// close ends what goes on in real disks, and lets all that they hold count for the world's sum.
func (w *world) close() {
	for _, n := range w.nodes {
		n.disk.Kill()
		if n.disk.real != nil {
			n.disk.real.each(w.mix)
		}
	}
}

// found makes the nodes and starts them.
func (w *world) found() {
	count := w.cfg.Nodes
	if count == 0 {
		count = 3
		if w.chance(5) {
			count = 1
		}
	}
	for range count {
		w.founders = append(w.founders, command.NodeID(w.newNode(count == 1).id))
	}
	w.configs = []configured{{0, state.Configuration{Voters: w.founders}}}
	for _, n := range w.nodes {
		n.start()
	}
	w.runUntil(5*time.Second, func() bool {
		for _, n := range w.nodes {
			if n.epoch == 0 {
				return false
			}
		}
		return true
	})
	for _, n := range w.nodes {
		if n.epoch == 0 {
			w.fail("K10", "n%d has no epoch 5 s after the start", n.id)
		}
	}
	if w.knobs.members {
		w.startOperator()
	}
}

// startJobs starts the clients.
func (w *world) startJobs() {
	queues := []string{"a", "b", "c"}
	any := func() string { return queues[w.rng.IntN(len(queues))] }
	kinds := w.knobs.clients
	if w.cfg.Jobs > 0 {
		kinds = min(kinds, w.cfg.Jobs)
	}
	for i := range kinds {
		size := 10 + w.rng.IntN(w.knobs.size)
		switch pick := w.rng.IntN(10); {
		case i == 0 || pick < 3:
			w.jobs = append(w.jobs, w.newProducer(fmt.Sprintf("p%d", i), any(), 2*size))
		case i == 1 || pick < 6:
			w.jobs = append(w.jobs, w.newMover(fmt.Sprintf("t%d", i), any(), []string{any(), any()}, size))
		case pick < 8:
			w.jobs = append(w.jobs, w.newConsumer(fmt.Sprintf("c%d", i), any(), size))
		default:
			w.jobs = append(w.jobs, w.newPlain(fmt.Sprintf("j%d", i), any(), any(), size))
		}
	}
	room := 100
	if w.cfg.Jobs > 0 {
		room = w.cfg.Jobs - len(w.jobs)
	}
	w.startAdmins(room)
	if w.cfg.Jobs > 0 {
		room = w.cfg.Jobs - len(w.jobs)
	}
	w.startStrangers(room, any)
}

// knobs are a seed's own settings: half of the seeds turn some of them far from where they usually stand.
type knobs struct {
	length                 time.Duration // of the workload
	clients, size          int
	think                  time.Duration
	clientDelay, nodeDelay [2]time.Duration
	disk, apply, restart   [2]time.Duration
	wakeup                 time.Duration // how late a process may look at what came
	split                  int           // percent of writes that arrive in two pieces
	drift                  int           // of monotonic clocks, millionths
	faults                 int
	wild                   bool // the network between nodes isn't TCP
	drop, duplicate        int  // percent
	reorder, corrupt       int  // percent, per mille
	idle, txIdle           time.Duration
	limits                 replica.Limits
	flush                  int  // bytes of state changes that stay in memory
	real                   bool // disks are package store's own, instead of the twins
	members                bool // an operator changes the members
	ordeal                 bool // a node recovers under hard conditions
	admins, churn          bool // queues are administered: by themselves, and under clients
	polls, twins, numbers  bool // there are such clients
	hostile                bool
}

func (w *world) turnKnobs() knobs {
	ms := time.Millisecond
	k := knobs{
		length: w.between(6*time.Second, 12*time.Second), clients: 3 + w.rng.IntN(4), size: 20, think: 60 * ms,
		clientDelay: [2]time.Duration{ms / 20, ms}, nodeDelay: [2]time.Duration{ms / 20, ms},
		disk: [2]time.Duration{ms / 10, 3 * ms}, apply: [2]time.Duration{ms / 50, ms / 2},
		restart: [2]time.Duration{50 * ms, 3 * time.Second}, wakeup: ms / 10, split: 20, drift: 200,
		faults: 3 + w.rng.IntN(5), idle: 5 * time.Second,
	}
	buggify := func(p int, f func()) {
		if w.chance(p) {
			f()
		}
	}
	buggify(25, func() { k.limits.EntryBytes = 1 + w.rng.IntN(400) })
	buggify(25, func() { k.limits.EntriesInFlight = 1 + w.rng.IntN(3) })
	buggify(25, func() { k.limits.KeepEvery = w.between(20*ms, 300*ms); k.limits.LogFlushBytes = 4 << 10 })
	buggify(25, func() { k.flush = 1 + w.rng.IntN(4<<10) })
	buggify(15, func() { k.limits.Tick = w.between(40*ms, 100*ms) })
	buggify(15, func() { k.disk[1] = w.between(5*ms, 60*ms) })
	buggify(10, func() { k.apply[1] = w.between(ms, 30*ms) })
	buggify(15, func() { k.nodeDelay[1] = w.between(ms, 40*ms) })
	buggify(15, func() { k.clientDelay[1] = w.between(ms, 40*ms) })
	buggify(15, func() { k.wakeup = w.between(ms, 10*ms) })
	buggify(20, func() { k.split = 90 })
	buggify(10, func() { k.txIdle = w.between(200*ms, 2*time.Second) })
	buggify(20, func() { k.think = 2 * ms; k.size = 60 })
	buggify(25, func() {
		k.wild, k.drop, k.duplicate, k.reorder, k.corrupt = true, w.rng.IntN(4), w.rng.IntN(6), w.rng.IntN(6), w.rng.IntN(4)
	})
	k.admins, k.churn = w.chance(30), w.chance(15)
	k.polls, k.twins, k.numbers, k.hostile = w.chance(30), w.chance(45), w.chance(40), w.chance(20)
	if k.ordeal = w.cfg.Nodes == 0 && w.cfg.Seed/4%8 == 2; k.ordeal {
		k.limits.KeepEvery = w.between(20*ms, 100*ms)
	}
	if k.members = w.cfg.Nodes == 0 && w.cfg.Seed/4%8 == 5; k.members {
		w.turnMemberKnobs(&k)
	}
	if k.real = w.cfg.Seed%10 == 7 && !k.members; k.real {
		w.count("real disk")
		k.faults += 2
	}
	return k
}

// wild says that the network between nodes does what TCP doesn't.
func (w *world) wild() bool { return w.knobs.wild && !w.calm }
