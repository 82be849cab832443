package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Loss says what of a directory can't be used (C14). A directory that is marked with it is of a node that recovers: it doesn't
// vote and doesn't serve, whatever the files look like, until a new generation stands in the place of what was damaged: of another node's
// making, or mended ([Salvage]). The mark is in the stamp, what is found later is added, and the one write that switches to the new generation
// takes it away.
type Loss uint8

const (
	// LostState: the state can't be used. Where the log is whole, a checkpoint of any node will do whose entry the log has.
	LostState Loss = 1 << iota
	// LostPromise: what the node promised may be gone, entries that it acknowledged or its vote. Only a leader can say what
	// they were at most.
	LostPromise
	// LostLog: a part of the log can't be read. What of it is lost is found anew at each start ([Dir.Salvage]): where that lies in the middle,
	// no promise is, and the others needn't have a leader to help; otherwise LostPromise is added.
	LostLog

	allLoss = LostState | LostPromise | LostLog
)

// damageError is damage of a part of the directory that is known.
type damageError struct {
	damage Loss
	err    error
}

func (e *damageError) Error() string { return e.err.Error() }
func (e *damageError) Unwrap() error { return e.err }

// damaged says which part an error is about, if it is about damage.
func damaged(d Loss, err error) error {
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	return &damageError{d, err}
}

// LossOf says what an error of this package means for the directory: 0 where it isn't about damage, and LostPromise where
// nothing better is known.
func LossOf(err error) Loss {
	var e *damageError
	switch {
	case !errors.Is(err, ErrCorrupt):
		return 0
	case errors.As(err, &e):
		return e.damage
	}
	return LostPromise
}

// whyName is the file that says why a directory is marked as damaged. Nothing hangs on it.
const whyName = "DAMAGED"

// Why is what was found when the directory was marked, nil for a whole one. It is ErrCorrupt.
func (d *Dir) Why() error {
	if d.Loss() == 0 {
		return nil
	}
	b, err := readFile(d.fs, d.Path(whyName), 64<<10)
	text := strings.TrimPrefix(strings.TrimSpace(string(b)), ErrCorrupt.Error()+": ")
	if err != nil || text == "" {
		text = "it was found to be, and isn't whole yet"
	}
	return &damageError{d.Loss(), fmt.Errorf("%w: %s", ErrCorrupt, text)}
}

// Loss is what the directory is marked with, 0 for a whole one.
func (d *Dir) Loss() Loss { return d.Stamp().damage }

// SetLost marks the directory, atomically and synced, in addition to what it is marked with; why is for people, and for
// Why. What a leader has confirmed before was about an earlier damage, and is dropped. An error is ErrDisk.
func (d *Dir) SetLost(more Loss, why error) error {
	d.marking.Lock()
	defer d.marking.Unlock()
	if d.Loss()|more == d.Loss() {
		return nil
	}
	if err := replaceFile(d.fs, d.path, whyName, fmt.Appendf(nil, "%v\n", why)); err != nil {
		return err
	}
	path := d.fs.PathJoin(d.Path(fetchName), confirmedName)
	if err := d.fs.Remove(path); err == nil {
		err = syncDir(d.fs, d.Path(fetchName))
		if err != nil {
			return fmt.Errorf("%w: removing %s: %w", ErrDisk, path, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: removing %s: %w", ErrDisk, path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	stamp := d.stamp
	stamp.damage |= more
	return d.restamp(stamp)
}
