package replica

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// raftLoop drives the raft step: the raft goroutine.
func (r *Replica) raftLoop(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.events.wake:
		case <-timer.C:
		case <-stop:
			return
		}
		wake := r.raft(r.monotonic(), r.opts.Civil())
		timer.Reset(wake - r.monotonic())
	}
}

// appendLoop drives the append step: the append goroutine.
func (r *Replica) appendLoop(stop <-chan struct{}) {
	prepare := true
	for {
		// While there is nothing to write, the log prepares the blocks to come.
		for prepare && r.appends.empty() {
			var err error
			r.appending.Store(int64(r.monotonic()) | 1)
			prepare, err = r.log.Prepare()
			r.appending.Store(0)
			if err != nil {
				r.fail(err)
				return
			}
		}
		if !r.awaitAppends(stop) {
			return
		}
		r.appending.Store(int64(r.monotonic()) | 1)
		did, err := r.append()
		r.appending.Store(0)
		if err != nil {
			r.fail(err)
			return
		}
		prepare = prepare || did
	}
}

// awaitAppends waits until there is something to append, or what waits for room on the disk is to be tried again; false: the
// replica ends.
func (r *Replica) awaitAppends(stop <-chan struct{}) bool {
	if !r.room.full.Load() {
		select {
		case <-r.appends.wake:
			return true
		case <-stop:
			return false
		}
	}
	r.kickRoom()
	retry := time.NewTimer(roomRetry)
	defer retry.Stop()
	select {
	case <-retry.C:
		return true
	case <-stop:
		return false
	}
}

// applyLoop drives the apply step: the apply goroutine.
func (r *Replica) applyLoop(stop <-chan struct{}) {
	for {
		select {
		case <-r.applies.wake:
		case <-stop:
			return
		}
		if err := r.apply(); errors.Is(err, store.ErrFull) {
			return // the replica has ended, and the state with it
		} else if err != nil {
			r.fail(err)
			return
		}
	}
}

// keepLoop drives the keep step: the goroutine that cuts the log and makes checkpoints.
func (r *Replica) keepLoop(stop <-chan struct{}) {
	ticker := time.NewTicker(r.opts.Limits.KeepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-r.offers.wake:
		case <-stop:
			return
		}
		r.noteMembers()
		if err := r.keep(r.monotonic()); err != nil {
			r.fail(err)
			return
		}
	}
}
