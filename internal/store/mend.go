package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// Mended says what a directory was mended to: the log goes from behind Base to Last, the state up to Applied.
type Mended struct {
	Base, Last, Applied uint64
	// Node is the one that the checkpoint came from, 0 where the state is the directory's own or made from the log.
	Node uint64
}

// Mend makes the directory whole, if everything for that is there: with the checkpoint that was fetched, if one is complete and fits, or with what Whole
// says. It is a new generation, and the write of the stamp that switches to it takes the marks away; nothing is removed before. nil: something is
// missing yet. Behind an error the directory is as it was, but for a checkpoint that doesn't fit, which is dropped. Close the Salvage behind a success: its
// files are gone. Errors: ErrFetched, ErrFull, ErrDisk, ErrCorrupt where what could be read can't be any more.
func (s *Salvage) Mend(opts LogOptions) (*Mended, error) {
	d := s.dir
	if err := opts.setDefaults(); err != nil || s.unsure != nil {
		return nil, err
	}
	m, err := d.complete()
	if err != nil || m == nil && !s.Whole() {
		return nil, err
	}
	stand, err := s.stand(m)
	if err != nil {
		if errors.Is(err, ErrFetched) {
			err = errors.Join(err, d.DropFetch())
		}
		return nil, err
	}
	next := d.Stamp().generation + 1
	if err := s.build(next, m, stand, opts); err != nil {
		if errors.Is(err, errNoSpace) && !errors.Is(err, ErrFull) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, errors.Join(fmt.Errorf("mending %s: %w", d.path, err), d.fs.RemoveAll(d.generation(next)))
	}
	if d.Loss()&LostPromise != 0 { // found meanwhile
		return nil, d.Why()
	}
	if err := d.switchTo(next); err != nil {
		return nil, err
	}
	done := &Mended{Base: stand.base.Index, Last: stand.last, Applied: stand.applied}
	if m != nil {
		done.Node = m.Node
	}
	return done, errors.Join(d.sweep(), d.DropFetch(), d.forgetDamage())
}

// build makes the generation whole and durable.
func (s *Salvage) build(n uint32, m *Manifest, stand footing, opts LogOptions) error {
	d := s.dir
	path := d.generation(n)
	if err := d.fs.RemoveAll(path); err != nil {
		return err
	}
	if err := makeDirs(d.fs, path); err != nil {
		return err
	}
	state, err := d.fs.PathJoin(path, stateName), error(nil)
	switch {
	case m != nil:
		err = d.linkFetched(m, state)
	case stand.applied > 0:
		err = copyState(d.fs, s.in.State.Path, state)
	}
	if err != nil {
		return err
	}
	seq, err := d.nextSeqOfAll()
	if err != nil {
		return err
	}
	l := &Log{dir: d, fs: d.fs, dirPath: d.fs.PathJoin(path, logName), opts: opts, lastSeq: seq - 1}
	l.index = index{terms: []termRun{{stand.base.Index, stand.base.Term}}}
	if err = makeDirs(d.fs, l.dirPath); err == nil {
		err = s.copyLog(l, stand)
	}
	return errors.Join(err, l.Close())
}

// copyLog writes the new log, from its lowest entry on.
func (s *Salvage) copyLog(l *Log, stand footing) error {
	if err := l.Append(Append{Group: s.group, State: stand.hard}); err != nil {
		return err
	}
	for i := len(s.parts) - 1; i >= 0; i-- {
		part := &s.parts[i]
		for lo, hi := max(part.first, stand.base.Index+1), min(part.last, stand.last)+1; lo < hi; {
			entries, err := part.read(s.dir, lo, hi)
			if err != nil {
				return err
			}
			if err := l.Append(Append{Group: s.group, Entries: entries}); err != nil {
				return err
			}
			lo += uint64(len(entries))
		}
	}
	if last := l.LastIndex(); last != stand.last {
		return fmt.Errorf("%w: the mended log ends with entry %d, and should with %d; report this as a bug", ErrCorrupt, last, stand.last)
	}
	return nil
}

