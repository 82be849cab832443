package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// complainEvery is how often the same fault is logged.
const complainEvery = 10 * time.Second

// Replica is one node's replica. All exported methods are safe for concurrent use.
type Replica struct {
	opts   Options
	logger *slog.Logger
	began  time.Time // what monotonic counts from

	dir     *store.Dir
	log     *store.Log
	state   *store.State
	start   store.Start
	machine *state.Machine
	decides machine // the same, but in some tests
	network *peer.Network
	home    *home

	events  *inbox[event]
	appends *inbox[appendJob]
	applies *inbox[applyJob]

	core     *core // of the raft goroutine
	appender appender
	applier  *applier
	requests *requests
	lazy     lazySends     // of the raft goroutine
	shownAt  time.Duration // of the raft goroutine
	wantedAt time.Duration // of the raft goroutine: when snapshotWanted complained last

	everyone atomic.Uint64          // what every node has on disk, as far as told
	shown    atomic.Pointer[Status] // of the last step
	lease    atomic.Int64           // monotonic ns; 0: none
	lagNanos atomic.Int64

	done     chan struct{} // closed when the node ends
	ended    chan struct{} // closed when all goroutines are gone and the files are closed
	endOnce  sync.Once
	running  atomic.Bool
	flush    atomic.Bool // flush before closing
	failure  atomic.Pointer[error]
	closeErr error // of the files; read after ended
}

