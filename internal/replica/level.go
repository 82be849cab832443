package replica

import (
	"fmt"
	"runtime/debug"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// entry applies one entry to the machine, or passes over it.
func (a *applier) entry(e *pb.Entry, effects []command.Effect) ([]command.Effect, error) {
	index := e.GetIndex()
	if e.GetType() == pb.EntryConfChangeV2 {
		return a.configure(e, effects)
	}
	if t := e.GetType(); t != pb.EntryNormal {
		// Skipping what isn't understood would make the nodes differ [7.1].
		return effects, fmt.Errorf("entry %d: %w: it is of type %d, which this version doesn't know: run the version that the other nodes run", index, command.ErrNewer, t)
	}
	if len(e.Data) == 0 {
		return effects, nil
	}
	if a.skips.has(e) {
		if err := a.machine.Skip(index, e.Data, a.batch); err != nil {
			return effects, err
		}
		a.logger.Warn("an entry was skipped, as this directory says", "entry", index, "term", e.GetTerm(), "bytes", len(e.Data))
		// The others are compared as soon as they have come here.
		a.out.digests = append(a.out.digests, digest{index, a.machine.Digest()})
		return effects, nil
	}
	return a.guarded(e, effects)
}

// guarded applies an entry. A panic of the machine becomes an error: what it has half
// changed must not be used any more, and this node must stop [4.4].
func (a *applier) guarded(e *pb.Entry, effects []command.Effect) (out []command.Effect, err error) {
	index := e.GetIndex()
	defer func() {
		if p := recover(); p != nil {
			a.logger.Error("applying an entry panicked", "entry", index, "term", e.GetTerm(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: entry %d, term %d: %v", ErrApplyPanicked, index, e.GetTerm(), p)
		}
	}()
	if out, err = a.machine.Apply(index, e.Data, a.batch, effects); err != nil {
		return out, fmt.Errorf("applying entry %d: %w", index, err)
	}
	return out, nil
}

// keepLevel writes down the level at which the state begins, or to which it has risen.
func (a *applier) keepLevel() error {
	level, version := a.machine.Level()
	if _, _, founded := a.machine.Cluster(); !founded || level == a.level {
		return nil
	}
	if a.raised != nil {
		if err := a.raised(level, version); err != nil {
			return err
		}
	}
	a.level = level
	return nil
}

// differs is why a node ends whose digest isn't the others' [7.2].
func differs(e *command.Effect) error {
	if e.Count == 0 {
		return fmt.Errorf("%w after entry %d, and no two nodes agree: nobody can say which one is right, so all of them stop; restore a backup, or choose one of them by \"oncemq recover --force-new-cluster\"", ErrDiffers, e.Number)
	}
	return fmt.Errorf("%w: %w from that of %d others after entry %d", store.ErrCorrupt, ErrDiffers, e.Count, e.Number)
}
