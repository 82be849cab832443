package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// badStampName is where a stamp goes that can't be read and was made anew.
const badStampName = "STAMP.damaged"

// rebirth makes the stamp anew where it is gone or damaged, from what the headers of the log's segments say: they name the cluster
// and the node, in the clear. The log itself can't be read without the key that the old stamp had, so the directory is marked as one whose
// promise is gone. why is what is wrong with the stamp, and comes back where no segment says whose the directory is.
func (d *Dir) rebirth(opts Options, why error) (Stamp, uint64, error) {
	s := Stamp{SafetyOff: opts.SafetyOff, hasLog: true, damage: LostPromise}
	h, generation, err := d.newestHeader()
	if err != nil {
		return s, 0, errors.Join(why, err)
	}
	if h == nil || h.cluster == [16]byte{} {
		return s, 0, why
	}
	s.Cluster, s.Node, s.History, s.generation = h.cluster, h.node, h.history, generation
	if err := s.check(d.path, opts); err != nil {
		return s, 0, err
	}
	if _, err := d.fs.Stat(d.Path(stampName)); err == nil {
		if err := d.fs.Rename(d.Path(stampName), d.Path(badStampName)); err != nil {
			return s, 0, fmt.Errorf("%w: renaming %s: %w", ErrDisk, d.Path(stampName), err)
		}
	}
	if err := replaceFile(d.fs, d.path, whyName, fmt.Appendf(nil, "%v\n", why)); err != nil {
		return s, 0, err
	}
	key := d.draw()
	return s, key, writeStamp(d.fs, d.path, s, key)
}

// WhoseLog is whose a directory is by what its log says of itself: a stamp that is gone or damaged is made anew from that (Options.Recover). false: the
// log doesn't say. It writes nothing and locks nothing. A nil file system is the operating system's.
func WhoseLog(files FS, dir string) (Stamp, bool, error) {
	d := unopened(files, dir)
	h, _, err := d.newestHeader()
	if err != nil || h == nil || h.cluster == [16]byte{} {
		return Stamp{}, false, err
	}
	return Stamp{Cluster: h.cluster, Node: h.node, History: h.history}, true, nil
}

// KnowsOthers says that a directory names other nodes than this one, among the members or the founding voters, whatever its stamp is like.
func KnowsOthers(files FS, dir string, node uint64) bool {
	d := unopened(files, dir)
	members, _ := d.Members() // a file that can't be read names nobody
	voters, _ := d.Voters()
	ids := slices.AppendSeq(voters, maps.Keys(members))
	return slices.ContainsFunc(ids, func(id uint64) bool { return id != node })
}

// unopened is a directory to be looked into.
func unopened(files FS, dir string) *Dir {
	if files == nil {
		files = vfs.Default
	}
	return &Dir{fs: files, path: dir}
}

// newestHeader is the header of the segment that was begun last, and the newest generation that there is; nil where no segment
// has one.
func (d *Dir) newestHeader() (newest *segmentHeader, generation uint32, err error) {
	logs, err := d.logs()
	if err != nil {
		return nil, 0, err
	}
	for n, segments := range logs {
		generation = max(generation, n)
		for _, path := range segments {
			h, err := readHeader(d.fs, path)
			if err != nil {
				return nil, 0, err
			}
			if h != nil && (newest == nil || h.seq > newest.seq) {
				newest = h
			}
		}
	}
	return newest, generation, nil
}

// logs lists the segments of every generation that there is.
func (d *Dir) logs() (map[uint32][]string, error) {
	names, err := d.fs.List(d.path)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", d.path, err)
	}
	logs := map[uint32][]string{}
	for _, name := range names {
		n, ok := parseGenerationName(name)
		if !ok && name != logName {
			continue
		}
		dir := d.fs.PathJoin(d.generation(n), logName)
		files, err := d.fs.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		logs[n] = nil
		for _, file := range files {
			if _, ok := parseSegmentName(file); ok {
				logs[n] = append(logs[n], d.fs.PathJoin(dir, file))
			}
		}
	}
	return logs, nil
}

// nextSeqOfAll is a number above those of all segments that there are.
func (d *Dir) nextSeqOfAll() (seq uint64, err error) {
	logs, err := d.logs()
	for _, segments := range logs {
		for _, path := range segments {
			n, _ := parseSegmentName(d.fs.PathBase(path))
			seq = max(seq, n)
		}
	}
	return seq + 1, err
}

// readHeader reads a segment's header, whosever it is; nil where there is none that is whole, or it can't be read.
func readHeader(files FS, path string) (*segmentHeader, error) {
	f, err := files.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	var b [segmentHeaderBytes]byte
	var h segmentHeader
	if _, err := io.ReadFull(f, b[:]); err != nil || !h.decode(b[:]) || h.version > logVersion {
		return nil, nil
	}
	return &h, nil
}
