package replica

import "time"

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
			if prepare, err = r.log.Prepare(); err != nil {
				r.fail(err)
				return
			}
		}
		select {
		case <-r.appends.wake:
		case <-stop:
			return
		}
		did, err := r.append()
		if err != nil {
			r.fail(err)
			return
		}
		prepare = prepare || did
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
		if err := r.apply(); err != nil {
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
		if err := r.keep(r.monotonic()); err != nil {
			r.fail(err)
			return
		}
	}
}
