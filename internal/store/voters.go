package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
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

// Voters are the ids that SetVoters wrote, ascending; nil before. A list that can't be read is ErrCorrupt.
func (d *Dir) Voters() ([]uint64, error) {
	path := d.fs.PathJoin(d.base(), votersName) // of a cluster that began with this generation
	f, err := d.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = d.Path(votersName)
		f, err = d.fs.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}
	voters, ok := decodeVoters(b)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not a list of nodes with the right checksum; copy it from another node of the cluster", ErrCorrupt, path)
	}
	return voters, nil
}

// SetVoters writes the ids of the cluster's nodes, ascending, atomically and synced. Write them before SetCluster.
func (d *Dir) SetVoters(voters []uint64) error {
	return replaceFile(d.fs, d.path, votersName, encodeVoters(voters))
}

// encodeVoters is one id a line, and a line with the checksum of those before it.
func encodeVoters(voters []uint64) []byte {
	var b []byte
	for _, v := range voters {
		b = append(strconv.AppendUint(b, v, 10), '\n')
	}
	return seal(b)
}

func decodeVoters(b []byte) (voters []uint64, ok bool) {
	lines, ok := unseal(b)
	for _, line := range lines {
		v, err := strconv.ParseUint(line, 10, 64)
		if err != nil || len(voters) > 0 && v <= voters[len(voters)-1] {
			return nil, false
		}
		voters = append(voters, v)
	}
	return voters, ok && len(voters) > 0 && bytes.Equal(encodeVoters(voters), b)
}
