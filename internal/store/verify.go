package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// viewState opens the state in a directory for reading only. What is damaged is an error, and ends nothing.
func viewState(fs FS, path string, group uint16) (*State, error) {
	opts := StateOptions{Group: group, CacheBytes: 1 << 20, MemTableBytes: 1 << 20, Fatal: func(error) {}}
	s := &State{path: path, fs: fs, group: group}
	o := opts.pebble(fs, path)
	o.ReadOnly = true
	db, err := pebble.Open(path, o)
	if err != nil {
		return nil, s.openError(err)
	}
	if err := s.begin(db); err != nil {
		return nil, err
	}
	return s, nil
}

// verifyState verifies the files of a checkpoint as a whole: every block of every table, the applied index, and what check finds in the
// state, which is open for reading during the call.
func verifyState(files FS, path string, group uint16, m *Manifest, check func(m *Manifest, in *State) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // of Pebble, over what should never be in a file
			err = fmt.Errorf("%w: %v", ErrFetched, p)
		}
	}()
	names := make([]string, len(m.Files))
	for i := range names {
		names[i] = m.Files[i].Name
	}
	if err := verifyTables(files, path, names); err != nil {
		return err
	}
	view, err := viewState(files, path, group)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFetched, err)
	}
	if view.AppliedIndex() != m.Index {
		err = fmt.Errorf("%w: its state has entry %d applied, its manifest says %d", ErrFetched, view.AppliedIndex(), m.Index)
	}
	if err == nil && check != nil {
		err = check(m, view)
	}
	return errors.Join(err, view.Close())
}

// verifyTables reads every block of every table in a state's directory, and so its checksum. Bloom filters and such are blocks
// as well; what has no checksum of its own is what the manifest's covers.
func verifyTables(fs FS, path string, names []string) error {
	options := StateOptions{}.pebble(fs, path).MakeReaderOptions()
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if err := verifyTable(fs, fs.PathJoin(path, name), options, nil); err != nil {
			return fmt.Errorf("%w: table %s: %w", ErrFetched, fs.PathJoin(path, name), err)
		}
	}
	return nil
}

// verifyTable reads every block of a table; a pace, where there is one, is kept.
func verifyTable(fs FS, path string, options sstable.ReaderOptions, pace Pace) error {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	if pace != nil {
		f = &pacedFile{f, pace}
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	reader, err := sstable.NewReader(context.Background(), readable, options)
	if err != nil {
		return err // the readable is closed with it
	}
	return errors.Join(reader.ValidateBlockChecksums(), reader.Close())
}
