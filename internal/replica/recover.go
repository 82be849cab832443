package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// A node whose directory is damaged recovers from the others (C14): it doesn't vote, serve or speak raft, and deletes nothing; it
// asks and fetches until it has what it needs, and ends with ErrInstalled as a node does that was too far behind: the next Open
// installs it, or finds what was mended, and only a new generation takes the mark off the directory. What a node needs is said at store.Loss.

const (
	// askAgain is the pause between two questions to the same nodes; up to maxAskAgain behind what has failed.
	askAgain    = 100 * time.Millisecond
	maxAskAgain = 30 * time.Second
	// freeRecoveries is how many may follow on each other without a pause; maxRecoverPause is the longest, in Limits.RecoverPause.
	freeRecoveries  = 2
	maxRecoverPause = 300
	// resumeFor is for how long a recovering node that starts anew tries to go on with what it was fetching.
	resumeFor = 2 * time.Second
)

// mayRecover says that there are others to recover from. Of a node with safety off nothing was ever promised, and what it
// has isn't worth it.
func (r *Replica) mayRecover() bool {
	return r.dir != nil && !r.opts.SafetyOff && len(r.elsewhere()) > 0 && r.dir.Stamp().Cluster != [16]byte{}
}

// openDamaged takes the error of opening the directory, or nil. Where the directory is damaged, or marked as damaged, and can be
// recovered, the error is nil, and the replica is one that recovers.
func (r *Replica) openDamaged(err error) error {
	if r.dir == nil || err == nil && r.dir.Loss() == 0 {
		return err
	}
	if err == nil {
		err = r.dir.Why()
	}
	damage := store.LossOf(err)
	if damage == 0 || !r.mayRecover() {
		return err
	}
	if e := r.dir.SetLost(damage, err); e != nil {
		return errors.Join(err, e)
	}
	if e := r.closeDisk(); e != nil {
		r.logger.Warn("closing what is damaged", "error", e)
	}
	r.log, r.state, r.files = noLog{}, noState{}, nil
	r.damage = err
	r.recovers.Store(true)
	r.logger.Error("the data directory is damaged; this node takes no part and recovers from the others", "error", err)
	return nil
}

