package replica

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

const (
	electionTicks  = 5
	heartbeatTicks = 1
	// clockEvery is how often a follower tells the leader its clock.
	clockEvery = time.Second
	// markRunningMillis is how much running time may pass unwritten while something is due in it. What a leader has not
	// written is lost with its leadership: were it the whole wait, leaders that change would have nothing ever end [4.5].
	markRunningMillis = 1000
)

// core is the raft step: events in, output out. It does no I/O but for raft's reads of the
// log, reads no clock, and belongs to one goroutine.
type core struct {
	self         uint64
	stamp        peer.Stamp
	others       []uint64            // the other nodes of the configuration, ascending
	config       state.Configuration // raft's
	storage      *storage
	announcement command.Announcement // of this node
	limits       Limits
	version      string // of the binary, for people
	safety       bool   // false with --safety off
	logger       *slog.Logger
	rng          *rand.Rand
	node         *raft.RawNode
	stored       func() uint64                      // the log's last index
	termAt       func(index uint64) (uint64, error) // of an entry in the log
	home         *home

	// now is a monotonic moment, civil the wall clock in ms, both as of the present step.
	now   time.Duration
	civil int64
	tick  time.Duration // when raft's next tick is due

	role     raft.StateType
	lead     uint64
	term     uint64
	commit   uint64
	last     uint64   // the highest index that raft wanted appended, or that the log had at the start
	own      uint64   // the first entry of this leader's own term, 0 where it isn't appended yet
	progress progress // what this replica has applied

	clock      logClock
	clockAt    time.Duration // when the leader was told this node's clock
	clockAlarm time.Duration // when this node's clock was complained about last
	packer     *packer
	sender     sender
	barriers   barriers
	epochs     epochs
	failover   failover
	lag        lagMeter
	digests    digests
	disk       stalled
	rooms      rooms
	cutIndex   uint64 // told or known to be on every node's disk
	cutTick    time.Duration
	askings    map[uint64]*asking // of nodes that recover
	tickIndex  uint64             // applied index at which a Tick was last proposed
	tickEntry  uint64             // index of its entry, as far as that can be told

	planAt, changeAt time.Duration // when to look at the members again, and when a change may be proposed
	planMark         uint64        // what was committed when they were looked at last
	leaderless       time.Duration // since when no leader is known
	outside          bool          // this node was removed, or raft's configuration is without it and it is to leave
	transferUntil    time.Duration // leadership is being handed over
	again            bool          // something changed that the timers must see at once
	out              output

	dropEntry func(entry []byte) bool // for tests: an entry that gets lost [1.1]
}

// event is one input of the core.
type event struct {
	kind     eventKind
	refused  bool // evGone
	from     uint64
	term     uint64 // evRecords
	stream   uint64 // evRecords
	data     []byte // evRecords
	message  *pb.Message
	messages []*pb.Message // evStored
	note     peer.Note
	progress progress
	done     func(bool)   // evBarrier
	room     command.Room // evRoom
	ask      func()       // evAsk
	changes  []confChange // evStored: applied, before messages
}

type eventKind uint8

const (
	evMessage  eventKind = 1 + iota // a raft message from a peer
	evStored                        // responses of the append and apply goroutines
	evRecords                       // a home's records
	evNote                          // a peer's note
	evUp                            // streams to a peer are up
	evLost                          // … are lost
	evGone                          // … and a dial failed
	evProgress                      // this replica applied something
	evExpected                      // state expects another number than was sent
	evBarrier                       // a read barrier is wanted
	evLease                         // the wish for a lease changed: refused = not wanted
	evUnreachable
	evTransfer // hand leadership over, to from or, where that is 0, to any
	evRemoved  // a peer knows that this node was removed
	evLeave    // end this node's own epoch: note
	evDigest   // this replica's digest: note
	evRoom     // this node's disk has that room now
	evAsk      // another node that recovers asks
)

