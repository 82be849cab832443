package sim

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// node is one process of the cluster, and its machine: the disk and the clocks stay when the process dies.
type node struct {
	w    *world
	id   int
	disk *Disk

	up     bool
	dark   bool // the machine is off: nothing is refused, nothing answered
	paused bool
	life   int      // of the process; what is planned for another is dropped
	queue  []func() // while paused

	step    *replica.Stepper
	fe      *frontend.Node
	epoch   command.Epoch
	started time.Duration // of the process, in the world's time
	rate    int64         // of the monotonic clock, in millionths: 1,000,000 is right
	civil   time.Duration // how far the wall clock is off
	limits  replica.Limits
	dies    int // steps until the process dies; 0: not planned

	writes   int    // to clients, until the process dies; 0: not planned
	flaps    int    // how often the process still dies soon after it got an epoch
	onEffect func() // once, when the next effect is there and no client has heard of it

	conns     map[uint64]*conn
	order     []*conn
	backlog   []*socket // taken by its kernel while the process stood still
	lastLocal uint64

	raftPlanned, appendPlanned, applyPlanned bool
	wake                                     timer
	slow                                     time.Duration // of the disk, for now
	leads                                    bool
	ill                                      bool // the disk fails, or is about to
	hung                                     bool // the disk answers nothing
	powerless                                bool // the next failure of the disk is the end of the machine

	owed    ledger
	forgot  bool // its disk has lost what it called durable
	flipped bool // a bit of its disk
	held    bool // it stays down until the others have everything
	gone    bool // it stays down
	removed bool // it is no member any more
	drained bool // it lets no client in

	recovering bool // its process takes no part and asks the others

	checkpoint *checkpoint // that it offers, nil: none
	fetching   int         // the life that fetches one, 0: none
}

// start begins a life of the process.
func (n *node) start() {
	if n.up || n.held || n.gone || n.recovering {
		return
	}
	n.up, n.dark, n.paused = true, false, false
	n.life++
	n.started = n.w.now
	n.queue, n.order, n.conns, n.lastLocal, n.epoch, n.dies, n.writes, n.onEffect = nil, nil, map[uint64]*conn{}, 0, 0, 0, 0, nil
	n.drained = false
	n.raftPlanned, n.appendPlanned, n.applyPlanned, n.leads = false, false, false, false
	if err := n.open(); err != nil {
		if n.unfit("start", err) || n.leaves(err) {
			return
		}
		n.w.fail("K9", "n%d doesn't start: %v", n.id, err)
		n.w.fatal = "start"
		n.up = false
		return
	}
	n.w.say("n%d starts, life %d", n.id, n.life)
	n.fe = frontend.New(frontend.Config{
		ContainerID: "node", Version: "sim", Dev: true, IdleTimeout: n.w.knobs.idle, TxIdle: n.w.knobs.txIdle,
	}, n.step)
	n.eachLink(func(l *link, outgoing bool) {
		if outgoing {
			l.dial(0)
			return
		}
		l.lose() // of the former life: its kernel answers with a reset now
		l.redial()
	})
	n.kick()
	n.planKeep()
}

// open opens the disk and makes the step machine over what is there.
func (n *node) open() (err error) {
	log, state, err := n.disk.Open()
	if err != nil {
		return err
	}
	if err := n.w.opened(n, log); err != nil {
		return err
	}
	if left := n.disk.Left(); left != (store.Left{}) {
		n.w.cutTail(n, left)
	}
	n.step, err = replica.NewStepper(replica.StepOptions{
		Node: command.NodeID(n.id), Voters: n.w.founders, Cluster: [16]byte{1}, Log: &watchedLog{log, n}, State: state, Mailbox: n,
		Send: n.send, Rand: rand.New(rand.NewPCG(n.w.rng.Uint64(), uint64(n.id))),
		Stream: uint64(n.w.now/time.Microsecond) + 1, Began: n.began(), Limits: n.limits, Logger: slog.New(complaints{n}),
		Checkpoint: n.makeCheckpoint, Drop: n.dropCheckpoint,
	})
	return err
}

// send is the step machine's way out.
func (n *node) send(to uint64, urgent bool, frame []byte) bool {
	other := n.w.nodeAt(int(to)) // a member that hasn't come yet has no process
	return other != nil && n.w.link(n, other).send(urgent, frame)
}

