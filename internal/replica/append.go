package replica

import (
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/store"
)

// appendJob is one thing for the append goroutine: a MsgStorageAppend, or a cut.
type appendJob struct {
	message *pb.Message
	cut     uint64
	raise   *store.HardState // see learnCommit; the node begins anew behind it
}

// appender is the append step: it writes what has gathered in as few appends, each with one
// sync, as can be.
type appender struct {
	log     Log
	entries []store.Entry // reused
	fault   func() error  // for tests: what a write fails with
	// rest are the jobs that wait for room on the disk; the first unit of them were one append, which has to be made again as it
	// was: what the disk may have of it lies where it goes.
	rest []appendJob
	unit int
}

// step writes the jobs, in order, and returns the messages to be delivered now that they
// are on disk. ErrFull: the rest is kept, and the next step goes on with it.
func (a *appender) step(jobs []appendJob) (responses []*pb.Message, err error) {
	unit := 0
	if len(a.rest) > 0 {
		if jobs, err = a.behindRest(jobs); err != nil {
			return nil, err
		}
		unit, a.rest = a.unit, nil
	}
	var batch store.Append
	batch.Entries = a.entries[:0]
	from, done := 0, 0 // the first job of the batch; the responses that may go
	flush := func(to int) error {
		if len(batch.Entries) > 0 || batch.State != (store.HardState{}) {
			if err := a.write(batch); err != nil {
				if errors.Is(err, store.ErrFull) {
					a.rest, a.unit = slices.Clone(jobs[from:]), to-from
				}
				return err
			}
			clear(batch.Entries)
			batch = store.Append{Entries: batch.Entries[:0]}
		}
		from, done = to, len(responses)
		return nil
	}
	for i, job := range jobs {
		m := job.message
		if job.raise != nil {
			return a.raise(flush(i), *job.raise)
		}
		if m == nil {
			if err := a.log.Cut(job.cut); err != nil {
				return nil, err
			}
			continue
		}
		// A new leader replaces what is not even written yet; and what found no room is written as it was.
		if n := len(batch.Entries); i == unit && i > 0 || n > 0 && len(m.GetEntries()) > 0 && m.GetEntries()[0].GetIndex() != batch.Entries[n-1].Index+1 {
			if err := flush(i); err != nil {
				return responses[:done], err
			}
		}
		if m.GetSnapshot() != nil {
			// core.snapshot never lets raft come to that: a checkpoint is installed by the next start.
			return nil, fmt.Errorf("raft restored the snapshot of entry %d, which this node doesn't have; report this as a bug", m.GetSnapshot().GetMetadata().GetIndex())
		}
		for _, e := range m.GetEntries() {
			batch.Entries = append(batch.Entries, store.Entry{
				Index: e.GetIndex(), Term: e.GetTerm(), Type: uint8(e.GetType()), Data: e.Data,
			})
		}
		if m.Term != nil && !mutant.On(mutant.VoteNotStored) {
			batch.State = store.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		}
		responses = append(responses, m.GetResponses()...)
	}
	err = flush(len(jobs))
	a.entries = batch.Entries
	return responses[:done], err
}

// raise writes a commit index that another node knows, behind what err tells of, and ends the replica. No response goes: what was asked is asked again.
func (a *appender) raise(err error, state store.HardState) ([]*pb.Message, error) {
	if err == nil {
		err = a.log.Append(store.Append{State: state, Commit: true})
	}
	if err == nil {
		err = raised(state.Commit)
	}
	return nil, err
}

// write makes one append.
func (a *appender) write(batch store.Append) error {
	if a.fault != nil {
		if err := a.fault(); err != nil {
			return err
		}
	}
	return a.log.Append(batch)
}

// behindRest puts new jobs behind those that wait for room, but for cuts, which are done now: they may make some.
func (a *appender) behindRest(jobs []appendJob) ([]appendJob, error) {
	for _, job := range jobs {
		if job.message != nil {
			a.rest = append(a.rest, job)
			continue
		}
		if err := a.log.Cut(job.cut); err != nil {
			return nil, err
		}
	}
	return a.rest, nil
}
