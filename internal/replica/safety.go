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
//   - entries go to the other nodes every lazyEvery only.
//
// So a leader that is killed takes with it what it answered in the last lazyEvery: the next
// leader never had it. A leader that was only paused, or cut off, and finds that the others
// went on without what it had applied, ends itself (ErrDiverged) and comes back with the
// cluster's state, since its own was never flushed. Nothing is dropped or repeated on
// purpose.

// lazyEvery is how often entries are replicated with safety off.
const lazyEvery = 250 * time.Millisecond

// memTableSafetyOff keeps the state of an unsafe node in memory: it must not outlive it.
const memTableSafetyOff = 1 << 30

// earlyEntries remembers the terms of entries that were applied before they were committed.
type earlyEntries struct {
	first uint64 // index of terms[0]
	terms []uint64
}

// fresh reports that e is to be applied now; taken is the index of the entry before the next.
// Early entries behind others that still wait for their commit wait with them. An entry that is committed where another was
// applied early is ErrDiverged.
func (x *earlyEntries) fresh(taken uint64, e *pb.Entry, early bool) (bool, error) {
	index := e.GetIndex()
	if index > taken {
		if early {
			if index != taken+1 {
				return false, nil
			}
			if len(x.terms) == 0 {
				x.first = index
			}
			x.terms = append(x.terms, e.GetTerm())
		}
		return true, nil
	}
	if len(x.terms) == 0 || index < x.first {
		return false, nil
	}
	at := int(index - x.first)
	if at >= len(x.terms) || x.terms[at] != e.GetTerm() {
		return false, fmt.Errorf("%w: entry %d of term %d; start it again", ErrDiverged, index, e.GetTerm())
	}
	if !early {
		x.terms, x.first = x.terms[at+1:], index+1
	}
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
		if m.GetType() == pb.MsgApp {
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
