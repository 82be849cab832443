package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

// confirmedName is the file beside a checkpoint that is fetched, with what a leader has confirmed about it.
const confirmedName = "CONFIRMED"

const (
	confirmedMagic = 0x0A314D46434D514F // "OQMCFM1\n"
	confirmedBytes = 44
)

// Confirmed is what makes up for a lost promise. The leader of Term has heard from a majority that doesn't count this node, after
// this node had said that it doesn't know any more what it promised; and the checkpoint goes at least as far as the leader's
// log went at that moment. So every entry that this node has ever acknowledged and that counts is in it. And it can't have voted in a
// later term for anybody who could still be elected: he would have been in that term before, and so would have been one of
// the majority, which then would have refused. With the vote for that leader nobody gets a second one.
type Confirmed struct {
	// ID is the checkpoint's.
	ID [16]byte
	// Term and Leader are of the leader that confirmed it.
	Term, Leader uint64
}

func (c *Confirmed) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, confirmedBytes)
	le.PutUint64(b, confirmedMagic)
	copy(b[12:28], c.ID[:])
	le.PutUint64(b[28:], c.Term)
	le.PutUint64(b[36:], c.Leader)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func decodeConfirmed(b []byte) (c Confirmed, ok bool) {
	le := binary.LittleEndian
	if len(b) != confirmedBytes || le.Uint64(b) != confirmedMagic || le.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return c, false
	}
	c = Confirmed{ID: [16]byte(b[12:28]), Term: le.Uint64(b[28:]), Leader: le.Uint64(b[36:])}
	return c, c.Term > 0 && c.Leader > 0
}

// Confirm notes, synced, what a leader has confirmed about the checkpoint that is fetched. Call it before Finish.
func (f *Fetch) Confirm(c Confirmed) error {
	if c.ID != f.Manifest.ID || c.Term < f.Manifest.Term {
		return fmt.Errorf("%w: its last entry is of term %d, and the leader of term %d confirmed it", ErrFetched, f.Manifest.Term, c.Term)
	}
	return replaceFile(f.dir.fs, f.path, confirmedName, c.encode())
}

// Confirmed is what a leader has confirmed about the checkpoint that is or was being fetched, and that checkpoint's manifest; ok is
// false where there is none. A restart goes on with it.
func (d *Dir) Confirmed() (c Confirmed, m Manifest, ok bool) {
	path := d.Path(fetchName)
	b, err := readFile(d.fs, d.fs.PathJoin(path, confirmedName), confirmedBytes)
	if err != nil {
		return c, m, false
	}
	if c, ok = decodeConfirmed(b); !ok {
		return c, m, false
	}
	for _, name := range []string{completeName, manifestName} {
		b, err := readFile(d.fs, d.fs.PathJoin(path, name), MaxManifestBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, m, false
		}
		m, err = DecodeManifest(b)
		return c, m, err == nil && m.ID == c.ID && m.Term <= c.Term
	}
	return c, m, false
}
