package replica

import (
	"context"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// Replica is one node's replica. All exported methods are safe for concurrent use.
type Replica struct{}

// Open locks and checks the data directory, loads the state, and listens for peers; it
// starts no goroutine and takes no part in the cluster yet. Errors: those of store.Open,
// OpenLog, OpenState and Begin, and of the listener.
func Open(opts Options) (*Replica, error) { panic("soon") }

// Run takes part in the cluster until Stop or Close has ended it (nil) or the node can't
// go on (the error that Options.Fatal gets too; ErrEmptyDirectory comes from here). A
// cancelled ctx is Close.
func (r *Replica) Run(ctx context.Context) error { panic("soon") }

// Stop ends the node in order: it accepts nothing new, lets what is in flight be
// answered, ends its epoch (Mailbox.EpochEnded), hands leadership over, flushes and
// closes. A ctx that ends cuts each of these short, but not the flush. Run returns.
func (r *Replica) Stop(ctx context.Context) error { panic("soon") }

// Close ends the node at once, like a loss of the process: nothing is flushed, nobody is
// told. It returns when all goroutines have ended.
func (r *Replica) Close() error { panic("soon") }

// Propose queues a record body (encoded commands of one connection, or of none) and owns
// it from then on. Records of one node are applied in the order proposed, but for bodies
// above command.MaxPlain, which travel in parts while records of other connections pass.
// It never blocks. false: the node has no epoch now.
func (r *Replica) Propose(body []byte) bool { panic("soon") }

// Backlog is the bytes proposed and not yet applied here. Above 8 MiB, give senders no
// credit [8.6].
func (r *Replica) Backlog() int { panic("soon") }

// Barrier calls done once, soon, on the apply goroutine, never on the caller's stack:
// true when this replica has applied, and its Mailbox been given, everything that was
// committed before the call (ReadIndex); false where no majority answered within 5 s.
// done must not block.
func (r *Replica) Barrier(done func(ok bool)) { panic("soon") }

// LeaseUntil is the moment up to which deliveries may be written [3.8], with a monotonic
// reading: 1.0 s after the sending of the last successful barrier. The zero time: no
// lease. Barriers renew it every 300 ms while WantLease is set.
func (r *Replica) LeaseUntil() time.Time { panic("soon") }

// WantLease says whether the lease is to be kept up: set it while clients are connected,
// so that an idle node costs nothing.
func (r *Replica) WantLease(want bool) { panic("soon") }

// Lagging reports that this node has not applied what was committed 2 s ago [3.5]: it is
// not ready, and its home withdraws allowances.
func (r *Replica) Lagging() bool { panic("soon") }

// Message appends the stored message's bytes to dst, all sections as they came.
// command.ErrNoMessage when it is gone.
func (r *Replica) Message(dst []byte, inc command.Incarnation, message uint64) ([]byte, error) {
	panic("soon")
}

// Request proposes a queue command of the node itself (zero Conn; its Request is set
// here) and waits for its effect. Errors: ErrNoEpoch, ErrEpochEnded, ErrClosed, ctx's:
// after all but the first the command may still be applied. A refusal is in the effect.
func (r *Replica) Request(ctx context.Context, cmd command.Command) (command.Effect, error) {
	panic("soon")
}

// Read runs fn on the apply goroutine behind a barrier. fn must be quick and only read;
// nothing of the machine may be kept. Errors: ErrNoQuorum, ErrClosed, ctx's: fn may then
// still run.
func (r *Replica) Read(ctx context.Context, fn func(*state.Machine)) error { panic("soon") }

// Status is a snapshot that costs nothing.
func (r *Replica) Status() Status { panic("soon") }

// Ready is nil when the node may get clients: a leader is known, its epoch is applied,
// it doesn't lag. Otherwise it says which of these.
func (r *Replica) Ready() error { panic("soon") }

// Live is nil, or the reason why only a restart helps.
func (r *Replica) Live() error { panic("soon") }

// RawWriter is a path without frontend for `oncemq bench raw`: bodies go the way of
// production's.
type RawWriter struct{}

// RawWriter returns a writer; any number may be used at once.
func (r *Replica) RawWriter() *RawWriter { panic("soon") }

// Write proposes body, which it owns from then on, and waits until it is applied here.
// Errors as Request's.
func (w *RawWriter) Write(ctx context.Context, body []byte) error { panic("soon") }
