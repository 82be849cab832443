package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// InspectOptions says which directory is looked into.
type InspectOptions struct {
	// Dir is the data directory, in FS (nil: the operating system's).
	Dir string
	FS  FS
	// Group is the raft group of log and state.
	Group uint16
	// State is called with the state, open for reading, where it could be opened; it is closed behind the call. What it returns is
	// damage of the state. Nil: nothing is looked at but the store's own keys.
	State func(s *State) error
	// LogOnly leaves the state and everything but stamp and log out.
	LogOnly bool
	// Locked says that the caller has the directory open, and so its lock.
	Locked bool
}

// Part names what a damage is of.
type Part string

// The parts of a data directory.
const (
	PartStamp  Part = "stamp"
	PartVoters Part = "voters"
	PartLog    Part = "log"
	PartState  Part = "state"
	// PartBounds: log and state are each sound, and don't belong together.
	PartBounds Part = "bounds"
)

// Damage is a place of a directory that isn't what was once written there.
type Damage struct {
	Part Part
	// Path is the file or directory, Offset the place in it, Bytes how much from there on can't be read; 0: not known.
	Path          string
	Offset, Bytes int64
	// What it is, in plain words, without the path.
	What string
	// Newer: it isn't damaged but written by a newer version.
	Newer bool
}

// Inspection is what Inspect found. Close it.
type Inspection struct {
	Path string
	// Stamp is the directory's, if StampRead.
	Stamp     Stamp
	StampRead bool
	// Generation counts the checkpoints that were installed; Base is the directory that holds its log and state.
	Generation uint32
	Base       string
	// Voters are those of the file; nil where there is none.
	Voters []uint64
	// Log and State are never nil; empty where there is nothing to read.
	Log   *LogInspection
	State *StateInspection
	// Damage is everything that is wrong, those of log and state included.
	Damage []Damage
	// Notes say what lies there beside log and state, and is no damage: what a start goes on with or removes.
	Notes []string

	lock interface{ Close() error }
}

// ErrNothing is Inspect's error of a directory that holds nothing of a node.
var ErrNothing = errors.New("oncemq: this is no data directory of a node")

