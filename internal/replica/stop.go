package replica

import (
	"context"
	"time"
)

// stopStep bounds each step of an orderly stop.
const stopStep = 2 * time.Second

// Stop ends the node in order: it accepts nothing new, lets what is in flight be
// answered, ends its epoch (Mailbox.EpochEnded), hands leadership over, flushes and
// closes. A ctx that ends cuts each of these short, but not the flush. Run returns.
func (r *Replica) Stop(ctx context.Context) error {
	r.home.shutDown()
	r.until(ctx, func() bool { return r.home.backlog() == 0 })
	if r.leave() {
		r.until(ctx, func() bool { epoch, _, _ := r.home.life(); return epoch == 0 })
	}
	if st := r.Status(); st.Role == roleLeader && !st.Alone {
		r.events.put(event{kind: evTransfer})
		r.until(ctx, func() bool { return r.Status().Role != roleLeader })
	}
	r.flush.Store(true)
	return r.Close()
}

// until waits for a condition, but not for ever.
func (r *Replica) until(ctx context.Context, ok func() bool) {
	deadline := time.After(stopStep)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			return
		case <-ctx.Done():
			return
		case <-r.done:
			return
		}
	}
}
