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
	"github.com/oncemq/oncemq/internal/store"
)

// complainEvery is how often the same fault is logged.
const complainEvery = 10 * time.Second

// Replica is one node's replica: its steps, each on a goroutine, with the directory and the
// connections. All exported methods are safe for concurrent use.
type Replica struct {
	steps

	dir   *store.Dir
	files *store.State // steps.state
	peers *peer.Network
	shelf shelf // the checkpoint that others may fetch

	scrubbed scrub

	damage   error       // why this node recovers and takes no part; nil: it takes part
	recovers atomic.Bool // the same, for any goroutine
	salvaged salvage     // of a node that recovers

	noted   *membership  // written down; of the keep goroutine
	fetched atomic.Int64 // bytes of checkpoints that were fetched

	inUse  sync.RWMutex // read-locked while a backup is made
	closed bool         // the files are closed; guarded by inUse

	meter     roomMeter
	appending atomic.Int64 // monotonic ns at which the write to the log that is under way began, odd; 0: none is

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
	r := &Replica{steps: newSteps(opts, time.Now(), cryptoRandom), done: make(chan struct{}), ended: make(chan struct{})}
	r.scrubbed.kick = make(chan struct{}, 1)
	if err := r.openDamaged(r.openFiles()); err != nil {
		return nil, errors.Join(err, r.closeFiles())
	}
	if err := r.listen(); err != nil {
		return nil, errors.Join(err, r.closeFiles())
	}
	r.peers = peer.New(peer.Config{
		Stamp: r.stamp(), Addresses: r.fixed(), Members: r.known(), Address: r.opts.Addresses.Peer, Listener: r.opts.Listener, Dial: opts.Dial,
		Handler: peerHandler{r.events, r.events.putBounded}, Logger: r.logger, QueueBytes: opts.Limits.PeerQueueBytes,
		Source: r, FetchBytes: r.opts.Limits.FetchBytes, Security: opts.Security, Joiner: opts.Joiner, FetchOnly: r.damage != nil,
	})
	r.network = r.peers
	r.starting()
	r.showDamage()
	return r, nil
}