// run calls f as this life of the process, once it isn't paused.
func (n *node) run(life int, f func()) {
	if n.life != life || !n.up {
		return
	}
	if n.paused {
		n.queue = append(n.queue, f)
		return
	}
	f()
}

// after plans f for this life of the process.
func (n *node) after(d time.Duration, f func()) {
	life := n.life
	n.w.after(d, func() { n.run(life, f) })
}

// began is the moment at which the process's monotonic clock stood at 0.
func (n *node) began() time.Time { return began.Add(n.started) }

// mono is the process's monotonic clock.
func (n *node) mono() time.Duration {
	return time.Duration(int64(n.w.now-n.started) / 1000 * n.rate / 1000)
}

// clock is the same as a moment.
func (n *node) clock() time.Time { return n.began().Add(n.mono()) }

// worldly is when, in the world's time, the process's clock shows d; never before it does.
func (n *node) worldly(d time.Duration) time.Duration {
	return n.started + time.Duration(int64(d)/n.rate*1_000_000+int64(d)%n.rate*1_000_000/n.rate) + 2*time.Microsecond
}

func (n *node) moment(t time.Time) time.Duration { return n.worldly(t.Sub(n.began())) }

func (n *node) wall() int64 { return began.Add(n.w.now + n.civil).UnixMilli() }

// kick plans a raft step.
func (n *node) kick() {
	if n.raftPlanned || !n.up {
		return
	}
	n.raftPlanned = true
	n.after(n.w.between(0, n.w.knobs.wakeup), func() {
		n.raftPlanned = false
		n.raft()
	})
}

func (n *node) raft() {
	if n.dying() {
		return
	}
	wake := n.step.Raft(n.mono(), n.wall())
	n.watch()
	n.plan()
	n.fetch()
	life := n.life
	n.wake.set(n.w, n.worldly(wake), func() { n.run(life, n.kick) })
}

// watch notes who leads which term (K8).
func (n *node) watch() {
	st := n.step.Status()
	leads := st.Leader == command.NodeID(n.id) && st.Role == "leader"
	if leads && !n.leads {
		n.w.say("n%d leads term %d", n.id, st.Term)
		n.w.count("election")
		if other, ok := n.w.leaders[st.Term]; ok && other != n.id {
			n.w.fail("K8", "n%d and n%d both lead term %d", other, n.id, st.Term)
		}
		n.w.leaders[st.Term] = n.id
	}
	n.leads = leads
}

// plan lets the process's other steps follow where there is something for them.
func (n *node) plan() {
	p := n.step.Pending()
	if p.Append && !n.appendPlanned {
		n.appendPlanned = true
		n.after(n.w.between(n.w.knobs.disk[0], n.w.knobs.disk[1])+n.slow, n.append)
	}
	if p.Apply && !n.applyPlanned {
		n.applyPlanned = true
		n.after(n.w.between(n.w.knobs.apply[0], n.w.knobs.apply[1]), n.apply)
	}
	if p.Raft {
		n.kick()
	}
}

func (n *node) append() {
	if n.hung {
		n.after(100*time.Millisecond, n.append)
		return
	}
	n.appendPlanned = false
	if n.dying() {
		return
	}
	if err := n.step.Append(); err != nil {
		n.broken("append", err)
		return
	}
	if n.step.Full() {
		n.w.count("append without room")
		n.appendPlanned = true
		n.after(100*time.Millisecond, n.append)
	}
	if !n.dying() {
		n.plan()
	}
}

func (n *node) apply() {
	n.applyPlanned = false
	if n.dying() {
		return
	}
	if err := n.step.Apply(); err != nil {
		n.broken("apply", err)
		return
	}
	n.w.applied(n)
	if !n.dying() {
		n.plan()
	}
}

func (n *node) planKeep() {
	every := n.limits.KeepEvery
	if every == 0 {
		every = time.Second
	}
	n.after(every, func() {
		if err := n.step.Keep(); err != nil {
			n.broken("keep", err)
			return
		}
		if n.disk.real != nil {
			if _, err := n.step.Prepare(); err != nil {
				n.broken("prepare", err)
				return
			}
		}
		n.plan()
		n.planKeep()
	})
}

