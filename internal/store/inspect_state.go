package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	pebblerecord "github.com/cockroachdb/pebble/v2/record"
)

// StateInspection is what the files of the state hold.
type StateInspection struct {
	Path string
	// Tables is how many there are in use, Bytes their length.
	Tables int
	Bytes  int64
	// Opened: it could be opened, and Applied is the applied index in it.
	Opened  bool
	Applied uint64
	// Damage is what is wrong.
	Damage []Damage
}

func (x *StateInspection) damage(path string, offset int64, format string, args ...any) {
	x.Damage = append(x.Damage, Damage{Part: PartState, Path: path, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// inspectState looks into a state: every block of every table, the manifest, and what the caller sees in it.
func inspectState(files FS, path string, opts InspectOptions) *StateInspection {
	x := &StateInspection{Path: path}
	names, err := files.List(path)
	if err != nil || !slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "marker.manifest.") || strings.HasSuffix(name, ".sst")
	}) {
		return x // a node that died while it made its directory has none yet
	}
	x.manifest(files, names)
	view, err := x.open(files, opts.Group)
	if err != nil {
		x.Damage = append(x.Damage, Damage{Part: PartState, Path: path, What: plain(err), Newer: errors.Is(err, ErrVersion)})
		x.tables(files, names) // without the manifest it isn't known which are in use
		return x
	}
	x.Opened, x.Applied = true, view.AppliedIndex()
	if used, err := usedTables(view.db); err != nil {
		x.damage(path, 0, "its tables can't be listed: %v", err)
	} else {
		x.tables(files, used)
	}
	if len(x.Damage) == 0 && opts.State != nil {
		if err := guarded(func() error { return opts.State(view) }); err != nil {
			x.damage(path, 0, "%s", plain(err))
		}
	}
	if err := view.Close(); err != nil {
		x.damage(path, 0, "%v", err)
	}
	return x
}

// open opens the state for reading.
func (x *StateInspection) open(files FS, group uint16) (view *State, err error) {
	err = guarded(func() (err error) { view, err = viewState(files, x.Path, group); return err })
	return view, err
}

// guarded makes an error of a panic: of Pebble, over what should never be in a file.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	return fn()
}

// usedTables are the names of the tables that a state consists of.
func usedTables(db *pebble.DB) (names []string, err error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range levels {
		for i := range level {
			names = append(names, fmt.Sprintf("%06d.sst", uint64(level[i].BackingSSTNum)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// tables reads every block of tables.
func (x *StateInspection) tables(files FS, names []string) {
	options := StateOptions{}.pebble(files, x.Path).MakeReaderOptions()
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := files.PathJoin(x.Path, name)
		info, err := files.Stat(path)
		if err != nil {
			x.damage(path, 0, "a table is missing: %v", err)
			continue
		}
		x.Tables, x.Bytes = x.Tables+1, x.Bytes+info.Size()
		if err := guarded(func() error { return verifyTable(files, path, options, nil) }); err != nil {
			x.damage(path, 0, "a table is damaged: %s", plain(err))
		}
	}
}

// manifest reads Pebble's manifests through. Pebble itself takes a record that it can't read for the end, which may hide all
// that follows.
func (x *StateInspection) manifest(files FS, names []string) {
	for _, name := range names {
		if !strings.HasPrefix(name, "MANIFEST-") {
			continue
		}
		path := files.PathJoin(x.Path, name)
		if at, err := verifyManifest(files, path); err != nil {
			x.damage(path, at, "the list of tables is damaged: %v", err)
		}
	}
}

// errHidden: what can't be read has something behind it.
var errHidden = errors.New("a record can't be read, and others lie behind it")

// verifyManifest reads a manifest through. A crash may have cut off its last record, and that is no error.
func verifyManifest(files FS, path string) (at int64, err error) {
	b, err := readFile(files, path, 1<<30)
	if err != nil {
		return 0, err
	}
	r := pebblerecord.NewReader(&onlyBytes{b}, 0)
	for {
		at = r.Offset()
		part, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, part)
		}
		switch {
		case err == nil:
		case !pebblerecord.IsInvalidRecord(err) && !isEOF(err):
			return at, err
		case chunkBehind(b, at+1):
			return at, errHidden
		default:
			return 0, nil
		}
	}
}

// chunkBehind reports that from an offset on there is something that Pebble wrote and that is whole: checksum (4, masked), length
// (2), type (1), data, within a block of 32 KiB.
func chunkBehind(b []byte, from int64) bool {
	const head, block = 7, 32 << 10
	for p := from; p+head <= int64(len(b)); p++ {
		end := p + head + int64(binary.LittleEndian.Uint16(b[p+4:]))
		if end > min((p/block+1)*block, int64(len(b))) || b[p+6] == 0 {
			continue
		}
		sum := crc32.Checksum(b[p+6:end], castagnoli)
		if (sum>>15|sum<<17)+0xA282EAD8 == binary.LittleEndian.Uint32(b[p:]) {
			return true
		}
	}
	return false
}

// onlyBytes is bytes to be read, and nothing else.
type onlyBytes struct{ b []byte }

func (r *onlyBytes) Read(b []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.b)
	r.b = r.b[n:]
	return n, nil
}
