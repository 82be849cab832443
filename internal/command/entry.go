package command

import "fmt"

// entryVersion is the first byte of every entry. Another one stops the node.
const entryVersion = 1

// Record is what travels from a home to the leader and stands in an entry: commands
// of one node's epoch under one number of its unbroken sequence [1.1]. A system
// record has Node, Epoch and Number 0 and is made by the leader (NodeUp, NodeDown,
// Tick, ClusterInit, Digest).
type Record struct {
	Node   NodeID
	Epoch  Epoch
	Number uint64 // 1 and up, unbroken within the epoch
	Body   []byte // a run of commands, see Append and Decoder
}

// AppendRecord adds r's encoding to dst; the same bytes stand in an entry and on
// the stream from home to leader.
func AppendRecord(dst []byte, r Record) []byte {
	dst = appendUint(dst, uint64(r.Node))
	dst = appendUint(dst, uint64(r.Epoch))
	dst = appendUint(dst, r.Number)
	return appendBytes(dst, r.Body)
}

// DecodeRecord reads one record from the front of src and returns the rest. Body
// aliases src. Errors wrap ErrEncoding.
func DecodeRecord(src []byte) (rec Record, rest []byte, err error) {
	r := reader{buf: src}
	rec = Record{Node: NodeID(r.uint()), Epoch: Epoch(r.uint()), Number: r.uint(), Body: r.bytes()}
	return rec, r.buf, r.err
}

// EntryHeader is the stamp that the leader puts on an entry [4.5].
type EntryHeader struct {
	Civil   int64 // civil time, ms since 1970
	Running int64 // running time, ms since the cluster began; stands without a leader
	// Sets counts the SetTimes that the leader had applied when it made the stamp: civil
	// time of before the last one doesn't count any more.
	Sets uint64
}

// AppendEntry starts an entry in dst; the caller adds records by AppendRecord.
func AppendEntry(dst []byte, h EntryHeader) []byte {
	dst = append(dst, entryVersion)
	dst = appendInt(dst, h.Civil)
	dst = appendInt(dst, h.Running)
	return appendUint(dst, h.Sets)
}

// DecodeEntry reads an entry's stamp and returns its records' bytes, to be walked
// with DecodeRecord until none are left.
func DecodeEntry(src []byte) (h EntryHeader, records []byte, err error) {
	r := reader{buf: src}
	if v := r.byte(); r.err == nil && v != entryVersion {
		return h, nil, fmt.Errorf("%w: %w: an entry of version %d, this one knows version %d: run the version of oncemq that wrote it",
			ErrEncoding, ErrNewer, v, entryVersion)
	}
	h.Civil = r.int()
	h.Running = r.int()
	h.Sets = r.uint()
	return h, r.buf, r.err
}
