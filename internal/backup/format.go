package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// The errors of this package, wrapped with where and what.
var (
	// ErrDamaged: the stream is not what was written: cut off, changed, or no backup at all.
	ErrDamaged = errors.New("oncemq: the backup is damaged or cut off")
	// ErrVersion: the stream was written by a newer version.
	ErrVersion = errors.New("oncemq: the backup was written by a newer version")
)

const (
	magic         = 0x0A31504B42514D4F // "OMQBKP1\n"
	formatVersion = 1
	headerBytes   = 64

	blockHead = 16
	// dataBytes is the most of a file that one block has.
	dataBytes = 256 << 10
)

// The kinds of blocks.
const (
	blockManifest = 1 + iota // what comes; the first block, and only that
	blockData                // the next bytes of the file at hand
	blockFileEnd             // its xxHash64
	blockEnd                 // number of blocks before, xxHash64 of all bytes before
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Info is what a backup says of itself.
type Info struct {
	// ID is random: no two backups have the same.
	ID [16]byte
	// Made is when it was made, by the clock of the node that made it.
	Made time.Time
	// Manifest is of the state in it. The checksums in it are zeros: each stands behind its file.
	Manifest store.Manifest
	// Bytes is the length of the stream, known at its end.
	Bytes int64
}

func (i *Info) header() []byte {
	b := make([]byte, headerBytes)
	le := binary.LittleEndian
	le.PutUint64(b, magic)
	le.PutUint32(b[12:], formatVersion)
	copy(b[16:], i.ID[:])
	le.PutUint64(b[32:], uint64(i.Made.UnixMilli()))
	le.PutUint32(b[8:], crc(b[12:]))
	return b
}

// decodeHeader reads what header made.
func decodeHeader(b []byte) (i Info, err error) {
	le := binary.LittleEndian
	if le.Uint64(b) != magic {
		return i, fmt.Errorf("%w: it doesn't begin as a backup does", ErrDamaged)
	}
	if le.Uint32(b[8:]) != crc(b[12:headerBytes]) {
		return i, fmt.Errorf("%w: the checksum of its header is wrong", ErrDamaged)
	}
	if v := le.Uint32(b[12:]); v != formatVersion {
		return i, fmt.Errorf("%w: its format is %d, this program knows %d; run a newer version", ErrVersion, v, formatVersion)
	}
	i.ID, i.Made = [16]byte(b[16:]), time.UnixMilli(int64(le.Uint64(b[32:])))
	return i, nil
}

// salt begins the crc of a block: a block of another backup, or at another place, is a damaged one.
func salt(id [16]byte, number uint64) uint32 {
	var b [24]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint64(b[16:], number)
	return crc(b[:])
}

// seal fills in the head of a block, whose data stands behind it.
func seal(b []byte, kind byte, id [16]byte, number uint64) {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(b)-blockHead))
	clear(b[8:blockHead])
	b[8] = kind
	le.PutUint32(b, crc32.Update(salt(id, number), castagnoli, b[4:]))
}

// limit is the most data that a block of a kind has; 0: there is no such kind.
func limit(kind byte) int {
	switch kind {
	case blockManifest:
		return store.MaxManifestBytes
	case blockData:
		return dataBytes
	case blockFileEnd:
		return 8
	case blockEnd:
		return 16
	}
	return 0
}
