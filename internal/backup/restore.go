package backup

import (
	"errors"
	"fmt"
	"io"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// RestoreOptions says what a backup becomes.
type RestoreOptions struct {
	// Dir is the data directory: empty, or not there, or what an earlier restore that was broken off has left.
	Dir string
	// FS is the file system, the operating system's where nil.
	FS store.FS
	// Node is the id of the node that the directory is for, Voters the ids of all nodes of the cluster that is to be, ascending.
	Node   uint64
	Voters []uint64
}

// Restore makes a node's data directory of the backup in r. The same backup, restored with the same Voters for each of them, is
// one cluster, of a new id and a new history, once its nodes have met; it needs all of them for that, once. What broke off is begun
// anew by the next Restore, and no node begins with it. Errors: ErrDamaged, ErrVersion, those of store.BeginRestore, of writing.
func Restore(r io.Reader, opts RestoreOptions) (Info, error) {
	t := &restorer{opts: opts}
	info, err := read(r, t)
	if t.dir == nil {
		return info, err
	}
	if err == nil {
		err = t.dir.Finish(replica.CheckState)
	}
	if errors.Is(err, store.ErrFetched) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return info, errors.Join(err, t.dir.Close())
}

// restorer is the target of a restore.
type restorer struct {
	opts RestoreOptions
	dir  *store.Restore // nil: not begun
}

func (t *restorer) begin(info *Info) (err error) {
	t.dir, err = store.BeginRestore(store.RestoreOptions{
		Dir: t.opts.Dir, FS: t.opts.FS, Node: t.opts.Node, Voters: t.opts.Voters, Group: replica.Group,
	}, info.Manifest)
	return err
}

// Write implements target.
func (t *restorer) Write(b []byte) error { return t.dir.Write(b) }

// Done implements target.
func (t *restorer) Done(sum uint64) error { return t.dir.Done(sum) }