// progress is what the apply goroutine tells after each group of entries.
type progress struct {
	index uint64
	due   state.Due
	stamp command.EntryHeader // what the next leader's stamps begin from
	level uint32              // the state's feature level
	// reported are the entries after which the state has this node's digest.
	reported [4]uint64
	founded  bool // ClusterInit is applied, of the stamp's history
	epochs   []nodeEpoch
	rooms    []command.NodeRoom // what state knows of the nodes' room
	ended    bool               // this node's epoch was ended by NodeDown
	members  *membership        // nil where the machine doesn't say
}

type nodeEpoch struct {
	node  command.NodeID
	epoch command.Epoch
}

// output is what a step wants done. Slices are reused by the next step.
type output struct {
	appends []*pb.Message // MsgStorageAppend, in order
	applies []applyJob    // in order
	sends   []*pb.Message // to peers
	records []outRecords
	notes   []outNote
	cut     uint64           // what every node has on disk, where it has risen
	lost    error            // the node can't go on
	fetch   *Offer           // a checkpoint that this node has to fetch
	members *membership      // where they have changed
	raise   *store.HardState // a commit index to be written, and the end of the replica
}

type outRecords struct {
	to      uint64
	records peer.Records
	epoch   command.Epoch
	first   uint64 // number of the first record, for untake
}

type outNote struct {
	to   uint64
	note peer.Note
}

func (o *output) reset() {
	clear(o.appends)
	clear(o.applies)
	clear(o.sends)
	clear(o.records)
	*o = output{o.appends[:0], o.applies[:0], o.sends[:0], o.records[:0], o.notes[:0], 0, nil, nil, nil, nil}
}

// transferring reports that leadership is being handed over: nothing is proposed.
func (c *core) transferring() bool { return c.now < c.transferUntil }

// leads reports that this node is the leader.
func (c *core) leads() bool { return c.role == raft.StateLeader }

// step takes events and the time, and leaves in c.out what is to be done. wake is the
// moment by which it wants to be called again.
func (c *core) step(now time.Duration, civil int64, events []event) (wake time.Duration) {
	c.out.reset()
	c.again = false
	slept := now - c.now
	c.now, c.civil = now, civil
	if slept > 3*c.limits.Tick {
		c.woke(slept)
	}
	for i := range events {
		c.handle(&events[i])
	}
	c.timers()
	c.sendRecords()
	c.pack()
	for c.node.HasReady() {
		c.ready()
		c.sendRecords() // a new leader wants them
		c.pack()        // what a commit has made room for
	}
	return c.wake()
}

// woke handles a pause of the whole process: what others said meanwhile is still unread, so
// nobody's silence counts.
func (c *core) woke(slept time.Duration) {
	if slept > silence {
		c.logger.Warn("the process stood still", "for", slept)
	}
	c.epochs.forgive(c.now)
	c.disk.since, c.disk.behind = c.now, 0
	if c.leads() {
		// Running time stands as well: whoever has a grace period could not use it [4.5].
		c.clock.runningAt += slept - c.limits.Tick
	}
}

func (c *core) handle(e *event) {
	switch e.kind {
	case evMessage:
		c.epochs.heard(e.from, c.now)
		if err := c.forgotten(e.message); err != nil {
			c.out.lost = err
			return
		}
		if c.late(e.message) || e.message.GetType() == pb.MsgReadIndex && c.unsettled() {
			return
		}
		if e.message.GetType() == pb.MsgSnap && !c.snapshot(e.message) {
			return
		}
		c.tellCommit(e.message)
		c.lag.committed(e.message.GetCommit(), e.message.GetType(), c.now)
		// Errors: raft doesn't want the message, and says so by an answer where one is due.
		_ = c.node.Step(e.message)
	case evStored:
		if c.reconfigure(e.changes); c.out.lost != nil {
			return
		}
		for _, m := range e.messages {
			_ = c.node.Step(m)
		}
	case evRecords:
		c.records(e)
	case evNote:
		c.epochs.heard(e.from, c.now)
		c.note(e)
	case evUp, evLost, evGone:
		c.peerChanged(e)
	case evProgress:
		c.applied(e.progress)
	case evExpected:
		c.sender.expected(c.now, e.term)
	case evBarrier:
		c.barriers.wait(c.now, e.done)
	case evLease:
		c.barriers.want(c.now, !e.refused)
	case evUnreachable:
		c.node.ReportUnreachable(e.from)
	case evTransfer:
		c.handOver(e.from)
	case evRemoved:
		c.out.lost = fmt.Errorf("%w (node %d says so)", ErrRemoved, e.from)
	case evRoom:
		c.ownRoom(e.room)
	case evAsk:
		e.ask()
	case evLeave:
		c.tellLeader(e.note)
	case evDigest:
		c.digests.add(e.note)
	}
}

