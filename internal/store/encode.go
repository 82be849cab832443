package store

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
)

// encode puts into l.buf what is to be written for an append, whole blocks: the segment's header where begin is set, and
// the batch. l.starts gets the offsets in l.buf at which the entries' records begin.
func (l *Log) encode(seg *segment, a Append, state HardState, begin bool) {
	l.buf, l.starts = l.buf[:0], l.starts[:0]
	before := l.lastIndex()
	if len(a.Entries) > 0 {
		before = a.Entries[0].Index - 1
	}
	h := batchHeader{mark: l.mark, prev: l.prev}
	if begin {
		h.prev = l.encodeSegmentHeader(seg, before+1)
	}
	start := len(l.buf)
	l.buf = append(l.buf, make([]byte, batchHeaderBytes)...)
	add := func(r record) {
		at := len(l.buf)
		r.group = a.Group
		l.buf = appendRecord(l.buf, &r, seg.salt)
		h.sum = crc32.Update(h.sum, castagnoli, l.buf[at:at+4])
		h.records++
	}
	if begin || before < l.lastIndex() {
		add(record{kind: kindBase, index: before, term: l.termOf(before)})
	}
	if begin || state != l.written {
		binary.LittleEndian.PutUint64(l.vote[:], state.Vote)
		add(record{kind: kindState, term: state.Term, index: state.Commit, data: l.vote[:]})
	}
	for i := range a.Entries {
		e := &a.Entries[i]
		l.starts = append(l.starts, uint32(len(l.buf)))
		add(record{kind: kindEntry, typ: e.Type, index: e.Index, term: e.Term, data: e.Data})
	}
	h.length = uint32(len(l.buf) - start - batchHeaderBytes)
	h.encode(l.buf[start:], seg.seq, seg.salt)
	l.pad()
}

// encodeSegmentHeader begins l.buf with a segment's first block and returns the header's checksum.
func (l *Log) encodeSegmentHeader(seg *segment, first uint64) uint32 {
	stamp := l.dir.Stamp()
	h := segmentHeader{
		version: logVersion, seq: seg.seq, cluster: stamp.Cluster, node: stamp.Node, history: stamp.History,
		first: first, prevCRC: l.prev, mark: l.mark, nonce: l.dir.draw(),
	}
	if n := len(l.live); n > 0 {
		h.prevEnd = position{l.live[n-1].seq, uint32(l.live[n-1].end)}
	}
	l.buf = append(l.buf, make([]byte, segmentHeaderBytes)...)
	h.encode(l.buf)
	l.pad()
	return h.crc
}

// random64 is a number that nobody can foresee.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// pad fills l.buf up to a whole block. Whole blocks mean that no synced block is ever written again, and that the
// operating system need not read a recycled block in order to change a part of it.
func (l *Log) pad() {
	n := int(roundUp(int64(len(l.buf)))) - len(l.buf)
	l.buf = append(l.buf, zeros[:n]...)
}

// batchCRC is the checksum of the batch header in what encode made.
func batchCRC(buf []byte, begin bool) uint32 {
	if begin {
		buf = buf[blockBytes:]
	}
	return binary.LittleEndian.Uint32(buf[4:])
}
