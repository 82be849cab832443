package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// votersName is the file that lists the ids of the nodes that the cluster was founded with.
const votersName = "VOTERS"

// Birth is an id drawn when the directory was made; it tells a directory from the emptied one in its place [8.2].
func (d *Dir) Birth() (birth [16]byte) {
	var b [16]byte
	copy(b[:], "birth of")
	binary.LittleEndian.PutUint64(b[8:], d.key)
	sum := sha256.Sum256(b[:])
	copy(birth[:], sum[:])
	return birth
}

// Voters are the ids that SetVoters wrote, ascending; nil before.
func (d *Dir) Voters() ([]uint64, error) {
	path := d.Path(votersName)
	f, err := d.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if err != nil && !isEOF(err) {
		return nil, fmt.Errorf("%w: reading %s: %v", ErrCorrupt, path, err)
	}
	var voters []uint64
	for _, field := range strings.Fields(string(b[:n])) {
		v, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s holds %q, not a node's id", ErrCorrupt, path, field)
		}
		voters = append(voters, v)
	}
	if len(voters) == 0 || !slices.IsSorted(voters) {
		return nil, fmt.Errorf("%w: %s names no nodes", ErrCorrupt, path)
	}
	return voters, nil
}

// SetVoters writes the ids of the cluster's nodes, ascending, atomically and synced. Write them before SetCluster.
func (d *Dir) SetVoters(voters []uint64) error {
	path := d.Path(votersName)
	var text []byte
	for _, v := range voters {
		text = strconv.AppendUint(text, v, 10)
		text = append(text, '\n')
	}
	f, err := d.fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(text)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = d.fs.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(d.fs, d.path)
	}
	if err != nil {
		return fmt.Errorf("%w: writing %s: %v", ErrDisk, path, err)
	}
	return nil
}
