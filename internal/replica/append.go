package replica

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/store"
)

// appendJob is one thing for the append goroutine: a MsgStorageAppend, or a cut.
type appendJob struct {
	message *pb.Message
	cut     uint64
}

// appender is the append step: it writes what has gathered in as few appends, each with one
// sync, as can be.
type appender struct {
	log     Log
	entries []store.Entry // reused
	fault   func() error  // for tests: what a write fails with
}

// step writes the jobs, in order, and returns the messages to be delivered now that they
// are on disk.
func (a *appender) step(jobs []appendJob) (responses []*pb.Message, err error) {
	var batch store.Append
	batch.Entries = a.entries[:0]
	flush := func() error {
		if len(batch.Entries) == 0 && batch.State == (store.HardState{}) {
			return nil
		}
		if a.fault != nil {
			if err := a.fault(); err != nil {
				return err
			}
		}
		err := a.log.Append(batch)
		clear(batch.Entries)
		batch = store.Append{Entries: batch.Entries[:0]}
		return err
	}
	for _, job := range jobs {
		m := job.message
		if m == nil {
			if err := a.log.Cut(job.cut); err != nil {
				return nil, err
			}
			continue
		}
		if n := len(batch.Entries); n > 0 && len(m.GetEntries()) > 0 && m.GetEntries()[0].GetIndex() != batch.Entries[n-1].Index+1 {
			// A new leader replaces what is not even written yet.
			if err := flush(); err != nil {
				return nil, err
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
	err = flush()
	a.entries = batch.Entries
	return responses, err
}