// timers does what is due by time.
func (c *core) timers() {
	if c.now >= c.tick {
		// A missed tick is dropped: after a pause elections must not come from one jump.
		c.node.Tick()
		c.tick = max(c.tick+c.limits.Tick, c.now+c.limits.Tick/2)
		if c.leads() && !c.alone() {
			c.checkDisk()
		}
	}
	c.campaignTimer()
	c.barrierTimer()
	c.epochTimers()
	c.leaderTimers()
	c.reconcile()
	c.roomTimer()
	c.digestTimer()
	c.lag.sample(c.now, c.progress.index)
}

// tellLeader gives the leader a note of this node's own.
func (c *core) tellLeader(n peer.Note) {
	if c.leads() {
		c.note(&event{from: c.self, note: n})
	} else if c.lead != 0 {
		c.out.notes = append(c.out.notes, outNote{c.lead, n})
	}
}

// leaderTimers does what only a leader does by time: due work and the log's cut.
func (c *core) leaderTimers() {
	if !c.leads() {
		return
	}
	if c.tickIndex != c.progress.index && len(c.packer.system) == 0 && (c.progress.index >= c.tickEntry || c.packer.idle()) {
		civil, running := c.clock.times(c.now, c.civil)
		due := c.progress.due
		if due.Now(civil, running) || due.Running != state.Never && running-c.clock.running >= markRunningMillis {
			// One tick for each state applied; the next when its entry is. With entries of others between them there would be more
			// and more of them on their way, each as much work as an entry may be [4.2].
			c.tickIndex, c.tickEntry = c.progress.index, c.packer.nextIndex(c.progress.index)
			c.packer.system = append(c.packer.system, &command.Tick{})
		}
	}
	if c.now >= c.cutTick {
		c.cutTick = c.now + c.limits.KeepEvery
		c.tellCut()
		c.offerAgain()
		c.checkClock()
		c.nextTimer()
	}
}

// wake is the moment of the next timer.
func (c *core) wake() time.Duration {
	if c.again {
		return c.now
	}
	wake := c.tick
	earlier := func(t time.Duration) {
		if t > 0 && t < wake {
			wake = t
		}
	}
	earlier(c.failover.campaignAt)
	earlier(c.barriers.wake())
	if c.lead != 0 {
		earlier(c.digests.wake())
	}
	if c.leads() {
		if due := c.progress.due; due.Running != state.Never && c.tickIndex != c.progress.index {
			earlier(c.clock.runningAt + time.Duration(due.Running-c.clock.running)*time.Millisecond)
		}
	}
	return max(wake, c.now+time.Millisecond/2)
}

// applied takes what this replica has applied.
func (c *core) applied(p progress) {
	if p.members != c.progress.members {
		c.out.members, c.planAt = p.members, 0
		if p.members.outside(c.self) && !c.outside {
			c.outside = true
			c.logger.Warn("this node was removed from the cluster; it serves nobody any more, and ends once a member says that it knows")
		}
	}
	c.progress = p
	c.clock.seen(p.stamp)
	c.digests.reported(p.reported)
	c.packer.applied(p.index)
	c.sender.progress(c.now)
	if p.ended {
		c.epochEnded()
	}
}
