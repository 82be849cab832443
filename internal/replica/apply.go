package replica

import (
	"log/slog"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

const (
	// groupBytes is about how much log one batch of changes covers.
	groupBytes = 1 << 20
	// digestEvery is how often, in entries, the nodes compare their digests [7.2].
	digestEvery = 4096
)

// machine is what the apply step needs of *state.Machine; an interface so that the tests
// of this package can count instead.
type machine interface {
	Apply(index uint64, entry []byte, out state.Changes, effects []command.Effect) ([]command.Effect, error)
	Next() state.Due
	Digest() uint64
	Cluster() (id [16]byte, history uint16, ok bool)
	Stamp() command.EntryHeader
	Level() (level uint32, version string)
	Reported(node command.NodeID) (indexes [4]uint64)
	Skip(index uint64, entry []byte, out state.Changes) error
	Epoch(node command.NodeID) (epoch command.Epoch, next uint64)
	NodeRoom(node command.NodeID) (r command.NodeRoom, ok bool)
	Nodes() []command.NodeID
	Configure(index uint64, c state.Configuration, out state.Changes, effects []command.Effect) ([]command.Effect, error)
	Configuration() (c state.Configuration, ok bool)
	Slice(b *state.Browser) (s command.BrowseSlice, steps int)
	Members() []state.MemberInfo
	MembersRevision() uint64
	LastNode() command.NodeID
}

// applyJob is one thing for the apply goroutine; jobs are done in order.
type applyJob struct {
	kind    jobKind
	index   uint64      // jobBarrier: 0 means that it failed
	message *pb.Message // jobCommitted
	entries []*pb.Entry // jobEarly
	waiters []waiter    // jobBarrier
	reason  string      // jobEndEpoch
	browse  *browsing   // jobBrowse
}

type jobKind uint8

const (
	jobCommitted jobKind = 1 + iota // committed entries
	jobEarly                        // entries to be applied before they are committed (safety off)
	jobBarrier                      // a read barrier was answered, or failed
	jobEndEpoch                     // give the clients up
	jobBrowse                       // a browser\'s question
)

// applier is the apply step: committed entries through the machine, the changes to the
// store in one batch a group, then the effects to whom they are for.
type applier struct {
	node     command.NodeID
	machine  machine
	state    State
	batch    *store.Batch
	home     *home
	mailbox  Mailbox
	requests *requests
	history  uint16 // of the directory's stamp
	logger   *slog.Logger
	// raised keeps the state's feature level in the node's directory, before any change made at it can get there; nil: nothing does.
	raised func(level uint32, version string) error
	skips  Skips // entries to be passed over [4.4]

	level    uint32 // the machine's
	applied  uint64 // the machine's
	epoch    command.Epoch
	early    earlyEntries
	barriers []applyJob // answered, their index not yet applied here
	browsers browsers
	// ownNumber is the number up to which this node's records are applied; 0: no news.
	ownNumber uint64

	gathered      []*pb.Entry // to be applied with the next batch
	gatheredBytes int
	taken         uint64 // index of the last entry gathered or applied

	revision   uint64 // of the machine's members
	membership *membership

	effects []command.Effect // reused
	sorter  sorter
	out     applied
}

// applied is what the apply step wants done. It is reused by the next step.
type applied struct {
	responses []*pb.Message // to raft
	progress  progress
	moved     bool   // progress is news
	expected  uint64 // state expects this number, 0: nothing
	digests   []digest
	changes   []confChange
	browsers  bool // some have not been answered for want of time: another step is due
}

type digest struct{ index, sum uint64 }

// step does the jobs.
func (a *applier) step(jobs []applyJob) error {
	clear(a.out.responses)
	a.out = applied{responses: a.out.responses[:0], digests: a.out.digests[:0], changes: a.out.changes[:0]}
	a.gathered, a.gatheredBytes, a.taken = a.gathered[:0], 0, a.applied
	for i := range jobs {
		job := &jobs[i]
		switch job.kind {
		case jobBarrier:
			a.barriers = append(a.barriers, *job)
		case jobBrowse:
			a.browsers.ask(job.browse)
		case jobEndEpoch:
			if err := a.group(); err != nil {
				return err
			}
			a.endEpoch(job.reason)
		case jobEarly:
			a.early.add(job.entries)
		case jobCommitted:
			for _, e := range job.message.GetEntries() {
				fresh, err := a.early.fresh(a.taken, e)
				if err == nil && fresh {
					err = a.gather(e)
				}
				if err != nil {
					return err
				}
			}
			a.out.responses = append(a.out.responses, job.message.GetResponses()...)
		}
		for e := a.early.next(a.taken); e != nil; e = a.early.next(a.taken) {
			if err := a.gather(e); err != nil {
				return err
			}
		}
	}
	if err := a.group(); err != nil {
		return err
	}
	a.passBarriers()
	a.out.browsers = a.browsers.pass(a.machine, a.applied)
	return nil
}

// gather adds an entry to the group that is applied next.
func (a *applier) gather(e *pb.Entry) error {
	a.gathered, a.taken = append(a.gathered, e), e.GetIndex()
	if a.gatheredBytes += len(e.Data); a.gatheredBytes < groupBytes {
		return nil
	}
	return a.group()
}

// group applies what was gathered, with one batch of changes.
func (a *applier) group() error {
	if len(a.gathered) == 0 {
		return nil
	}
	effects := a.effects[:0]
	for _, e := range a.gathered {
		index := e.GetIndex()
		var err error
		if effects, err = a.entry(e, effects); err != nil {
			return err
		}
		a.applied = index
		if index%digestEvery == 0 {
			a.out.digests = append(a.out.digests, digest{index, a.machine.Digest()})
		}
	}
	clear(a.gathered)
	a.gathered, a.gatheredBytes = a.gathered[:0], 0
	if err := a.differs(effects); err != nil {
		return err
	}
	if err := a.keepLevel(); err != nil {
		return err
	}
	if err := a.state.Apply(a.batch, a.applied); err != nil {
		return err
	}
	a.deliver(effects)
	clear(effects)
	a.effects = effects[:0]
	if cap(a.effects) > 1<<14 {
		a.effects = nil
	}
	a.report()
	return nil
}

// report tells raft's goroutine what is applied.
func (a *applier) report() {
	p := &a.out.progress
	ended := p.ended
	*p = progress{index: a.applied, due: a.machine.Next(), ended: ended}
	p.stamp = a.machine.Stamp()
	p.level, _ = a.machine.Level()
	p.reported = a.machine.Reported(a.node)
	_, history, founded := a.machine.Cluster()
	p.founded = founded && history >= a.history
	for _, node := range a.machine.Nodes() {
		if epoch, _ := a.machine.Epoch(node); epoch != 0 {
			p.epochs = append(p.epochs, nodeEpoch{node, epoch})
		}
		if r, ok := a.machine.NodeRoom(node); ok {
			p.rooms = append(p.rooms, r)
		}
	}
	if r := a.machine.MembersRevision(); r != a.revision {
		a.revision, a.membership = r, &membership{all: a.machine.Members(), last: a.machine.LastNode()}
	}
	if p.founded {
		p.members = a.membership
	}
	a.out.moved = true
}

// deliver hands the effects on, in order: those of the node itself are done here, those of
// its connections go to the mailbox, one call for each connection.
func (a *applier) deliver(effects []command.Effect) {
	for i := range effects {
		e := &effects[i]
		if e.Node != a.node {
			continue
		}
		if e.Local != 0 {
			if a.epoch != 0 && e.Epoch == a.epoch {
				a.sorter.add(e)
			}
			continue
		}
		a.own(e)
	}
	a.handOver()
	if a.epoch != 0 {
		// Whatever ended the epoch, the machine knows.
		if epoch, _ := a.machine.Epoch(a.node); epoch != a.epoch {
			a.out.progress.ended = true
			a.endEpoch("the cluster took this node for dead; connect again")
		}
	}
}

// handOver gives the mailbox what was collected for it, and then the home the number up to
// which its records are applied: who waits for that finds the effects delivered.
func (a *applier) handOver() {
	a.sorter.deliver(a.mailbox)
	if a.ownNumber != 0 {
		a.home.applied(a.epoch, a.ownNumber)
		a.ownNumber = 0
	}
}

// own carries out an effect for the node itself.
func (a *applier) own(e *command.Effect) {
	switch e.Kind {
	case command.EffectApplied:
		if e.Epoch == a.epoch {
			a.ownNumber = e.Number
		}
	case command.EffectExpected:
		if e.Epoch == a.epoch && a.epoch != 0 {
			a.out.expected = e.Number
		}
	case command.EffectNodeUp:
		if nonce, ok := e.Detail.([16]byte); ok {
			a.beginEpoch(command.Epoch(e.Number), nonce)
		}
	case command.EffectNodeDown:
		if a.epoch != 0 && command.Epoch(e.Number) == a.epoch {
			a.out.progress.ended = true
			a.endEpoch("the cluster took this node for dead; connect again")
		}
	case command.EffectQueue, command.EffectUser, command.EffectMember, command.EffectCluster:
		a.requests.answer(*e)
	case command.EffectTimeSet:
		a.logger.Warn("civil time was set", "to", time.UnixMilli(e.Civil).UTC(), "by", e.Reason, "times so far", e.Number)
	default: // the others are for connections, or were looked at before
	}
}

// beginEpoch starts this node's epoch, if it is the one asked for: entries that are
// replayed bring those of former lives.
func (a *applier) beginEpoch(epoch command.Epoch, nonce [16]byte) {
	have, want, _ := a.home.life()
	if nonce != want || have == epoch {
		return
	}
	a.home.begin(epoch)
	a.epoch = epoch
	a.mailbox.EpochBegun(epoch)
}

// endEpoch ends this node's epoch as far as its clients are concerned.
func (a *applier) endEpoch(reason string) {
	if a.epoch == 0 {
		return
	}
	a.handOver()
	a.epoch = 0
	a.browsers = browsers{} // their connections end
	a.home.end()
	a.requests.endAll()
	a.mailbox.EpochEnded(reason)
}

// passBarriers answers the waiters of barriers whose index is applied.
func (a *applier) passBarriers() {
	a.barriers = slices.DeleteFunc(a.barriers, func(b applyJob) bool {
		if b.index > a.applied {
			return false
		}
		for _, w := range b.waiters {
			w.done(b.index > 0)
		}
		return true
	})
}

// sorter collects effects by connection, keeping the order of each.
type sorter struct {
	places map[uint64]int
	locals []uint64
	lists  [][]command.Effect // reused
}

func (s *sorter) add(e *command.Effect) {
	if s.places == nil {
		s.places = map[uint64]int{}
	}
	at, ok := s.places[e.Local]
	if !ok {
		at = len(s.locals)
		s.places[e.Local] = at
		s.locals = append(s.locals, e.Local)
		if at == len(s.lists) {
			s.lists = append(s.lists, nil)
		}
	}
	s.lists[at] = append(s.lists[at], *e)
}

func (s *sorter) deliver(mailbox Mailbox) {
	for i, local := range s.locals {
		mailbox.Deliver(local, s.lists[i])
		clear(s.lists[i])
		s.lists[i] = s.lists[i][:0]
	}
	s.locals = s.locals[:0]
	clear(s.places)
}
