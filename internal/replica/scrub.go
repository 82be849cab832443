package replica

import (
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

// errScrubOver ends a scrub with its replica.
var errScrubOver = errors.New("the replica ends")

// scrub is what reading on trial has come to.
type scrub struct {
	passes, bytes atomic.Int64
	damage        atomic.Pointer[error]
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
	for pause := limits.ScrubEvery / firstScrub; wait(stop, pause); {
		began := time.Now()
		err := r.scrubOnce(stop)
		switch {
		case err == nil:
			r.scrubbed.passes.Add(1)
			r.scrubbed.damage.Store(nil)
		case errors.Is(err, store.ErrCorrupt):
			r.scrubbed.damage.Store(&err)
			r.logger.Error("damage was found that nobody has met yet", "error", err)
			r.recoverWhenSpared(err, stop)
		case !errors.Is(err, errScrubOver):
			r.logger.Warn("log and state can't be read on trial; that is tried again", "error", err)
		}
		pause = max(limits.ScrubEvery-time.Since(began), limits.ScrubEvery/firstScrub)
	}
}

// scrubOnce reads all once, in about Limits.ScrubEvery where that takes more than Limits.ScrubBytes a second.
func (r *Replica) scrubOnce(stop <-chan struct{}) error {
	limits := &r.opts.Limits
	rate := max(float64(limits.ScrubBytes), float64(r.log.SizeBytes()+r.files.SizeBytes())/limits.ScrubEvery.Seconds())
	began, read := time.Now(), 0
	pace := func(bytes int) error {
		ahead := time.Duration(float64(read)/rate*float64(time.Second)) - time.Since(began)
		if !wait(stop, ahead) {
			return errScrubOver
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
func (r *Replica) recoverWhenSpared(err error, stop <-chan struct{}) {
	for r.mayRecover() {
		if r.Status().MayStop {
			r.fail(err)
			return
		}
		if !wait(stop, scrubAgain) {
			return
		}
	}
}

// wait waits for d, and reports false when stop was closed.
func wait(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
	}
	select {
	case <-stop:
		return false
	default:
		return true
	}
}
