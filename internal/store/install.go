package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errNoSpace is a full disk.
const errNoSpace = syscall.ENOSPC

// Install brings the directory in order before its log and state are opened, and installs the checkpoint that was fetched, if
// one is complete: a new generation, whose state is the checkpoint's and whose log begins behind it with the term and vote of
// the old one. Until the stamp names it, and that is one atomic write, the old generation is what a start finds; from then on
// the new one. A checkpoint that the log has overtaken is dropped: entries behind it may have been acknowledged.
//
// Where the disk is too full for it the checkpoint is dropped as well, and the node goes on with what it had. opts are
// those of OpenLog. Errors: those of OpenLog, ErrDisk.
func (d *Dir) Install(opts LogOptions) (installed *Manifest, err error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	if d.Loss() != 0 {
		return d.heal(opts)
	}
	if err := d.sweep(); err != nil {
		return nil, err
	}
	m, err := d.complete()
	if err != nil || m == nil {
		return nil, err
	}
	state, seq, err := d.succeed(m, opts)
	if err != nil {
		return nil, err
	}
	if state == (HardState{}) {
		return nil, d.DropFetch()
	}
	return d.install(m, state, seq, opts)
}

// install makes the checkpoint the next generation, and removes the one before.
func (d *Dir) install(m *Manifest, state HardState, seq uint64, opts LogOptions) (*Manifest, error) {
	next := d.Stamp().generation + 1
	if err := d.prepare(next, m, state, seq, opts); err != nil {
		if errors.Is(err, errNoSpace) {
			return nil, errors.Join(d.fs.RemoveAll(d.generation(next)), d.DropFetch())
		}
		return nil, fmt.Errorf("installing the fetched checkpoint of entry %d: %w", m.Index, err)
	}
	if err := d.switchTo(next); err != nil {
		return nil, err
	}
	if err := d.sweep(); err != nil {
		return nil, err
	}
	return m, d.DropFetch()
}

// complete is the manifest of a checkpoint that was fetched and verified; nil where there is none. One that lacks a file is
// dropped.
func (d *Dir) complete() (*Manifest, error) {
	path := d.fs.PathJoin(d.Path(fetchName), completeName)
	b, err := readFile(d.fs, path, MaxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	m, err := DecodeManifest(b)
	stamp := d.Stamp()
	if err != nil || m.Cluster != stamp.Cluster || m.History != stamp.History {
		return nil, d.DropFetch()
	}
	for i := range m.Files {
		info, err := d.fs.Stat(d.fetched(&m.Files[i]))
		if err != nil || info.Size() != m.Files[i].Bytes {
			return nil, d.DropFetch()
		}
	}
	return &m, nil
}

// fetched is the path of a file that was fetched.
func (d *Dir) fetched(f *CheckpointFile) string {
	return d.fs.PathJoin(d.fs.PathJoin(d.Path(fetchName), stateName), f.Name)
}

// succeed reads from the present log the hard state that the new one takes over, and the number its first segment gets: no
// number comes twice. A zero state means that the log has, or had, the checkpoint's entry: it goes on itself.
func (d *Dir) succeed(m *Manifest, opts LogOptions) (state HardState, seq uint64, err error) {
	l, err := d.OpenLog(opts)
	if err != nil {
		return state, 0, err
	}
	state = l.HardState()
	term, termErr := l.Term(m.Index)
	if l.FirstIndex() > m.Index+1 || state.Commit >= m.Index || termErr == nil && term == m.Term {
		return HardState{}, 0, l.Close()
	}
	if m.Term > state.Term {
		state.Term, state.Vote = m.Term, 0
	}
	state.Commit = m.Index
	return state, l.nextSeq(), l.Close()
}

// prepare makes a generation whole and durable.
func (d *Dir) prepare(n uint32, m *Manifest, state HardState, seq uint64, opts LogOptions) error {
	path := d.generation(n)
	if err := d.fs.RemoveAll(path); err != nil {
		return err
	}
	if err := d.linkFetched(m, d.fs.PathJoin(path, stateName)); err != nil {
		return err
	}
	l := &Log{dir: d, fs: d.fs, dirPath: d.fs.PathJoin(path, logName), opts: opts, lastSeq: seq - 1}
	l.index = index{terms: []termRun{{m.Index, m.Term}}}
	err := makeDirs(d.fs, l.dirPath)
	if err == nil {
		err = l.Append(Append{Group: opts.Group, State: state})
	}
	return errors.Join(err, l.Close())
}

// linkFetched makes a state of the files of a checkpoint that was fetched.
func (d *Dir) linkFetched(m *Manifest, files string) error {
	if err := makeDirs(d.fs, files); err != nil {
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if err := vfs.LinkOrCopy(d.fs, d.fetched(f), d.fs.PathJoin(files, f.Name)); err != nil {
			return err
		}
	}
	return syncDir(d.fs, files)
}

// switchTo makes a generation the present one.
func (d *Dir) switchTo(n uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	stamp := d.stamp
	stamp.generation, stamp.hasLog, stamp.damage = n, true, 0
	return d.restamp(stamp)
}
