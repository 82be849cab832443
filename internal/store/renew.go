package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Renewal is what a directory becomes whose cluster is lost: that of the only node of another cluster (C1, [8.7]).
type Renewal struct {
	// Cluster is the new cluster's id, History the next history.
	Cluster [16]byte
	History uint16
	// Index and Term are those of the entry up to which the state is brought; the log begins behind it.
	Index, Term uint64
	// Hard is the hard state of the new log; its Commit is Index.
	Hard HardState
	// Fresh leaves the old state out: the new one is made from nothing.
	Fresh bool
	// Segment is the number of the new log's first segment: behind all that there are.
	Segment uint64
}

// Renew makes the next generation out of the present one: a copy of its state, which bring has to bring to Index, and a log
// that begins behind that, with this node as the only voter. Nothing of the present generation is changed. The stamp decides, as in
// Install: it names generation, cluster and history in one atomic write. A start removes what is in use no more.
//
// Neither log nor state of the directory may be open. Errors: those of bring, ErrDisk, and of a full disk.
func (d *Dir) Renew(r Renewal, log LogOptions, state StateOptions, bring func(s *State) error) error {
	if err := log.setDefaults(); err != nil {
		return err
	}
	next := &Dir{fs: d.fs, path: d.path, draw: d.draw, key: d.key, stamp: d.Stamp()}
	next.stamp.Cluster, next.stamp.History, next.stamp.hasLog = r.Cluster, r.History, true
	next.stamp.damage = 0 // there is nobody left to recover from
	next.stamp.generation++
	base := next.base()
	if err := d.fs.RemoveAll(base); err != nil {
		return fmt.Errorf("removing %s, which is not in use: %w", base, err)
	}
	if err := makeDirs(d.fs, base); err != nil {
		return fmt.Errorf("making %s: %w", base, err)
	}
	if !r.Fresh {
		if err := copyState(d.fs, d.fs.PathJoin(d.base(), stateName), d.fs.PathJoin(base, stateName)); err != nil {
			return fmt.Errorf("copying the state: %w", err)
		}
	}
	if err := next.bringState(state, r.Index, bring); err != nil {
		return err
	}
	l := &Log{dir: next, fs: d.fs, dirPath: d.fs.PathJoin(base, logName), opts: log, lastSeq: r.Segment - 1}
	l.index = index{terms: []termRun{{r.Index, r.Term}}}
	r.Hard.Commit = r.Index
	err := makeDirs(d.fs, l.dirPath)
	if err == nil {
		err = l.Append(Append{Group: log.Group, State: r.Hard})
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("beginning the log in %s: %w", l.dirPath, err)
	}
	if err := replaceFile(d.fs, base, votersName, encodeVoters([]uint64{next.stamp.Node})); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restamp(next.stamp)
}

// bringState opens the state, has it brought to an entry, and leaves it durable.
func (d *Dir) bringState(opts StateOptions, index uint64, bring func(s *State) error) error {
	s, err := d.OpenState(opts)
	if err != nil {
		return err
	}
	err = bring(s)
	if at := s.AppliedIndex(); err == nil && at != index {
		err = fmt.Errorf("oncemq: the state was to be brought to entry %d, and is at %d", index, at)
	}
	if err == nil {
		err = s.Flush()
	}
	return errors.Join(err, s.Close())
}

// copyState copies a state that nobody has open: tables, which never change, by links, the rest by bytes.
func copyState(files FS, from, to string) error {
	if err := makeDirs(files, to); err != nil {
		return err
	}
	names, err := files.List(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		source, target := files.PathJoin(from, name), files.PathJoin(to, name)
		switch {
		case name == lockName:
		case strings.HasSuffix(name, ".sst"):
			err = vfs.LinkOrCopy(files, source, target)
		default:
			err = copyFile(files, source, target)
		}
		if err != nil {
			return err
		}
	}
	return syncDir(files, to)
}

// copyFile copies a file, synced.
func copyFile(files FS, from, to string) error {
	source, err := files.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := files.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{target}, onlyReader{source}, make([]byte, windowBytes))
	if err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// onlyWriter hides what else a file can, so that copying goes through the buffer.
type onlyWriter struct{ io.Writer }

// settleVoters puts the list of voters that came with a generation in the place of the former one, and forgets where the nodes of the
// former cluster were. Until that is done, the generation's list counts.
func (d *Dir) settleVoters() error {
	path := d.fs.PathJoin(d.base(), votersName)
	if d.base() == d.path {
		return nil
	}
	b, err := readFile(d.fs, path, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}
	if _, ok := decodeVoters(b); !ok {
		return fmt.Errorf("%w: %s is not a list of nodes with the right checksum", ErrCorrupt, path)
	}
	if err := d.fs.Remove(d.Path(membersName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", d.Path(membersName), err)
	}
	if err := replaceFile(d.fs, d.path, votersName, b); err != nil {
		return err
	}
	if err := d.fs.Remove(path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return syncDir(d.fs, d.base())
}