// Inspect looks into the data directory of a node that isn't running, and changes nothing in it. What is damaged is no error, but
// described in what it returns. Errors: ErrNothing, ErrLocked, and those of a directory that can't be listed.
func Inspect(opts InspectOptions) (*Inspection, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if info, err := opts.FS.Stat(opts.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s isn't a directory that can be read", ErrNothing, opts.Dir)
	}
	x := &Inspection{Path: opts.Dir, Base: opts.Dir, Log: &LogInspection{}, State: &StateInspection{}}
	if !opts.Locked {
		lock, err := lockShared(opts.FS, opts.Dir)
		if err != nil {
			return nil, err
		}
		x.lock = lock
	}
	if err := x.inspect(readOnly{opts.FS}, opts); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close closes the files that the pieces of the log are read from, and lets a node start.
func (x *Inspection) Close() error {
	x.Log.close()
	if x.lock == nil {
		return nil
	}
	return x.lock.Close()
}

func (x *Inspection) inspect(files FS, opts InspectOptions) error {
	empty, err := Empty(files, x.Path)
	if err != nil {
		return fmt.Errorf("looking into %s: %w", x.Path, err)
	}
	names, err := files.List(x.Path)
	if err != nil {
		return fmt.Errorf("listing %s: %w", x.Path, err)
	}
	slices.Sort(names)
	if empty && !slices.ContainsFunc(names, func(name string) bool { _, ok := parseGenerationName(name); return ok }) {
		return fmt.Errorf("%w: there is no stamp, no log and no state in %s", ErrNothing, x.Path)
	}
	d := &Dir{fs: files, path: x.Path}
	stamp, key, err := readStamp(files, d.Path(stampName))
	if err != nil {
		x.damage(PartStamp, d.Path(stampName), err)
		x.unstamped(files, opts)
		return nil
	}
	d.stamp, d.key, d.draw = stamp, key, func() uint64 { return 0 }
	x.Stamp, x.StampRead, x.Generation, x.Base = stamp, true, stamp.generation, d.base()
	if _, err := files.Stat(x.Base); err != nil {
		x.add(Damage{Part: PartLog, Path: x.Base, What: "the generation of log and state that the stamp names isn't there"})
	} else {
		x.Log = inspectLog(d, opts.Group)
	}
	x.Damage = append(x.Damage, x.Log.Damage...)
	if opts.LogOnly {
		return nil
	}
	x.voters(d)
	x.State = inspectState(files, files.PathJoin(x.Base, stateName), opts)
	x.Damage = append(x.Damage, x.State.Damage...)
	x.bounds()
	x.notes(d, names)
	return nil
}

// unstamped looks at what can be judged without the stamp: the tables have checksums without a key.
func (x *Inspection) unstamped(files FS, opts InspectOptions) {
	if opts.LogOnly {
		return
	}
	x.Notes = append(x.Notes, "without the stamp it can't be told which log and state count, nor whether the log is sound: its checksums hang on the key in the stamp")
	path := files.PathJoin(x.Path, stateName)
	if _, err := files.Stat(path); err == nil {
		x.State = inspectState(files, path, opts)
		x.Damage = append(x.Damage, x.State.Damage...)
	}
}

func (x *Inspection) add(d Damage) { x.Damage = append(x.Damage, d) }

// damage adds what an error says.
func (x *Inspection) damage(part Part, path string, err error) {
	x.add(Damage{Part: part, Path: path, What: plain(err), Newer: errors.Is(err, ErrVersion)})
}

// plain is an error's text without the words of the error that it wraps, and without what to do: others say that.
func plain(err error) string {
	text := err.Error()
	for _, known := range []error{ErrCorrupt, ErrVersion, ErrForeign, ErrFetched} {
		text = strings.TrimPrefix(text, known.Error()+": ")
	}
	text, _, _ = strings.Cut(text, "\n") // Pebble's details
	text, _, _ = strings.Cut(text, "; ")
	return text
}

// voters looks at the list of nodes.
func (x *Inspection) voters(d *Dir) {
	voters, err := d.Voters()
	x.Voters = voters
	switch path := d.Path(votersName); {
	case err != nil:
		x.damage(PartVoters, path, err)
	case voters == nil && x.Stamp.Cluster != [16]byte{}:
		x.add(Damage{Part: PartVoters, Path: path, What: "the stamp names a cluster, but the list of its nodes is missing"})
	}
}

// bounds compares log and state, each of which must be sound.
func (x *Inspection) bounds() {
	if len(x.Damage) > 0 || x.Log.newest() == nil {
		return
	}
	if _, err := Begin(beginLog{x.Log}, beginState{x.State}); err != nil {
		x.damage(PartBounds, x.Base, err)
	}
}

// beginLog and beginState are what Begin wants.
type (
	beginLog   struct{ *LogInspection }
	beginState struct{ *StateInspection }
)

func (l beginLog) HardState() HardState { return l.State }
func (l beginLog) FirstIndex() uint64   { return l.newest().First() }
func (l beginLog) LastIndex() uint64    { return l.newest().Last() }
func (l beginLog) Path() string         { return l.LogInspection.Path }

func (s beginState) AppliedIndex() uint64 { return s.Applied }
func (s beginState) Path() string         { return s.StateInspection.Path }

// notes looks at what lies beside log and state.
func (x *Inspection) notes(d *Dir, names []string) {
	if x.Stamp.damage != 0 {
		x.Notes = append(x.Notes, stampName+": an earlier start has found damage and marked the directory; the node takes no part until it has recovered from the others")
	}
	for _, name := range names {
		n, ok := parseGenerationName(name)
		switch {
		case name == fetchName:
			x.Notes = append(x.Notes, d.fetchNote())
		case name == mendName:
			x.Notes = append(x.Notes, name+": entries that were fetched from other nodes, with which the node mends its log")
		case name == checkpointName:
			x.Notes = append(x.Notes, name+": copies of the state that were offered to other nodes; the next start removes them")
		case ok && n != x.Generation, x.Generation != 0 && (name == logName || name == stateName):
			x.Notes = append(x.Notes, name+": of a generation that isn't in use; the next start removes it")
		case strings.HasSuffix(name, ".tmp"):
			x.Notes = append(x.Notes, name+": a file whose writing was broken off; it is written over")
		}
	}
}

// fetchNote says how far the fetch of a checkpoint has come.
func (d *Dir) fetchNote() string {
	for _, name := range []string{completeName, manifestName} {
		b, err := readFile(d.fs, d.fs.PathJoin(d.Path(fetchName), name), MaxManifestBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var m Manifest
		if err == nil {
			m, err = DecodeManifest(b)
		}
		if err != nil {
			break
		}
		if name == completeName {
			return fmt.Sprintf("%s: a checkpoint of entry %d, whole; the next start installs it, unless the log has that entry", fetchName, m.Index)
		}
		have := int64(0)
		for i := range m.Files {
			if info, err := d.fs.Stat(d.fetched(&m.Files[i])); err == nil {
				have += info.Size()
			}
		}
		return fmt.Sprintf("%s: a checkpoint of entry %d, of which %d of %d bytes were fetched; the node goes on with it", fetchName, m.Index, have, m.Bytes())
	}
	return fetchName + ": what is left of the fetch of a checkpoint; the node removes it"
}
