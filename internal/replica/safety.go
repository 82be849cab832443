package replica

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// With --safety off a node answers before replication and fsync, so that the demo's checker
// has something to find. Three things differ, all of them here or guarded by core.safety:
//
//   - the log isn't synced (store, Options.SafetyOff);
//   - the leader applies an entry, and so answers its own clients, as soon as it has proposed
//     it (jobEarly), and has no window of entries in flight;
//   - entries go to the other nodes every lazyEvery only;
//   - only the leader has an epoch and so clients, since answers elsewhere would be slow and
//     safer than they should be.
//
// So a leader that is killed takes with it what it answered in the last lazyEvery: the next
// leader never had it. A leader that was only paused, or cut off, and finds that the others
// went on without what it had applied, ends itself (ErrDiverged) and comes back with the
// cluster's state, since its own was never flushed. Nothing is dropped or repeated on
// purpose.

// lazyEvery is how often entries are replicated with safety off.
const lazyEvery = 200 * time.Millisecond

// memTableSafetyOff keeps the state of an unsafe node in memory: it must not outlive it.
const memTableSafetyOff = 1 << 30

// earlyEntries are the entries of a leader that are applied before they are committed.
type earlyEntries struct {
	waiting []*pb.Entry // behind others that wait for their commit
	first   uint64      // index of terms[0]
	terms   []uint64    // of those applied early and not committed yet
}

// add takes what a leader has proposed; nothing: it isn't the leader any more.
func (x *earlyEntries) add(entries []*pb.Entry) {
	if x.waiting = append(x.waiting, entries...); len(entries) == 0 {
		x.waiting = nil
	}
}

// next is the entry behind index taken, if it waits to be applied early.
func (x *earlyEntries) next(taken uint64) *pb.Entry {
	for len(x.waiting) > 0 && x.waiting[0].GetIndex() <= taken {
		x.waiting = x.waiting[1:]
	}
	if len(x.waiting) == 0 || x.waiting[0].GetIndex() != taken+1 {
		return nil
	}
	e := x.waiting[0]
	x.waiting = x.waiting[1:]
	if len(x.terms) == 0 {
		x.first = e.GetIndex()
	}
	x.terms = append(x.terms, e.GetTerm())
	return e
}

// fresh reports that a committed entry is to be applied; taken is the index of the one before.
// A committed entry where another was applied early is ErrDiverged.
func (x *earlyEntries) fresh(taken uint64, e *pb.Entry) (bool, error) {
	index := e.GetIndex()
	if index > taken {
		return true, nil
	}
	if len(x.terms) == 0 || index < x.first {
		return false, nil
	}
	if x.terms[0] != e.GetTerm() {
		return false, fmt.Errorf("%w: entry %d of term %d; start it again", ErrDiverged, index, e.GetTerm())
	}
	x.terms, x.first = x.terms[1:], index+1
	return false, nil
}

// lazySends holds back the messages with entries.
type lazySends struct {
	held []*pb.Message
	at   time.Duration
}

// sift returns the messages that are to be sent now.
func (l *lazySends) sift(now time.Duration, sends []*pb.Message) []*pb.Message {
	kept := sends[:0]
	for _, m := range sends {
		// Entries without data pass: by the first one a new leader makes itself known.
		if m.GetType() == pb.MsgApp && (payload{m}).Size() > 64+16*len(m.Entries) {
			l.held = append(l.held, m)
			continue
		}
		kept = append(kept, m)
	}
	if now < l.at+lazyEvery {
		return kept
	}
	l.at = now
	kept = append(kept, l.held...)
	l.held = slices.Delete(l.held, 0, len(l.held))
	return kept
}
