package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Group is the one raft group, for who reads and writes directories of stopped nodes.
const Group uint16 = group

// backupTries is how often a backup is begun: the log may be cut past the entry that it goes up to, in the moment before its
// term is looked up.
const backupTries = 3

// Backup makes a checkpoint of the state for a backup: all that was acknowledged anywhere before the call is in it, unless stale is
// set, which needs no majority. Its manifest has no checksums of files. The caller removes it. It lies in the data directory as
// hard links, so what it holds and the state doesn't any more takes room until then.
//
// Errors: ErrNoQuorum, ErrClosed, ErrSafetyOff; others leave the node as it is, but for those of the disk.
func (r *Replica) Backup(ctx context.Context, stale bool) (c *store.Checkpoint, err error) {
	if r.opts.SafetyOff {
		return nil, ErrSafetyOff
	}
	if !stale {
		if err := r.Read(ctx, func(*state.Machine) {}); err != nil {
			return nil, err
		}
	}
	r.inUse.RLock()
	defer r.inUse.RUnlock()
	if r.damage != nil {
		return nil, r.Ready()
	}
	if r.closed {
		return nil, ErrClosed
	}
	for range backupTries {
		if c, err = r.dir.MakeBackup(r.files, r.describe); !errors.Is(err, store.ErrCut) {
			break
		}
	}
	return c, err
}

// CheckState loads what lies in a state that a checkpoint or a backup brought, and compares its digest with what the maker of m
// found. An error means that no node can begin with it.
func CheckState(m *store.Manifest, in *store.State) error {
	machine, err := loadMachine(in)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrFetched, err)
	}
	if sum := machine.Digest(); sum != m.Digest {
		return fmt.Errorf("%w: its digest is %016x, its manifest says %016x", store.ErrFetched, sum, m.Digest)
	}
	if _, history, _ := machine.Cluster(); history > m.History {
		return fmt.Errorf("%w: its state is of history %d, its manifest says %d", store.ErrFetched, history, m.History)
	}
	return nil
}
