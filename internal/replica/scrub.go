package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// What lies on the disk and nobody reads may be damaged for long, and found when the other nodes have lost it too. So each node reads all
// of its log and state once a day, slowly. What is found makes the node recover from the others, but only while they can go on
// without it: damage that nobody has met can wait, and two nodes that recover at once would stop the cluster.

const (
	// firstScrub is the part of Limits.ScrubEvery that passes before the first one: a minute of a day.
	firstScrub = 24 * 60
	// scrubAgain is the pause between two looks whether the others can go on alone.
	scrubAgain = time.Second
)

// scrub is what reading on trial has come to.
type scrub struct {
	passes, bytes atomic.Int64
	damage        atomic.Pointer[error]
	kick          chan struct{} // capacity 1: don't wait for the next one
}

// ScrubStatus is what a node has read of its log and state on trial.
type ScrubStatus struct {
	// Passes is how often all was read since the start, Bytes how much.
	Passes, Bytes int64
	// Damage is what was found and isn't mended, empty where nothing was.
	Damage string
}

// ScrubStatus says what was read on trial.
func (r *Replica) ScrubStatus() ScrubStatus {
	s := ScrubStatus{Passes: r.scrubbed.passes.Load(), Bytes: r.scrubbed.bytes.Load()}
	if err := r.scrubbed.damage.Load(); err != nil {
		s.Damage = (*err).Error()
	}
	return s
}

// scrubLoop reads log and state on trial: the scrub goroutine.
func (r *Replica) scrubLoop(stop <-chan struct{}) {
	limits := &r.opts.Limits
	if r.opts.SafetyOff {
		return // nothing in there is believed
	}
	ctx, release := until(stop)
	defer release()
	for rest := limits.ScrubEvery / firstScrub; r.untilScrub(ctx, rest); {
		began := time.Now()
		err := r.scrubOnce(ctx)
		switch {
		case err == nil:
			r.scrubbed.passes.Add(1)
			r.scrubbed.damage.Store(nil)
		case errors.Is(err, store.ErrCorrupt):
			r.scrubbed.damage.Store(&err)
			r.logger.Error("damage was found that nobody has met yet", "error", err)
			r.recoverWhenSpared(ctx, err)
		case ctx.Err() == nil:
			r.logger.Warn("log and state can't be read on trial; that is tried again", "error", err)
		}
		rest = max(limits.ScrubEvery-time.Since(began), limits.ScrubEvery/firstScrub)
	}
}

// untilScrub waits until it is time for the next one; false: ctx has ended.
func (r *Replica) untilScrub(ctx context.Context, rest time.Duration) bool {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.scrubbed.kick:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// damagedForOthers takes damage that was met when another node asked for a checkpoint. Now isn't the time to recover: the other one is
// away, and two would have no majority. Leadership goes to a node that may have a sound state for it; then it is this one's turn.
func (r *Replica) damagedForOthers(err error) {
	r.scrubbed.damage.Store(&err)
	r.logger.Error("a node needs a checkpoint, and this one's state is damaged; another one is to lead", "error", err)
	r.events.put(event{kind: evTransfer})
	select {
	case r.scrubbed.kick <- struct{}{}:
	default:
	}
}

// scrubOnce reads all once, in about Limits.ScrubEvery where that takes more than Limits.ScrubBytes a second.
func (r *Replica) scrubOnce(ctx context.Context) error {
	limits := &r.opts.Limits
	rate := max(float64(limits.ScrubBytes), float64(r.log.SizeBytes()+r.files.SizeBytes())/limits.ScrubEvery.Seconds())
	began, read := time.Now(), 0
	pace := func(bytes int) error {
		ahead := time.Duration(float64(read)/rate*float64(time.Second)) - time.Since(began)
		if !pause(ctx, ahead) {
			return ctx.Err()
		}
		read += bytes
		r.scrubbed.bytes.Add(int64(bytes))
		return nil
	}
	log, ok := r.log.(*store.Log)
	if !ok {
		return nil
	}
	if err := log.Scrub(pace); err != nil {
		return err
	}
	return r.files.Scrub(pace)
}

// recoverWhenSpared has the node recover from damage that was found, as soon as the others can go on without it. A node that nothing could
// be fetched for goes on: what is damaged may never be needed, and an operator is told.
func (r *Replica) recoverWhenSpared(ctx context.Context, err error) {
	for r.mayRecover() {
		if r.Status().MayStop {
			r.fail(err)
			return
		}
		if !pause(ctx, scrubAgain) {
			return
		}
	}
}
