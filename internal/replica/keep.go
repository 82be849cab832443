package replica

import "time"

// keepLoop cuts the log below what the state has flushed and every node has on disk [6.2],
// and flushes the state where only that keeps a large log from being cut.
func (r *Replica) keepLoop(stop <-chan struct{}) {
	ticker := time.NewTicker(r.opts.Limits.KeepEvery)
	defer ticker.Stop()
	seen := uint64(0)
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		everyone, applied := r.everyone.Load(), r.state.AppliedIndex()
		if everyone+applied == seen || r.opts.SafetyOff {
			continue
		}
		seen = everyone + applied
		if err := r.keep(everyone); err != nil {
			r.fail(err)
			return
		}
	}
}

func (r *Replica) keep(everyone uint64) error {
	durable, err := r.state.DurableIndex()
	if err != nil {
		return err
	}
	if cut := min(durable+1, everyone); cut > r.log.FirstIndex() {
		r.appends.put(appendJob{cut: cut})
	}
	if r.log.SizeBytes() > r.opts.Limits.LogFlushBytes && durable+1 < everyone {
		return r.state.Flush()
	}
	return nil
}
