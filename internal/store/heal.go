package store

import (
	"errors"
	"fmt"
	"io/fs"
)

// heal installs what makes a damaged directory whole in any case: a checkpoint that is complete and confirmed by a
// leader. Before that, nothing is removed. It returns nil where there is none yet: the directory stays marked.
func (d *Dir) heal(opts LogOptions) (*Manifest, error) {
	m, err := d.complete()
	if err != nil || m == nil {
		return nil, err
	}
	c, about, ok := d.Confirmed()
	switch {
	case ok && about.ID == m.ID:
	case d.Loss()&LostPromise == 0:
		return nil, nil // one of any node, which Salvage.Mend uses
	default:
		return nil, d.DropFetch()
	}
	seq, err := d.nextSeqOfAll()
	if err != nil {
		return nil, err
	}
	if err := d.mendVoters(m); err != nil {
		return nil, err
	}
	if m, err = d.install(m, HardState{Term: c.Term, Vote: c.Leader, Commit: m.Index}, seq, opts); err == nil {
		err = d.forgetDamage()
	}
	return m, err
}

// forgetDamage removes what is only there to be looked at.
func (d *Dir) forgetDamage() error {
	for _, name := range []string{whyName, badStampName} {
		if err := d.fs.Remove(d.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", d.Path(name), err)
		}
	}
	if err := d.fs.RemoveAll(d.Path(mendName)); err != nil {
		return fmt.Errorf("removing %s: %w", d.Path(mendName), err)
	}
	return nil
}

// mendVoters writes the list of nodes anew where it is gone or damaged.
func (d *Dir) mendVoters(m *Manifest) error {
	voters, err := d.Voters()
	if voters != nil || err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return d.SetVoters(m.Voters)
}
