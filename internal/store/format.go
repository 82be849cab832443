package store

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/oncemq/oncemq/internal/mutant"
)

// The bytes of the log, drawn in docs/format/log.md. All integers are little-endian.
const (
	logVersion = 1
	blockBytes = 4096 // batches begin and end at multiples of it

	segmentMagic = 0x0A31474F4C514D4F // "OMQLOG1\n"
	batchMagic   = 0x42514D4F         // "OMQB"

	segmentHeaderBytes = 104
	batchHeaderBytes   = 48
	recordHeaderBytes  = 32
)

// The kinds of records.
const (
	kindEntry = 1
	kindState = 2 // hard state: term = Term, index = Commit, data = Vote
	kindBase  = 3 // what follows comes after (index, term): first in every segment, and where a suffix is replaced
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is a place in the log: a segment's number and an offset in its file.
type position struct {
	seq    uint64
	offset uint32
}

func (p position) after(q position) bool {
	return p.seq > q.seq || p.seq == q.seq && p.offset > q.offset
}

// salt is what the checksums of a segment begin with. The directory's random key keeps a client from forging records in
// the body of a message, the segment's number keeps the old records of a recycled segment from validating.
func salt(key, seq uint64) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[0:], key)
	binary.LittleEndian.PutUint64(b[8:], seq)
	return crc32.Checksum(b[:], castagnoli)
}

// segmentHeader is the first block of a segment, written together with its first batch.
type segmentHeader struct {
	version uint32
	seq     uint64
	cluster [16]byte
	node    uint64
	history uint16
	first   uint64   // index of the first entry to come, for people who look at the file
	prevEnd position // where the segment before ended
	prevCRC uint32   // checksum of the last batch header before this segment, 0 for none
	mark    position // known synced when this was written
	nonce   uint64   // random: a file that is begun twice has another checksum here, and so other batches

	crc uint32 // of all this; the first batch names it
}

func (h *segmentHeader) encode(b []byte) {
	le := binary.LittleEndian
	clear(b[:segmentHeaderBytes])
	le.PutUint64(b[0:], segmentMagic)
	le.PutUint32(b[12:], h.version)
	le.PutUint64(b[16:], h.seq)
	copy(b[24:40], h.cluster[:])
	le.PutUint64(b[40:], h.node)
	le.PutUint16(b[48:], h.history)
	le.PutUint64(b[56:], h.first)
	le.PutUint64(b[64:], h.prevEnd.seq)
	le.PutUint32(b[72:], h.prevEnd.offset)
	le.PutUint32(b[76:], h.prevCRC)
	le.PutUint64(b[80:], h.mark.seq)
	le.PutUint32(b[88:], h.mark.offset)
	le.PutUint64(b[96:], h.nonce)
	h.crc = crc32.Checksum(b[12:segmentHeaderBytes], castagnoli)
	le.PutUint32(b[8:], h.crc)
}

// decode reports whether b begins with a header that is whole. Its checksum is not salted, so that the header of another
// node's, an older or a newer segment can be told from damage.
func (h *segmentHeader) decode(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < segmentHeaderBytes || le.Uint64(b) != segmentMagic ||
		le.Uint32(b[8:]) != crc32.Checksum(b[12:segmentHeaderBytes], castagnoli) {
		return false
	}
	*h = segmentHeader{
		version: le.Uint32(b[12:]), seq: le.Uint64(b[16:]), cluster: [16]byte(b[24:40]), node: le.Uint64(b[40:]),
		history: le.Uint16(b[48:]), first: le.Uint64(b[56:]),
		prevEnd: position{le.Uint64(b[64:]), le.Uint32(b[72:])}, prevCRC: le.Uint32(b[76:]),
		mark: position{le.Uint64(b[80:]), le.Uint32(b[88:])}, nonce: le.Uint64(b[96:]), crc: le.Uint32(b[8:]),
	}
	return true
}

// batchHeader begins a batch: what one Append wrote, at a multiple of blockBytes.
type batchHeader struct {
	crc     uint32
	mark    position // known synced when the batch was written
	length  uint32   // of the records behind this header
	records uint32
	sum     uint32 // checksum of the records' checksums
	prev    uint32 // checksum of the batch header before, of the segment's header in its first batch
}