// read reads some entries of a part from lo on, at least one, all below hi.
func (part *salvagePart) read(d *Dir, lo, hi uint64) ([]Entry, error) {
	if part.piece != nil {
		return part.piece.Entries(nil, lo, hi, stretchBytes)
	}
	x, err := d.readStretch(part.path)
	if err != nil {
		return nil, err
	}
	first := x.Entries[0].Index
	if lo < first || hi > first+uint64(len(x.Entries)) {
		return nil, fmt.Errorf("%w: %s has entries %d to %d, and had %d to %d", ErrStretch, part.path, first, first+uint64(len(x.Entries))-1, part.first, part.last)
	}
	return x.Entries[lo-first : hi-first], nil
}

// Stretch answers another node's query from the pieces that can be read: ok is false where none has all of it. Whether a piece is
// of the log as it was at the end doesn't matter, only that it was the log once.
func (s *Salvage) Stretch(q StretchQuery) (x Stretch, ok bool, err error) {
	for _, p := range s.in.Log.Pieces {
		if x, ok, err = p.Stretch(q); ok || err != nil {
			return x, ok, err
		}
	}
	return Stretch{}, false, nil
}

// Offers is the entry up to which a checkpoint goes that Checkpoint would make, 0 where it can't make any: the state isn't sound, or the term of
// its last entry isn't certain.
func (s *Salvage) Offers() uint64 {
	if applied, ok := s.State(); ok && s.committedTerm(applied) > 0 {
		return applied
	}
	return 0
}

// committedTerm is the term of an entry that was committed, 0 where it isn't certain: what a piece says of entries up to the commit index in it was never
// replaced, and nothing was of the last piece's.
func (s *Salvage) committedTerm(index uint64) uint64 {
	for _, p := range s.in.Log.Pieces {
		term, err := p.Term(index)
		if err == nil && (index <= p.state.Commit || s.unsure == nil && p == s.in.Log.newest()) {
			return term
		}
	}
	return 0
}

// Checkpoint makes a checkpoint of the state as it lies there, for other nodes; about fills in digest and voters, as for Dir.MakeCheckpoint.
// It reads all files. Errors: ErrUnavailable where Offers is 0, and of the disk.
func (s *Salvage) Checkpoint(about func(m *Manifest, in *State) error) (*Checkpoint, error) {
	d, stamp := s.dir, s.dir.Stamp()
	applied := s.Offers()
	if applied == 0 {
		return nil, fmt.Errorf("a checkpoint of %s: %w", s.in.State.Path, ErrUnavailable)
	}
	c := &Checkpoint{fs: d.fs, Manifest: Manifest{
		Cluster: stamp.Cluster, History: stamp.History, Node: stamp.Node, Term: s.committedTerm(applied),
	}}
	rand.Read(c.Manifest.ID[:])
	c.path = d.fs.PathJoin(d.Path(checkpointName), hex.EncodeToString(c.Manifest.ID[:]))
	err := makeDirs(d.fs, d.Path(checkpointName))
	if err == nil {
		err = copyState(d.fs, s.in.State.Path, c.path)
	}
	if err == nil {
		err = c.describe(s.group, about, sumFile)
	}
	if err == nil && c.Manifest.Index != applied {
		err = fmt.Errorf("%w: the copy of the state in %s goes up to entry %d, and should to %d", ErrCorrupt, s.in.State.Path, c.Manifest.Index, applied)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// DropCheckpoints removes the checkpoints that an earlier life of a damaged node has offered.
func (d *Dir) DropCheckpoints() error {
	if err := d.fs.RemoveAll(d.Path(checkpointName)); err != nil {
		return fmt.Errorf("removing %s: %w", d.Path(checkpointName), err)
	}
	return nil
}
