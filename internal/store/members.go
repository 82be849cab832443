package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// membersName is the file that says where the members of the cluster are found, as this node knew last.
const membersName = "MEMBERS"

const (
	maxMembersBytes = 64 << 10
	// maxLineBytes bounds an address in the file.
	maxLineBytes = 255
)

// Members are the nodes' peer addresses that SetMembers wrote, by id; nil before. They are a help for the start alone: what the
// state says overrides them, so a file that can't be read is no damage but a file without a word (nil, and an error to be logged).
func (d *Dir) Members() (map[uint64]string, error) {
	path := d.Path(membersName)
	b, err := readFile(d.fs, path, maxMembersBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	members, ok := decodeMembers(b)
	if !ok {
		return nil, fmt.Errorf("%s is not a list of nodes and addresses with the right checksum; it is passed over, and written anew when this node hears of the others", path)
	}
	return members, nil
}

// SetMembers writes where the members are found, atomically and synced. Who joins a cluster writes it before SetCluster, beside
// the founding voters.
func (d *Dir) SetMembers(members map[uint64]string) error {
	for id, address := range members {
		if id == 0 || len(address) > maxLineBytes || strings.ContainsAny(address, "\n ") {
			return fmt.Errorf("node %d can't have the address %q", id, address)
		}
	}
	return replaceFile(d.fs, d.path, membersName, encodeMembers(members))
}

// encodeMembers is a line with id and address for each, ascending, and a line with the checksum of those before it.
func encodeMembers(members map[uint64]string) []byte {
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(members)) {
		b = fmt.Appendf(b, "%d %s\n", id, members[id])
	}
	return seal(b)
}

func decodeMembers(b []byte) (members map[uint64]string, ok bool) {
	members = map[uint64]string{}
	lines, ok := unseal(b)
	for _, line := range lines {
		number, address, _ := strings.Cut(line, " ")
		id, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, false
		}
		members[id] = address
	}
	return members, ok && bytes.Equal(encodeMembers(members), b)
}