// encode fills the header in and returns its checksum.
func (h *batchHeader) encode(b []byte, seq uint64, salt uint32) uint32 {
	le := binary.LittleEndian
	le.PutUint32(b[0:], batchMagic)
	le.PutUint64(b[8:], seq)
	le.PutUint64(b[16:], h.mark.seq)
	le.PutUint32(b[24:], h.mark.offset)
	le.PutUint32(b[28:], h.length)
	le.PutUint32(b[32:], h.records)
	le.PutUint32(b[36:], h.sum)
	le.PutUint32(b[40:], h.prev)
	le.PutUint32(b[44:], 0)
	h.crc = crc32.Update(salt, castagnoli, b[8:batchHeaderBytes])
	le.PutUint32(b[4:], h.crc)
	return h.crc
}

// decode reports whether b begins with a batch header of this segment.
func (h *batchHeader) decode(b []byte, seq uint64, salt uint32) bool {
	le := binary.LittleEndian
	if len(b) < batchHeaderBytes || le.Uint32(b) != batchMagic || le.Uint64(b[8:]) != seq {
		return false
	}
	*h = batchHeader{
		crc: le.Uint32(b[4:]), mark: position{le.Uint64(b[16:]), le.Uint32(b[24:])},
		length: le.Uint32(b[28:]), records: le.Uint32(b[32:]), sum: le.Uint32(b[36:]), prev: le.Uint32(b[40:]),
	}
	return h.crc == crc32.Update(salt, castagnoli, b[8:batchHeaderBytes])
}

// record is one record; data aliases what it was decoded from.
type record struct {
	crc         uint32
	kind, typ   uint8
	group       uint16
	index, term uint64
	data        []byte
}

// appendRecord encodes a record behind b.
func appendRecord(b []byte, r *record, salt uint32) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = append(b, make([]byte, recordHeaderBytes)...)
	h := b[start:]
	le.PutUint32(h[4:], uint32(len(r.data)))
	h[8], h[9] = r.kind, r.typ
	le.PutUint16(h[10:], r.group)
	le.PutUint64(h[16:], r.index)
	le.PutUint64(h[24:], r.term)
	b = append(b, r.data...)
	r.crc = crc32.Update(salt, castagnoli, b[start+4:])
	le.PutUint32(b[start:], r.crc)
	return b
}

// recordBytes is the length of the record that b begins with, header included; 0 where b is too short for a header.
func recordBytes(b []byte) int64 {
	if len(b) < recordHeaderBytes {
		return 0
	}
	return recordHeaderBytes + int64(binary.LittleEndian.Uint32(b[4:]))
}

// decode reads the record that b begins with and returns its length; 0 where there is none that is whole.
func (r *record) decode(b []byte, salt uint32) int {
	n := recordBytes(b)
	if n == 0 || n > int64(len(b)) {
		return 0
	}
	le := binary.LittleEndian
	*r = record{
		crc: le.Uint32(b), kind: b[8], typ: b[9], group: le.Uint16(b[10:]), index: le.Uint64(b[16:]), term: le.Uint64(b[24:]),
		data: b[recordHeaderBytes:n:n],
	}
	if r.crc != crc32.Update(salt, castagnoli, b[4:n]) && !mutant.On(mutant.RecordUnchecked) {
		return 0
	}
	return int(n)
}

// decodeRecords calls fn with each record of a batch's body and its offset in it. It reports whether the body is whole: as
// many records as the header says, each with its checksum, and nothing behind them. fn is called before that is known;
// pass nil to check first.
func (h *batchHeader) decodeRecords(body []byte, salt uint32, fn func(r *record, offset int)) bool {
	var r record
	var sum uint32
	offset := 0
	for range h.records {
		n := r.decode(body[offset:], salt)
		if n == 0 {
			return false
		}
		sum = crc32.Update(sum, castagnoli, body[offset:offset+4])
		if fn != nil {
			fn(&r, offset)
		}
		offset += n
	}
	return offset == len(body) && sum == h.sum
}

// roundUp rounds n up to whole blocks.
func roundUp(n int64) int64 { return (n + blockBytes - 1) &^ (blockBytes - 1) }
