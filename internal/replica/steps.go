package replica

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Network takes what goes to other nodes; *[peer.Network] is one, and says what each method
// does. The raft and append goroutines call it.
type Network interface {
	SendRaft(to uint64, urgent bool, p peer.Payload) bool
	SendRecords(to uint64, r peer.Records) bool
	SendNote(to uint64, n peer.Note) bool
	SetMembers(m peer.Members)
}

// steps is a node's replica without goroutines, connections and files: the queues between
// its three steps, and what each step does with what is in its queue. A [Replica] gives each
// step a goroutine, a [Stepper] leaves them to its caller; neither decides anything.
type steps struct {
	opts    Options
	logger  *slog.Logger
	began   time.Time // what monotonic moments count from
	network Network
	log     Log
	state   State
	start   store.Start
	machine *state.Machine
	decides machine // the same, but in some tests
	home    *home
	random  func([]byte)
	// raised keeps the state's feature level in the directory; nil: there is none.
	raised func(level uint32, version string) error
	skips  Skips // entries to be passed over

	events  *inbox[event]
	appends *inbox[appendJob]
	applies *inbox[applyJob]

	core     *core // of the raft step
	disk     *storage
	appender appender
	applier  *applier
	requests *requests
	lazy     lazySends             // of the raft step
	shownAt  time.Duration         // of the raft step
	offers   offers                // checkpoints made here
	wanted   atomic.Pointer[Offer] // one of another node, that this one has to fetch
	kept     uint64                // of the keep step: what was seen when it last did something
	// keptTight is of the keep step: whether there was little room then.
	keptTight bool

	// hadJob is of the apply step: whether a job was under way before.
	hadJob bool
	// jobEnded asks the keep step for a flush: a purge or a deletion is done. reclaimAt is of the keep step, the earliest moment for it.
	jobEnded  atomic.Bool
	reclaimAt time.Duration

	// Queues that were taken, for reuse; each of its step.
	takenEvents  []event
	takenAppends []appendJob
	takenApplies []applyJob

	everyone atomic.Uint64              // what every node has on disk, as far as told
	shown    atomic.Pointer[Status]     // of the last step
	members  atomic.Pointer[membership] // as of the last step; nil: not known
	lost     atomic.Pointer[error]      // why the node can't go on, as the raft step found
	lease    atomic.Int64               // monotonic ns; 0: none
	lagNanos atomic.Int64
	room     nodeRoom
	tight    atomic.Bool // there is little room on the disk
}

// newSteps makes the queues; load and build make the rest.
func newSteps(opts Options, began time.Time, random func([]byte)) steps {
	return steps{
		opts: opts, logger: opts.Logger, began: began, random: random,
		home: newHome(random), requests: &requests{}, offers: offers{wake: make(chan struct{}, 1)},
		events: newInbox[event](), appends: newInbox[appendJob](), applies: newInbox[applyJob](),
	}
}

// load checks log and state against each other and loads the machine.
func (s *steps) load() (err error) {
	if s.start, err = store.Begin(s.log, s.state); err != nil {
		return err
	}
	if s.opts.testMachine != nil {
		s.decides, err = s.opts.testMachine(s.state)
		return err
	}
	s.machine, err = loadMachine(s.state)
	s.decides = s.machine
	return err
}

// starting is the status before the first step.
func (s *steps) starting() {
	s.shown.Store(&Status{Node: s.opts.Node, Role: "starting", SafetyOff: s.opts.SafetyOff})
}

// build makes raft and the steps. Stream ids rise from stream on.
func (s *steps) build(stamp peer.Stamp, rng *rand.Rand, stream uint64) error {
	c := &core{
		self: uint64(s.opts.Node), limits: s.opts.Limits, safety: !s.opts.SafetyOff, logger: s.logger,
		rng: rng, home: s.home, version: s.opts.Version, stored: s.log.LastIndex, termAt: s.log.Term,
		last: s.start.Last, term: s.start.State.Term, commit: s.start.State.Commit, stamp: stamp, dropEntry: s.opts.testDrop,
	}
	if s.opts.SafetyOff {
		c.limits.EntriesInFlight = 1 << 20
	}
	c.announcement = command.Announcement{Level: command.Level, Name: s.opts.Name, Addresses: s.opts.Addresses}
	s.offers.log = s.log
	s.disk = &storage{log: s.log, start: s.start, conf: s.configuration(stamp), offered: s.offers.offered}
	if err := c.init(s.disk, stream); err != nil {
		return err
	}
	s.core = c
	c.rooms.own.memory = uint64(s.opts.Limits.StateBytes)
	s.appender = appender{log: s.log, fault: s.opts.testFault}
	s.applier = &applier{
		node: s.opts.Node, machine: s.decides, state: s.state, batch: new(store.Batch),
		home: s.home, mailbox: s.opts.Mailbox, requests: s.requests, applied: s.start.Applied, history: stamp.History,
		logger: s.logger, raised: s.raised, skips: s.skips,
	}
	if _, _, founded := s.decides.Cluster(); founded {
		s.applier.level, _ = s.decides.Level()
	}
	s.applier.report()
	s.events.put(event{kind: evProgress, progress: s.applier.out.progress})
	return nil
}