// broken: a step failed, and the process has to die. Only a fault of the disk may be why.
func (n *node) broken(step string, err error) {
	if n.unfit(step, err) || n.leaves(err) {
		return
	}
	if errors.Is(err, replica.ErrInstalled) { // another node knows what is committed
		n.w.count("commit index learned")
		n.w.say("n%d begins anew: %v", n.id, err)
		n.crash(false)
		n.restartLater()
		return
	}
	if !n.ill {
		n.w.fail("K14", "n%d: %s: %v", n.id, step, err)
	}
	n.w.count("fault of a disk")
	n.w.say("n%d can't go on: %s: %v", n.id, step, err)
	n.crash(n.powerless)
	n.powerless = false
	if !n.held && n.w.chance(70) {
		n.disk.Heal()
		n.ill = false
	}
	n.restartLater()
}

// dying counts the steps of a planned crash down; true: it has happened.
func (n *node) dying() bool {
	if n.dies == 0 {
		return false
	}
	n.dies--
	if n.dies > 0 {
		return false
	}
	n.crash(n.w.chance(20))
	n.restartLater()
	return true
}

func (n *node) restartLater() {
	if n.gone || n.recovering {
		return
	}
	life := n.life
	n.w.after(n.w.between(n.w.knobs.restart[0], n.w.knobs.restart[1]), func() {
		if n.life == life && !n.up {
			n.start()
		}
	})
}

// crash ends the process, or with power the whole machine: then nobody is told.
func (n *node) crash(power bool) {
	if !n.up {
		return
	}
	n.w.say("n%d dies%s", n.id, map[bool]string{true: ", with its machine"}[power])
	n.w.count("crash")
	n.up, n.paused, n.dark = false, false, power
	n.life++
	n.queue = nil
	n.hung = false
	n.wake.stop()
	conns := n.order
	n.order, n.conns = nil, map[uint64]*conn{}
	for _, s := range n.backlog {
		s.up.vanish()
		if power {
			s.down.vanish()
		} else {
			s.down.end(true)
		}
	}
	n.backlog = nil
	for _, c := range conns {
		c.over = true
		c.timer.stop()
		if power {
			c.s.up.vanish()
			c.s.down.vanish()
		} else {
			c.s.down.end(true)
		}
	}
	n.eachLink(func(l *link, outgoing bool) {
		if outgoing {
			l.drop()
			return
		}
		if power {
			l.silent()
			return
		}
		l.lose()
	})
	forgets := n.forgot || power && n.disk.Unsynced() || n.flipped
	lies := n.disk.Unsynced()
	if power {
		n.disk.Crash()
	} else {
		n.disk.Kill()
	}
	if power || !lies {
		n.w.checkDisk(n, forgets)
	}
	if power && lies {
		n.hold()
	}
	n.step, n.fe, n.epoch, n.checkpoint = nil, nil, 0, nil
}

// pause stops the process; resume lets it go on with all that came meanwhile.
func (n *node) pause() {
	if n.up && !n.paused {
		n.paused = true
		n.w.count("pause")
		n.w.say("n%d stands still", n.id)
	}
}

func (n *node) resume() {
	if !n.paused {
		return
	}
	n.w.say("n%d goes on", n.id)
	n.paused = false
	queue, life := n.queue, n.life
	n.queue = nil
	for _, f := range queue {
		n.run(life, f)
	}
}

// Deliver implements replica.Mailbox.
func (n *node) Deliver(local uint64, effects []command.Effect) {
	if n.w.handed != nil {
		n.w.handed(n, effects)
	}
	n.stood(effects)
	if f := n.onEffect; f != nil && effects[0].Kind != command.EffectDeliver {
		n.onEffect = nil
		n.after(0, f)
	}
	if c := n.conns[local]; c != nil {
		c.mail.effects = append(c.mail.effects, effects...)
		c.wake()
		return
	}
	for _, e := range effects {
		if e.Kind == command.EffectConnOpened {
			n.after(0, func() { n.fe.EndOrphan(&e); n.kick() })
		}
	}
}

// EpochBegun implements replica.Mailbox.
func (n *node) EpochBegun(epoch command.Epoch) {
	n.w.say("n%d has epoch %d", n.id, epoch)
	n.epoch = epoch
	n.fe.EpochBegun(epoch)
	n.flapped()
}

// EpochEnded implements replica.Mailbox.
func (n *node) EpochEnded(reason string) {
	n.w.say("n%d lost its epoch: %s", n.id, reason)
	n.w.count("epoch ended")
	n.epoch = 0
	n.fe.EpochEnded()
	for _, c := range n.order {
		c.mail.ended, c.mail.reason = true, reason
		c.wake()
	}
}
