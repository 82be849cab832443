package replica

import (
	"errors"
	"fmt"
	"runtime/debug"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
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
	effects, err := guarded(a.machine, index, e.GetTerm(), e.Data, a.batch, effects)
	if p := (*applyPanic)(nil); errors.As(err, &p) {
		a.logger.Error("applying an entry panicked", "entry", index, "term", p.term, "panic", p.value, "stack", string(p.stack))
	}
	return effects, err
}

// applyPanic is an ErrApplyPanicked.
type applyPanic struct {
	index, term uint64
	value       any
	stack       []byte
}

func (p *applyPanic) Error() string {
	return fmt.Sprintf("%v: entry %d, term %d: %v", ErrApplyPanicked, p.index, p.term, p.value)
}

func (p *applyPanic) Unwrap() error { return ErrApplyPanicked }

// guarded applies an entry. A panic of the machine becomes an applyPanic: what it has half
// changed must not be used any more, and this node must stop [4.4].
func guarded(m machine, index, term uint64, data []byte, to state.Changes, effects []command.Effect) (out []command.Effect, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &applyPanic{index, term, p, debug.Stack()}
		}
	}()
	if out, err = m.Apply(index, data, to, effects); err != nil {
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

// differs is an error where an effect says that this node's digest isn't the others' [7.2]. It is asked before the changes go to the
// disk, and the directory is marked as damaged for it: a node that dies in between finds the same by applying the entry again, so no
// start goes on with a state that differs. Where no two nodes agree no leader is left that could help a marked node, and all of them
// wait for their operator.
func (a *applier) differs(effects []command.Effect) error {
	for i := range effects {
		e := &effects[i]
		switch {
		case e.Kind != command.EffectDigestDiffers || e.Node != a.node:
		case e.Count == 0:
			return fmt.Errorf("%w: %w after entry %d, and no two nodes agree: nobody can say which one is right, so none of them takes part any more; restore a backup, or stop them and choose one by \"oncemq recover --force-new-cluster\"", store.ErrCorrupt, ErrDiffers, e.Number)
		default:
			return fmt.Errorf("%w: %w from that of %d others after entry %d", store.ErrCorrupt, ErrDiffers, e.Count, e.Number)
		}
	}
	return nil
}