// Open locks and checks the data directory, loads the state, and listens for peers; it
// starts no goroutine and takes no part in the cluster yet. Errors: those of store.Open,
// OpenLog, OpenState and Begin, and of the listener.
func Open(opts Options) (*Replica, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	r := &Replica{
		opts: opts, logger: opts.Logger, began: time.Now(),
		home: newHome(), requests: &requests{},
		events: newInbox[event](), appends: newInbox[appendJob](), applies: newInbox[applyJob](),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := r.openFiles(); err != nil {
		return nil, errors.Join(err, r.closeFiles())
	}
	if err := r.listen(); err != nil {
		return nil, errors.Join(err, r.closeFiles())
	}
	addresses := map[uint64]string{}
	for id, address := range r.opts.Peers {
		addresses[uint64(id)] = address
	}
	r.network = peer.New(peer.Config{
		Stamp: r.stamp(), Addresses: addresses, Listener: r.opts.Listener, Dial: opts.Dial,
		Handler: peerHandler{r.events}, Logger: r.logger, QueueBytes: opts.Limits.PeerQueueBytes,
	})
	r.shown.Store(&Status{Node: opts.Node, Role: "starting", SafetyOff: opts.SafetyOff})
	return r, nil
}

// validate checks the options and fills in defaults.
func (o *Options) validate() error {
	if o.Node == 0 || o.Peers[o.Node] == "" || o.Dir == "" || o.Mailbox == nil {
		return errors.New("oncemq: a replica needs Node, its address in Peers, Dir and Mailbox")
	}
	if n := len(o.Peers); n%2 == 0 {
		return fmt.Errorf("oncemq: a cluster of %d nodes; one or three are possible", n)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Civil == nil {
		o.Civil = func() int64 { return time.Now().UnixMilli() }
	}
	o.Limits = o.Limits.withDefaults()
	return nil
}

// openFiles opens directory, log and state, and loads the machine.
func (r *Replica) openFiles() (err error) {
	o := &r.opts
	if r.dir, err = store.Open(store.Options{Dir: o.Dir, FS: o.FS, Node: uint64(o.Node), SafetyOff: o.SafetyOff}); err != nil {
		return err
	}
	if r.log, err = r.dir.OpenLog(store.LogOptions{Group: group, SegmentBytes: o.Limits.SegmentBytes}); err != nil {
		return err
	}
	stateOptions := store.StateOptions{Group: group, Fatal: r.fail}
	if o.SafetyOff {
		stateOptions.MemTableBytes = memTableSafetyOff
	}
	if r.state, err = r.dir.OpenState(stateOptions); err != nil {
		return err
	}
	if r.start, err = store.Begin(r.log, r.state); err != nil {
		return err
	}
	if o.testMachine != nil {
		r.decides, err = o.testMachine(r.state)
		return err
	}
	r.machine, err = loadMachine(r.state)
	r.decides = r.machine
	return err
}

func (r *Replica) listen() (err error) {
	if r.opts.Listener == nil && len(r.opts.Peers) > 1 {
		address := r.opts.Peers[r.opts.Node]
		if r.opts.Listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("listening for peers: %w", err)
		}
	}
	return nil
}

// Run takes part in the cluster until Stop or Close has ended it (nil) or the node can't
// go on (the error that Options.Fatal gets too; ErrEmptyDirectory comes from here). A
// cancelled ctx is Close.
func (r *Replica) Run(ctx context.Context) error {
	if r.running.Swap(true) {
		return errors.New("oncemq: the replica was run or closed before")
	}
	defer close(r.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, r.end)()
	var network, loops sync.WaitGroup
	netCtx, stopNetwork := context.WithCancel(context.Background())
	network.Go(func() { r.network.Run(netCtx) })
	asking, stopAsking := context.WithCancel(ctx)
	network.Go(func() { <-r.done; stopAsking() })
	stamp, err := r.found(asking)
	if err == nil {
		err = r.build(stamp)
	}
	if err == nil {
		for _, loop := range []func(<-chan struct{}){r.raftLoop, r.appendLoop, r.applyLoop, r.keepLoop} {
			loops.Go(func() { loop(r.done) })
		}
	} else if asking.Err() == nil {
		r.fail(err)
	} else {
		r.end()
	}
	<-r.done
	r.events.close()
	stopNetwork()
	network.Wait()
	loops.Wait()
	if r.applier != nil {
		r.home.end() // nobody answers these any more
	}
	if r.flush.Load() && r.failure.Load() == nil {
		r.closeErr = r.state.Flush()
	}
	r.closeErr = errors.Join(r.closeErr, r.closeFiles())
	if f := r.failure.Load(); f != nil {
		return *f
	}
	return r.closeErr
}

// build makes raft and the steps.
func (r *Replica) build(stamp peer.Stamp) error {
	c := &core{
		self: uint64(r.opts.Node), limits: r.opts.Limits, safety: !r.opts.SafetyOff, logger: r.logger,
		rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), home: r.home,
		term: r.start.State.Term, commit: r.start.State.Commit, stamp: stamp, dropEntry: r.opts.testDrop,
	}
	if r.opts.SafetyOff {
		c.limits.EntriesInFlight = 1 << 20
	}
	nodes := []command.NodeID{}
	for _, v := range stamp.Voters {
		nodes = append(nodes, command.NodeID(v))
		if v != c.self {
			c.others = append(c.others, v)
		}
	}
	if err := c.init(&storage{log: r.log, start: r.start, voters: stamp.Voters, snapshotWanted: r.snapshotWanted}); err != nil {
		return err
	}
	r.core = c
	r.appender = appender{log: r.log, fault: r.opts.testFault}
	r.applier = &applier{
		node: r.opts.Node, nodes: nodes, machine: r.decides, state: r.state, batch: r.state.NewBatch(),
		home: r.home, mailbox: r.opts.Mailbox, requests: r.requests, applied: r.start.Applied,
	}
	r.applier.report()
	r.events.put(event{kind: evProgress, progress: r.applier.out.progress})
	return nil
}

// snapshotWanted says that the log lacks what a peer needs. It is kept for the slowest peer,
// so this is a fault.
func (r *Replica) snapshotWanted() {
	now := r.monotonic()
	if r.wantedAt != 0 && now < r.wantedAt+complainEvery {
		return // raft asks again with every heartbeat
	}
	r.wantedAt = now
	r.logger.Error("a peer needs entries that the log has no more; snapshots don't exist yet: stop it, and replace its directory by a copy of another stopped node's state")
}