// validate checks the options and fills in defaults.
func (o *Options) validate() error {
	if o.Node == 0 || len(o.Peers) > 0 && o.Peers[o.Node] == "" || o.Dir == "" || o.Mailbox == nil {
		return errors.New("oncemq: a replica needs Node, its address in Peers, Dir and Mailbox")
	}
	if n := len(o.Peers); n > 0 && n%2 == 0 {
		return fmt.Errorf("oncemq: a cluster of %d nodes; one or three are possible", n)
	}
	if o.Addresses.Peer == "" {
		o.Addresses.Peer = o.Peers[o.Node]
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Version = o.Version[:min(len(o.Version), command.MaxVersion)]
	if o.Civil == nil {
		o.Civil = func() int64 { return time.Now().UnixMilli() }
	}
	o.Limits = o.Limits.withDefaults()
	return nil
}

// hasOthers says that there are nodes to recover from where the stamp can't be read: those of the list, or where there is none, those that the
// directory names.
func (o *Options) hasOthers() bool {
	return !o.SafetyOff && (len(o.Peers) > 1 || len(o.Peers) == 0 && store.KnowsOthers(o.FS, o.Dir, uint64(o.Node)))
}

// openFiles opens directory, log and state, and loads the machine.
func (r *Replica) openFiles() (err error) {
	o := &r.opts
	if r.dir, err = store.Open(store.Options{
		Dir: o.Dir, FS: o.FS, Node: uint64(o.Node), SafetyOff: o.SafetyOff, CheckLevel: command.CheckLevel, Recover: o.hasOthers(),
	}); err != nil {
		return err
	}
	logOptions := store.LogOptions{Group: group, SegmentBytes: o.Limits.SegmentBytes}
	r.openRoom()
	installed, err := r.dir.Install(logOptions)
	if err != nil {
		return err
	}
	if installed != nil {
		r.logger.Info("a checkpoint is installed", "entry", installed.Index, "term", installed.Term, "of node", installed.Node, "bytes", installed.Bytes())
		if err := r.forgetSkips(); err != nil {
			return err
		}
	}
	if total, _ := r.dir.DiskBytes(); total > 0 {
		for _, limit := range []*int64{&o.Limits.RetainBytes, &o.Limits.HoldBytes} {
			if *limit == maxRetainBytes {
				*limit = min(*limit, int64(total/5))
			}
		}
	}
	if r.dir.Loss() != 0 {
		return nil
	}
	log, err := r.dir.OpenLog(logOptions)
	if err != nil {
		return err
	}
	r.log = log
	log.Tight(r.meter.level != command.RoomOK)
	stateOptions := store.StateOptions{Group: group, Fatal: r.fail, Wait: r.awaitRoom, CacheBytes: o.Limits.CacheBytes, MemTableBytes: o.Limits.MemTableBytes}
	if o.SafetyOff {
		stateOptions.MemTableBytes = memTableSafetyOff
	}
	disk, err := r.dir.OpenState(stateOptions)
	if err != nil {
		return err
	}
	r.state, r.files = disk, disk
	r.offers.make, r.offers.drop, r.offers.damaged = r.makeCheckpoint, func(Offer) { r.shelf.put(nil) }, r.damagedForOthers
	if err := r.loadSkips(); err != nil {
		return err
	}
	if err := r.load(); err != nil {
		return err
	}
	r.raised = r.dir.SetLevel
	if _, _, founded := r.decides.Cluster(); founded {
		return r.dir.SetLevel(r.decides.Level()) // a checkpoint may have brought another
	}
	return nil
}

func (r *Replica) listen() (err error) {
	others := len(r.elsewhere())
	if r.damage == nil {
		conf := r.configuration(r.stamp())
		others = len(conf.Nodes()) - 1
	}
	if r.opts.Listener == nil && others > 0 {
		address := r.opts.Peers[r.opts.Node]
		if address == "" {
			return fmt.Errorf("oncemq: node %d is one of a cluster and has neither a listener for its peers nor an address for one", r.opts.Node)
		}
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
	network.Go(func() { r.peers.Run(netCtx) })
	asking, stopAsking := context.WithCancel(ctx)
	network.Go(func() { <-r.done; stopAsking() })
	if todo, err := r.join(asking); err == nil {
		for _, loop := range todo {
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
	if f := r.failure.Load(); f != nil && errors.Is(*f, ErrHung) {
		return *f // the append goroutine doesn't end, and the files can't be closed
	}
	loops.Wait()
	if r.applier != nil {
		r.home.end() // nobody answers these any more
	}
	if r.flush.Load() && r.failure.Load() == nil && r.damage == nil {
		if r.closeErr = r.state.Flush(); errors.Is(r.closeErr, store.ErrFull) {
			r.closeErr = nil // it comes again from the log
		}
	}
	r.closeErr = errors.Join(r.closeErr, r.closeFiles())
	if f := r.failure.Load(); f != nil {
		return *f
	}
	return r.closeErr
}

// join makes what takes part in the cluster, or recovers, and returns the goroutines of that.
func (r *Replica) join(ctx context.Context) ([]func(<-chan struct{}), error) {
	if r.damage != nil {
		return []func(<-chan struct{}){r.recoverLoop}, nil
	}
	stamp, err := r.found(ctx)
	if err != nil {
		return nil, err
	}
	// Stream ids must rise over restarts.
	if err := r.build(stamp, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), uint64(time.Now().UnixMicro())); err != nil {
		return nil, err
	}
	return []func(<-chan struct{}){r.raftLoop, r.appendLoop, r.applyLoop, r.keepLoop, r.fetchLoop, r.roomLoop, r.scrubLoop}, nil
}

// fail ends the node for good, or so that it begins anew to recover.
func (r *Replica) fail(err error) {
	if r.failure.Load() == nil && r.damaged(err) {
		return
	}
	if !r.failure.CompareAndSwap(nil, &err) {
		return
	}
	r.logger.Error("the node can't go on", "error", err)
	if r.opts.Fatal != nil {
		r.opts.Fatal(err)
	}
	r.end()
}

// finish ends the node for a reason that is none to complain about.
func (r *Replica) finish(err error) {
	if r.failure.CompareAndSwap(nil, &err) {
		r.end()
	}
}

// end makes all goroutines end.
func (r *Replica) end() { r.endOnce.Do(func() { close(r.done) }) }

// closeFiles closes what is open.
func (r *Replica) closeFiles() (err error) {
	r.inUse.Lock()
	defer r.inUse.Unlock()
	r.closed = true
	if r.state != nil {
		err = errors.Join(err, r.state.Close())
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	err = errors.Join(err, r.salvaged.close())
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
