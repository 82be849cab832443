package peer

import (
	"encoding/binary"
	"fmt"
)

// Who carries the bytes between nodes himself, as a simulator does, makes and takes the same
// frames as a stream's writer and reader. A frame is whole, and is one call's.

// AppendRaft adds the frame of a raft message to dst.
func AppendRaft(dst []byte, p Payload) []byte {
	it := item{kind: frameRaft, payload: p}
	return it.appendTo(dst)
}

// AppendRecords adds the frame of a home's records to dst.
func AppendRecords(dst []byte, r Records) []byte {
	it := item{kind: frameRecords, records: r}
	return it.appendTo(dst)
}

// AppendNote adds the frame of a note to dst.
func AppendNote(dst []byte, n Note) []byte {
	it := item{kind: frameNote, note: n}
	return it.appendTo(dst)
}

// Deliver checks a whole frame and hands what is in it to h, which borrows it for the call.
// ErrFrame: these bytes are no frame; a stream that brings them ends.
func Deliver(h Handler, from uint64, frame []byte) error {
	if len(frame) < frameHeaderBytes {
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(frame))
	}
	le := binary.LittleEndian
	header, body := frame[:frameHeaderBytes], frame[frameHeaderBytes:]
	if n := le.Uint32(header); int64(n) != int64(len(body)) || len(body) > maxBody {
		return fmt.Errorf("%w: a length of %d for %d bytes", ErrFrame, n, len(body))
	}
	if sum := checksum(header, body); sum != le.Uint32(header[4:]) {
		return fmt.Errorf("%w: checksum %08x, computed %08x over %d bytes", ErrFrame, le.Uint32(header[4:]), sum, len(body))
	}
	return dispatch(h, from, header[8], body)
}