// fail ends the node for good.
func (r *Replica) fail(err error) {
	if !r.failure.CompareAndSwap(nil, &err) {
		return
	}
	r.logger.Error("the node can't go on", "error", err)
	if r.opts.Fatal != nil {
		r.opts.Fatal(err)
	}
	r.end()
}

// end makes all goroutines end.
func (r *Replica) end() { r.endOnce.Do(func() { close(r.done) }) }

// closeFiles closes what is open.
func (r *Replica) closeFiles() (err error) {
	if r.state != nil {
		err = errors.Join(err, r.state.Close())
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	if r.dir != nil {
		err = errors.Join(err, r.dir.Close())
	}
	if r.opts.Listener != nil {
		r.opts.Listener.Close()
	}
	return err
}

// monotonic is the time since Open.
func (r *Replica) monotonic() time.Duration { return time.Since(r.began) }

// Propose queues a record body (encoded commands of one connection, or of none) and owns
// it from then on. Records of one node are applied in the order proposed, but for bodies
// above command.MaxPlain, which travel in parts while records of other connections pass.
// It never blocks. false: the node has no epoch now.
func (r *Replica) Propose(body []byte) bool { return r.propose(body, nil) }

func (r *Replica) propose(body []byte, done func(error)) bool {
	if !r.home.propose(body, done) {
		return false
	}
	r.events.kick()
	return true
}

// Backlog is the bytes proposed and not yet applied here. Above 8 MiB, give senders no
// credit [8.6].
func (r *Replica) Backlog() int { return r.home.backlog() }

// Barrier calls done once, soon, on the apply goroutine, never on the caller's stack:
// true when this replica has applied, and its Mailbox been given, everything that was
// committed before the call (ReadIndex); false where no majority answered within 5 s.
// done must not block. Once the node has ended, done isn't called.
func (r *Replica) Barrier(done func(ok bool)) { r.events.put(event{kind: evBarrier, done: done}) }

// LeaseUntil is the moment up to which deliveries may be written [3.8], with a monotonic
// reading: 1.0 s after the sending of the last successful barrier. The zero time: no
// lease. Barriers renew it every 300 ms while WantLease is set.
func (r *Replica) LeaseUntil() time.Time {
	if until := r.lease.Load(); until != 0 {
		return r.began.Add(time.Duration(until))
	}
	return time.Time{}
}

// WantLease says whether the lease is to be kept up: set it while clients are connected,
// so that an idle node costs nothing.
func (r *Replica) WantLease(want bool) { r.events.put(event{kind: evLease, refused: !want}) }

// Lag is how long ago the oldest entry that isn't applied here was known to be committed
// [3.5]; 0 for a node that keeps up.
func (r *Replica) Lag() time.Duration { return time.Duration(r.lagNanos.Load()) }

// Lagging reports a Lag above 2 s: the node is not ready, and its home withdraws
// allowances.
func (r *Replica) Lagging() bool { return r.Lag() > notReadyLag }

// Message appends the stored message's bytes to dst, all sections as they came.
// command.ErrNoMessage when it is gone.
func (r *Replica) Message(dst []byte, inc command.Incarnation, message uint64) ([]byte, error) {
	body, ok, err := state.ReadMessage(dst, group, inc, message, func(key, dst []byte) ([]byte, bool, error) {
		return r.state.Get(key, dst)
	})
	if err == nil && !ok {
		err = command.ErrNoMessage
	}
	return body, err
}

// Close ends the node at once, like a loss of the process: nothing is flushed, nobody is
// told. It returns when all goroutines have ended.
func (r *Replica) Close() error {
	r.end()
	if !r.running.Swap(true) { // never run
		defer close(r.ended)
		return r.closeFiles()
	}
	<-r.ended
	return r.closeErr
}