// closeDisk closes log and state.
func (r *Replica) closeDisk() (err error) {
	if r.files != nil {
		err = r.files.Close()
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return err
}

// damaged ends a running replica whose directory turned out to be damaged; the next Open recovers it. It reports false where that
// isn't possible, or the error is about something else.
func (r *Replica) damaged(err error) bool {
	damage := store.LossOf(err)
	switch {
	case damage == 0:
		return false
	case r.recovers.Load():
		return true // Pebble, which was reading while it was closed
	case !r.mayRecover():
		return false
	}
	if e := r.dir.SetLost(damage, err); e != nil {
		r.logger.Error("the directory can't be marked as damaged", "error", e)
		return false
	}
	r.logger.Error("the data directory is damaged; the node begins anew to recover from the others", "error", err)
	r.finish(fmt.Errorf("%w: %w", ErrDamaged, err))
	return true
}

// showDamage is the status of a node that recovers.
func (r *Replica) showDamage() {
	if r.damage != nil {
		r.events.close() // nobody takes what is put there
		r.shown.Store(&Status{Node: r.opts.Node, Role: roleRecovering, Cluster: r.dir.Stamp().Cluster, Recovering: r.damage.Error()})
	}
}

// Recovering is nil, or why this node takes no part in the cluster and recovers from the others.
func (r *Replica) Recovering() error { return r.damage }

// recoverLoop asks and fetches until the node has what it needs: from a leader, which is the cheapest for everybody, but for a directory that needs
// nobody; without one from whoever has it.
func (r *Replica) recoverLoop(stop <-chan struct{}) {
	ctx, release := until(stop)
	defer release()
	query := confirmQuery{}
	r.random(query.asking[:])
	if !r.awaitTurn(ctx) {
		return
	}
	r.resume(ctx)
	said, led, rest := time.Time{}, time.Now(), askAgain
	if r.dir.Loss()&store.LostPromise == 0 && ctx.Err() == nil {
		if err := r.mendAlone(); err != nil {
			r.logger.Warn("what is left in the directory isn't enough", "error", err)
		}
	}
	for ctx.Err() == nil {
		leads, asked := r.recoverFrom(ctx, &query)
		if leads {
			led = time.Now()
		}
		var mended error
		if r.leaderless(led) && ctx.Err() == nil {
			mended = r.mendWithOthers(ctx)
		}
		if err := errors.Join(asked, mended); err != nil && ctx.Err() == nil && time.Since(said) > complainEvery {
			said = time.Now()
			r.logger.Warn("this node can't recover yet; it goes on asking", "error", err)
		}
		if rest = min(2*rest, maxAskAgain); mended == nil {
			rest = askAgain
		}
		pause(ctx, rest)
	}
}

// awaitTurn waits before a recovery that follows on others that didn't last, the longer the more there were: what is wrong is most
// likely the disk, and fetching again and again helps nobody. It reports false at the end of ctx.
func (r *Replica) awaitTurn(ctx context.Context) bool {
	n := r.dir.Recoveries(r.opts.Civil())
	if n < freeRecoveries {
		return ctx.Err() == nil
	}
	rest := r.opts.Limits.RecoverPause << min(n-freeRecoveries, 10)
	rest = min(rest, maxRecoverPause*r.opts.Limits.RecoverPause)
	why := fmt.Sprintf("%d recoveries one after the other didn't last; look after the disk that %s lies on, or let the node join anew on another one; the next begins in %v",
		n, r.opts.Dir, rest)
	r.logger.Error("this node doesn't become whole", "error", why)
	s := *r.shown.Load()
	s.Recovering += "; " + why
	r.shown.Store(&s)
	return pause(ctx, rest)
}

// again ends the replica so that the next Open finds what was installed, or installs what was fetched.
func (r *Replica) again(format string, args ...any) {
	if err := r.dir.NoteRecovery(r.opts.Civil()); err != nil {
		r.logger.Warn("that the node has recovered can't be noted", "error", err)
	}
	r.finish(fmt.Errorf("%w: %s", ErrInstalled, fmt.Sprintf(format, args...)))
}

// resume goes on with the checkpoint that was being fetched when the process died.
func (r *Replica) resume(ctx context.Context) {
	confirmed, m, ok := r.dir.Confirmed()
	if !ok {
		return
	}
	short, cancel := context.WithTimeout(ctx, resumeFor)
	_, err := r.peers.Ask(short, m.Node)
	cancel()
	if err == nil {
		err = r.fetchConfirmed(ctx, Confirmation{
			Offer: Offer{ID: m.ID, Node: m.Node, Index: m.Index, Term: m.Term}, Term: confirmed.Term, Leader: confirmed.Leader,
		})
	}
	if err != nil {
		r.logger.Info("the checkpoint that was being fetched is gone; asking for another", "error", err)
	}
}

// recoverFrom asks every other node once for what a leader confirms. leads: somebody leads, or knows who does.
func (r *Replica) recoverFrom(ctx context.Context, query *confirmQuery) (leads bool, err error) {
	for _, id := range r.elsewhere() {
		c, e := r.ask(ctx, id, query)
		if e == nil {
			leads = leads || c.Term > 0 || c.Leader > 0
		}
		if e == nil && c.Offer.Index > 0 {
			if e = r.fetchConfirmed(ctx, c); e != nil {
				r.random(query.asking[:]) // another checkpoint, since that one may be what is wrong
			}
		}
		err = errors.Join(err, e)
	}
	return leads, err
}

// ask puts the question to one node.
func (r *Replica) ask(ctx context.Context, node uint64, query *confirmQuery) (c Confirmation, err error) {
	answer, err := r.question(ctx, node, query.appendTo(nil), maxAnswer)
	if err == nil {
		c, err = decodeConfirmation(answer)
	}
	if err == nil && c.Offer.Index > 0 && (c.Leader != node || c.Offer.Node != node) {
		err = fmt.Errorf("%w: node %d confirms for %d and %d", peer.ErrFrame, node, c.Leader, c.Offer.Node)
	}
	if err != nil {
		return Confirmation{}, fmt.Errorf("node %d: %w", node, err)
	}
	return c, nil
}

// question puts any question to one node, and reads its answer of at most limit bytes.
func (r *Replica) question(ctx context.Context, node uint64, question []byte, limit int) (answer []byte, err error) {
	conn, err := r.peers.Fetch(ctx, node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Query(question, func(b []byte) error {
		if answer = append(answer, b...); len(answer) > limit {
			return fmt.Errorf("%w: an answer of more than %d bytes", peer.ErrFrame, limit)
		}
		return nil
	})
	return answer, err
}

// maxAnswer is the longest answer to a question that is read into memory, but for one with entries.
const maxAnswer = 1 << 10

// fetchConfirmed fetches a confirmed checkpoint, and ends the replica so that the next Open installs it.
func (r *Replica) fetchConfirmed(ctx context.Context, c Confirmation) error {
	r.logger.Info("a leader has confirmed a checkpoint to recover with", "leader", c.Leader, "term", c.Term, "entry", c.Offer.Index)
	confirmed := store.Confirmed{ID: c.Offer.ID, Term: c.Term, Leader: c.Leader}
	if err := r.fetch(ctx, &c.Offer, func(f *store.Fetch) error { return f.Confirm(confirmed) }); err != nil {
		return fmt.Errorf("fetching the checkpoint of node %d: %w", c.Offer.Node, err)
	}
	r.logger.Info("a checkpoint was fetched; opening again to install it", "entry", c.Offer.Index)
	r.again("up to entry %d, of node %d", c.Offer.Index, c.Offer.Node)
	return nil
}

// noLog is the log of a node that recovers: there is none to speak of.
type noLog struct{ Log }

func (noLog) SizeBytes() int64 { return 0 }
func (noLog) Close() error     { return nil }

// noState is its state.
type noState struct{ State }

func (noState) AppliedIndex() uint64 { return 0 }
func (noState) Close() error         { return nil }
func (noState) Get(_, dst []byte) ([]byte, bool, error) {
	return dst, false, ErrDamaged
}
