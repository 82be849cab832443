package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// A node whose directory is damaged recovers from the others (C14): it doesn't vote, serve or speak raft, and deletes nothing; it
// asks and fetches until it has what it needs, and ends with ErrInstalled as a node does that was too far behind: the next Open
// installs it, and only that takes the mark off the directory. What a node needs is said at store.Loss.

const (
	// askAgain is the pause between two questions to the same nodes.
	askAgain = 100 * time.Millisecond
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

// recoverLoop asks and fetches until the node has what it needs.
func (r *Replica) recoverLoop(stop <-chan struct{}) {
	ctx, release := until(stop)
	defer release()
	query := confirmQuery{}
	r.random(query.asking[:])
	r.resume(ctx)
	said := time.Time{}
	for ctx.Err() == nil {
		err := r.recoverFrom(ctx, &query)
		if err != nil && ctx.Err() == nil && time.Since(said) > complainEvery {
			said = time.Now()
			r.logger.Warn("this node can't recover yet; it goes on asking", "error", err)
		}
		pause(ctx, askAgain)
	}
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

// recoverFrom asks every other node once. nil: none leads, or the leader isn't ready.
func (r *Replica) recoverFrom(ctx context.Context, query *confirmQuery) (err error) {
	for _, id := range r.elsewhere() {
		c, e := r.ask(ctx, id, query)
		if e == nil && c.Offer.Index > 0 {
			if e = r.fetchConfirmed(ctx, c); e != nil {
				r.random(query.asking[:]) // another checkpoint, since that one may be what is wrong
			}
		}
		err = errors.Join(err, e)
	}
	return err
}

// ask puts the question to one node.
func (r *Replica) ask(ctx context.Context, node uint64, query *confirmQuery) (c Confirmation, err error) {
	conn, err := r.peers.Fetch(ctx, node)
	if err != nil {
		return c, fmt.Errorf("node %d: %w", node, err)
	}
	defer conn.Close()
	var answer []byte
	err = conn.Query(query.appendTo(nil), func(b []byte) error {
		if answer = append(answer, b...); len(answer) > maxAnswer {
			return fmt.Errorf("%w: an answer of more than %d bytes", peer.ErrFrame, maxAnswer)
		}
		return nil
	})
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

// maxAnswer is the longest answer to a question that is read into memory.
const maxAnswer = 1 << 10

// fetchConfirmed fetches a confirmed checkpoint, and ends the replica so that the next Open installs it.
func (r *Replica) fetchConfirmed(ctx context.Context, c Confirmation) error {
	r.logger.Info("a leader has confirmed a checkpoint to recover with", "leader", c.Leader, "term", c.Term, "entry", c.Offer.Index)
	confirmed := store.Confirmed{ID: c.Offer.ID, Term: c.Term, Leader: c.Leader}
	if err := r.fetch(ctx, &c.Offer, func(f *store.Fetch) error { return f.Confirm(confirmed) }); err != nil {
		return fmt.Errorf("fetching the checkpoint of node %d: %w", c.Offer.Node, err)
	}
	r.logger.Info("a checkpoint was fetched; opening again to install it", "entry", c.Offer.Index)
	r.finish(fmt.Errorf("%w: up to entry %d, of node %d", ErrInstalled, c.Offer.Index, c.Offer.Node))
	return nil
}

// OpenQuery implements peer.Source.
func (r *Replica) OpenQuery(from uint64, question []byte) (io.ReadCloser, error) {
	q := queryReader{b: question}
	switch kind := q.byte(); kind {
	case queryConfirm:
		var query confirmQuery
		q.fixed(query.asking[:])
		if err := q.err("question"); err != nil {
			return nil, err
		}
		c, err := r.confirmFor(from, query.asking)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(c.appendTo(nil))), nil
	default:
		return nil, fmt.Errorf("questions of kind %d aren't known here; run the same release on all nodes", kind)
	}
}

// confirmFor answers a node that asks for a confirmed checkpoint.
func (r *Replica) confirmFor(from uint64, id [16]byte) (Confirmation, error) {
	if r.damage != nil {
		return Confirmation{}, nil // this one doesn't lead either
	}
	answer := make(chan Confirmation, 1)
	r.events.put(event{kind: evAsk, ask: func() { answer <- r.confirmation(r.core.confirm(from, id)) }})
	timer := time.NewTimer(barrierTimeout)
	defer timer.Stop()
	select {
	case c := <-answer:
		return c, nil
	case <-timer.C:
		return Confirmation{}, errors.New("this node stands still")
	case <-r.done:
		return Confirmation{}, ErrClosed
	}
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
