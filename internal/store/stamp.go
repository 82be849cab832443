package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Stamp says whose a directory is. docs/format/log.md draws the file.
type Stamp struct {
	// Cluster is the id of the cluster, zero until it is known (Options.Cluster, Dir.SetCluster).
	Cluster [16]byte
	// Node is the node's raft id.
	Node uint64
	// History counts restores and forced recoveries (C1), 0 at first.
	History uint16
	// SafetyOff is the mark of a directory in which nothing is synced.
	SafetyOff bool

	hasLog     bool   // a log was begun: from then on its absence is damage
	generation uint32 // which log and state count
	damage     Loss   // 0: whole
}

const (
	stampVersion = 4                  // of a stamp with LostLog; 3 with other damage, 2 with a generation above 0, 1 with neither
	stampMagic   = 0x31504D5453514D4F // "OMQSTMP1"
	stampBytes   = 64
)

// check compares the stamp with what the opener is.
func (s Stamp) check(dir string, opts Options) error {
	if s.Node != opts.Node {
		return fmt.Errorf("%w: %s belongs to node %d, this is node %d; check --data and --node", ErrForeign, dir, s.Node, opts.Node)
	}
	if s.Cluster != [16]byte{} && opts.Cluster != [16]byte{} && s.Cluster != opts.Cluster {
		return fmt.Errorf("%w: %s belongs to cluster %x, this is cluster %x; check --data and --peers, or use an empty directory",
			ErrForeign, dir, s.Cluster, opts.Cluster)
	}
	if s.SafetyOff && !opts.SafetyOff {
		return fmt.Errorf("%w: %s was made with safety off, so what it holds was never safe; use an empty directory", ErrSafety, dir)
	}
	if opts.SafetyOff && !s.SafetyOff {
		return fmt.Errorf("%w: %s holds safe data; --safety off needs an empty directory", ErrSafety, dir)
	}
	return nil
}

func (s Stamp) encode(key uint64) []byte {
	b := make([]byte, stampBytes)
	le := binary.LittleEndian
	le.PutUint64(b[0:], stampMagic)
	le.PutUint32(b[12:], 1)
	copy(b[16:32], s.Cluster[:])
	le.PutUint64(b[32:], s.Node)
	le.PutUint64(b[40:], key)
	le.PutUint16(b[48:], s.History)
	if s.SafetyOff {
		b[50] = 1
	}
	if s.hasLog {
		b[51] = 1
	}
	if s.generation > 0 {
		le.PutUint32(b[12:], 2) // a program that knows no generations would look for the log elsewhere
		le.PutUint32(b[52:], s.generation)
	}
	if s.damage != 0 {
		le.PutUint32(b[12:], 3) // one that knows no damage would vote
		if s.damage&LostLog != 0 {
			le.PutUint32(b[12:], stampVersion) // and one that doesn't know this kind
		}
		b[56] = byte(s.damage)
	}
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

// StampOf is the stamp of a data directory that needn't be opened for it, in fs (nil: the operating system's). Errors as Open's.
func StampOf(files FS, dir string) (Stamp, error) {
	if files == nil {
		files = vfs.Default
	}
	s, _, err := readStamp(files, files.PathJoin(dir, stampName))
	return s, err
}

// readStamp reads the stamp file and checks that it can be understood.
func readStamp(files FS, path string) (Stamp, uint64, error) {
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, 0, fmt.Errorf("%w: there is a log or a state but no %s; it can't be told whose they are: put the file back, or start this node anew with an empty directory", ErrCorrupt, path)
	}
	if err != nil {
		return Stamp{}, 0, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	var b [stampBytes + 1]byte
	n, err := io.ReadFull(f, b[:])
	if err != nil && !isEOF(err) {
		return Stamp{}, 0, fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}
	return decodeStamp(b[:n], path)
}

// decodeStamp decodes the bytes of a stamp file; path is for the messages.
func decodeStamp(b []byte, path string) (Stamp, uint64, error) {
	le := binary.LittleEndian
	damaged := fmt.Errorf("%w: %s can't be read (%d bytes, bad checksum or length); put the file back from a copy, or start this node anew with an empty directory",
		ErrCorrupt, path, len(b))
	if len(b) < 16 || le.Uint64(b) != stampMagic || le.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return Stamp{}, 0, damaged
	}
	if v := le.Uint32(b[12:]); v > stampVersion {
		return Stamp{}, 0, fmt.Errorf("%w: %s has format %d, this program knows %d; run a newer version", ErrVersion, path, v, stampVersion)
	}
	if len(b) != stampBytes {
		return Stamp{}, 0, damaged
	}
	s := Stamp{Cluster: [16]byte(b[16:32]), Node: le.Uint64(b[32:]), History: le.Uint16(b[48:]), SafetyOff: b[50] == 1, hasLog: b[51] == 1}
	s.generation, s.damage = le.Uint32(b[52:]), Loss(b[56])&allLoss
	return s, le.Uint64(b[40:]), nil
}

// writeStamp replaces the stamp file.
func writeStamp(files FS, dir string, s Stamp, key uint64) error {
	return replaceFile(files, dir, stampName, s.encode(key))
}

// isEOF reports the end of a file, reached early or exactly.
func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