// configuration is raft's at the applied index: the state's, but where that is of an earlier history than the directory, or of none.
func (s *steps) configuration(stamp peer.Stamp) state.Configuration {
	c, founded := s.decides.Configuration()
	if _, history, _ := s.decides.Cluster(); !founded || history < stamp.History {
		return state.Configuration{Voters: named(stamp.Voters)}
	}
	return c
}

// raft is the raft step, with all that is queued. wake is the moment by which it wants to be
// called again.
func (s *steps) raft(now time.Duration, civil int64) (wake time.Duration) {
	if s.lost.Load() != nil {
		return now + time.Hour // the append step ends the node
	}
	defer func() {
		if p := recover(); p != nil {
			if s.disk.failed == nil {
				panic(p)
			}
			s.lose(s.disk.failed)
			wake = now + time.Hour
		}
	}()
	s.takenEvents = s.events.take(s.takenEvents)
	wake = s.core.step(now, civil, s.takenEvents)
	s.route(&s.core.out)
	s.publish()
	return wake
}

// lose has the append step end the node.
func (s *steps) lose(err error) {
	s.lost.Store(&err)
	s.appends.kick()
}

// route hands on what a raft step wants done.
func (s *steps) route(out *output) {
	if out.lost != nil {
		s.lose(out.lost)
	}
	if out.members != nil {
		s.members.Store(out.members)
		s.network.SetMembers(out.members.peers())
	}
	if out.fetch != nil {
		s.wanted.Store(out.fetch)
	}
	if len(out.appends) > 0 || out.cut > 0 {
		for _, m := range out.appends {
			s.appends.put(appendJob{message: m})
		}
		if out.cut > 0 {
			s.everyone.Store(out.cut)
		}
	}
	if out.raise != nil {
		s.appends.put(appendJob{raise: out.raise})
	}
	if len(out.applies) > 0 {
		s.applies.put(out.applies...)
	}
	sends := out.sends
	if s.opts.SafetyOff {
		sends = s.lazy.sift(s.core.now, sends)
	}
	for _, m := range sends {
		s.send(m)
	}
	for i := range out.records {
		if o := &out.records[i]; !s.network.SendRecords(o.to, o.records) {
			// The queue is full or the stream down: they stay here, in order.
			s.home.untake(o.epoch, o.first)
			break
		}
	}
	for _, n := range out.notes {
		s.network.SendNote(n.to, n.note)
	}
}

// send sends a raft message; one that can't be sent is reported to raft.
func (s *steps) send(m *pb.Message) {
	if !s.network.SendRaft(m.GetTo(), urgent(m), payload{m}) && m.GetType() == pb.MsgApp {
		s.events.put(event{kind: evUnreachable, from: m.GetTo()})
	}
}

// append is the append step, with all that is queued; did is false where nothing was. An
// error is final.
func (s *steps) append() (did bool, err error) {
	if lost := s.lost.Load(); lost != nil {
		return false, *lost
	}
	s.takenAppends = s.appends.take(s.takenAppends)
	if len(s.takenAppends) == 0 && len(s.appender.rest) == 0 {
		return false, nil
	}
	responses, err := s.appender.step(s.takenAppends)
	full := errors.Is(err, store.ErrFull)
	if err != nil && !full {
		return true, err
	}
	s.noteRoom(full)
	var own []*pb.Message
	for _, m := range responses {
		if m.GetTo() == s.core.self {
			own = append(own, m)
		} else {
			s.send(m)
		}
	}
	if len(own) > 0 {
		s.events.put(event{kind: evStored, messages: own})
	}
	return !full, nil
}

// apply is the apply step, with all that is queued. An error is final.
func (s *steps) apply() error {
	s.takenApplies = s.applies.take(s.takenApplies)
	if err := s.applier.step(s.takenApplies); err != nil {
		return err
	}
	out := &s.applier.out
	if out.browsers {
		s.applies.kick()
	}
	var events []event
	if len(out.responses)+len(out.changes) > 0 {
		events = append(events, event{kind: evStored, messages: slices.Clone(out.responses), changes: slices.Clone(out.changes)})
	}
	if out.moved {
		s.showRoom()
		if s.hadJob && !out.progress.due.Job {
			s.jobEnded.Store(true)
		}
		s.hadJob = out.progress.due.Job
		events = append(events, event{kind: evProgress, progress: out.progress})
	}
	if out.expected != 0 {
		events = append(events, event{kind: evExpected, term: out.expected})
	}
	for _, d := range out.digests {
		events = append(events, event{kind: evDigest, note: peer.Note{Kind: peer.NoteDigest, Index: d.index, Number: d.sum}})
	}
	if len(events) > 0 {
		s.events.put(events...)
	}
	return nil
}

// leave asks for the end of this node's epoch, if it has one.
func (s *steps) leave() (asked bool) {
	epoch, _, _ := s.home.life()
	if epoch != 0 {
		s.events.put(event{kind: evLeave, note: peer.Note{Kind: peer.NoteNodeDown, Index: uint64(epoch)}})
	}
	return epoch != 0
}
