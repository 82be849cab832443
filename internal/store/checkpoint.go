package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkpointName is the directory of the checkpoints that are offered; a start empties it.
const checkpointName = "checkpoint"

// Checkpoint is a copy of the state at one applied index, hard-linked, that stands still while the state goes on. Its methods
// may be called by any goroutine.
type Checkpoint struct {
	// Manifest describes it; never changed.
	Manifest Manifest

	encoded []byte
	fs      FS
	path    string
}

// Checkpoint flushes the state and writes a copy of it to a new directory, path: hard links where the file system has them. It
// returns the applied index that was read back from there. An error but for one of the disk's, such as a full one, leaves the
// state usable; nothing of path is left then.
func (s *State) Checkpoint(path string) (applied uint64, err error) {
	if err := s.Flush(); err != nil {
		return 0, err
	}
	if err := s.db.Checkpoint(path); err != nil {
		return 0, fmt.Errorf("copying the state in %s to %s: %w", s.path, path, err)
	}
	view, err := viewState(s.fs, path, s.group)
	if err == nil {
		applied = view.AppliedIndex()
		err = view.Close()
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("looking into the copy of the state: %w", err), s.fs.RemoveAll(path))
	}
	return applied, nil
}

// MakeCheckpoint makes a checkpoint of the state, with the checksum of each file. about fills in what only its caller knows of
// the state in it: term, digest and voters; the state is open for reading during the call. It reads all files: about two seconds
// for each gigabyte. ErrCorrupt: a block of a table is damaged, and nobody could use the checkpoint.
func (d *Dir) MakeCheckpoint(s *State, about func(m *Manifest, in *State) error) (*Checkpoint, error) {
	options := StateOptions{}.pebble(d.fs, s.path).MakeReaderOptions()
	return d.makeCheckpoint(s, about, func(fs FS, path string) (int64, uint64, error) {
		bytes, sum, err := sumFile(fs, path)
		if err == nil && strings.HasSuffix(path, ".sst") {
			if bad := guarded(func() error { return verifyTable(fs, path, options, nil) }); bad != nil {
				err = damaged(LostState, fmt.Errorf("%w: table %s: %w", ErrCorrupt, path, bad))
			}
		}
		return bytes, sum, err
	})
}

// MakeBackup is MakeCheckpoint without the checksums, which are zero: whoever reads the files once sees what is in them. It
// takes as long as flushing does.
func (d *Dir) MakeBackup(s *State, about func(m *Manifest, in *State) error) (*Checkpoint, error) {
	return d.makeCheckpoint(s, about, func(fs FS, path string) (int64, uint64, error) {
		info, err := fs.Stat(path)
		if err != nil {
			return 0, 0, err
		}
		return info.Size(), 0, nil
	})
}

// makeCheckpoint is MakeCheckpoint; measure is a file's length and checksum.
func (d *Dir) makeCheckpoint(s *State, about func(*Manifest, *State) error, measure func(FS, string) (int64, uint64, error)) (*Checkpoint, error) {
	stamp := d.Stamp()
	c := &Checkpoint{fs: d.fs, Manifest: Manifest{Cluster: stamp.Cluster, History: stamp.History, Node: stamp.Node}}
	rand.Read(c.Manifest.ID[:])
	c.path = d.fs.PathJoin(d.Path(checkpointName), hex.EncodeToString(c.Manifest.ID[:]))
	if _, err := s.Checkpoint(c.path); err != nil {
		return nil, err
	}
	if err := c.describe(s.group, about, measure); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// describe fills the manifest in.
func (c *Checkpoint) describe(group uint16, about func(*Manifest, *State) error, measure func(FS, string) (int64, uint64, error)) error {
	names, err := c.fs.List(c.path)
	if err != nil {
		return fmt.Errorf("listing %s: %w", c.path, err)
	}
	slices.Sort(names)
	m := &c.Manifest
	for _, name := range names {
		if !flatName(name) {
			continue // the lock
		}
		f := CheckpointFile{Name: name}
		if f.Bytes, f.Sum, err = measure(c.fs, c.fs.PathJoin(c.path, name)); err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	view, err := viewState(c.fs, c.path, group)
	if err != nil {
		return err
	}
	m.Index = view.AppliedIndex()
	if err = errors.Join(about(m, view), view.Close()); err != nil {
		return err
	}
	c.encoded = m.Encode()
	_, err = DecodeManifest(c.encoded) // nobody could fetch it otherwise
	return err
}

// sumFile is the length and the checksum of a file.
func sumFile(fs FS, path string) (bytes int64, sum uint64, err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return 0, 0, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	h := xxhash.New()
	if bytes, err = io.CopyBuffer(h, onlyReader{f}, make([]byte, windowBytes)); err != nil {
		return 0, 0, fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}
	return bytes, h.Sum64(), nil
}

// onlyReader hides what else a file can, so that copying goes through the buffer.
type onlyReader struct{ io.Reader }

// Open opens a file for reading from offset on: 0 is the manifest, n the n-th of its files. The caller closes it.
func (c *Checkpoint) Open(file uint64, offset int64) (io.ReadCloser, error) {
	size := int64(len(c.encoded))
	if file > uint64(len(c.Manifest.Files)) {
		return nil, fmt.Errorf("oncemq: a checkpoint of %d files has no file %d", len(c.Manifest.Files), file)
	}
	if file > 0 {
		size = c.Manifest.Files[file-1].Bytes
	}
	if offset < 0 || offset > size {
		return nil, fmt.Errorf("oncemq: file %d of the checkpoint has %d bytes, none at %d", file, size, offset)
	}
	if file == 0 {
		return io.NopCloser(&section{at: memory(c.encoded), offset: offset, end: size}), nil
	}
	f, err := c.fs.Open(c.fs.PathJoin(c.path, c.Manifest.Files[file-1].Name), vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	return &sectionFile{section{at: f, offset: offset, end: size}, f}, nil
}

// Remove deletes the checkpoint. Who reads a file of it can go on.
func (c *Checkpoint) Remove() error { return c.fs.RemoveAll(c.path) }

// section reads a file up to the length that the manifest says.
type section struct {
	at          io.ReaderAt
	offset, end int64
}

func (s *section) Read(b []byte) (int, error) {
	if s.offset >= s.end {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), s.end-s.offset)]
	n, err := s.at.ReadAt(b, s.offset)
	s.offset += int64(n)
	if n == len(b) {
		err = nil
	}
	return n, err
}

type sectionFile struct {
	section
	io.Closer
}

// memory is bytes as a file.
type memory []byte

func (m memory) ReadAt(b []byte, offset int64) (int, error) {
	n := copy(b, m[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
