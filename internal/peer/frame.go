package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// The kinds of frames. Values are on the wire: never renumber.
const (
	frameHello   = 1
	frameWelcome = 2
	frameRefusal = 3
	frameRaft    = 4
	frameRecords = 5
	frameNote    = 6
	frameFetch   = 7
	frameChunk   = 8
	frameQuery   = 9

	// Of the join protocol alone.
	frameJoin     = 32
	frameAdmitted = 33
	frameLater    = 34
)

const (
	frameHeaderBytes = 12

	// maxHandshake is the longest body that is read from a stranger.
	maxHandshake = 1 << 10
	// maxBody is the longest body of a frame: a raft message of one entry above the usual
	// size, with room to spare.
	maxBody = 4 << 20
	// readStep is how much is read before more memory is taken, so that a declared length
	// alone costs nothing.
	readStep = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame adds a frame's header to dst; endFrame fills it in once the body stands
// behind it.
func beginFrame(dst []byte, kind byte) []byte {
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0)
}

// endFrame completes the frame that begins at start.
func endFrame(dst []byte, start int) {
	frame := dst[start:]
	le := binary.LittleEndian
	le.PutUint32(frame, uint32(len(frame)-frameHeaderBytes))
	le.PutUint32(frame[4:], checksum(frame[:frameHeaderBytes], frame[frameHeaderBytes:]))
}

// checksum covers the length, the kind and the body.
func checksum(header, body []byte) uint32 {
	sum := crc32.Update(0, castagnoli, header[:4])
	sum = crc32.Update(sum, castagnoli, header[8:frameHeaderBytes])
	return crc32.Update(sum, castagnoli, body)
}

// readFrame reads one frame, its body into buf where that is large enough. The body is
// valid until buf is used again.
func readFrame(r *bufio.Reader, buf []byte, limit int) (kind byte, body, grown []byte, err error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, buf, err
	}
	le := binary.LittleEndian
	n := int(le.Uint32(header[:]))
	if n > limit {
		return 0, nil, buf, fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, n, limit)
	}
	body = buf[:0]
	for len(body) < n {
		step := min(n-len(body), readStep)
		body = slices.Grow(body, step)
		m, err := io.ReadFull(r, body[len(body):len(body)+step])
		body = body[:len(body)+m]
		if err != nil {
			return 0, nil, body, err
		}
	}
	if sum := checksum(header[:], body); sum != le.Uint32(header[4:]) {
		return 0, nil, body, fmt.Errorf("%w: checksum %08x, computed %08x over %d bytes", ErrFrame, le.Uint32(header[4:]), sum, n)
	}
	return header[8], body, body, nil
}

func appendRecords(dst []byte, r Records) []byte {
	dst = binary.AppendUvarint(dst, r.Term)
	dst = binary.AppendUvarint(dst, r.Stream)
	return append(dst, r.Data...)
}

// decodeRecords reads a records frame; Data aliases body.
func decodeRecords(body []byte) (Records, error) {
	d := decoder{buf: body}
	r := Records{Term: d.uint(), Stream: d.uint(), Data: d.buf}
	return r, d.err("records")
}

func appendNote(dst []byte, n Note) []byte {
	dst = append(dst, byte(n.Kind))
	dst = binary.AppendUvarint(dst, n.Node)
	dst = binary.AppendUvarint(dst, n.Index)
	dst = binary.AppendUvarint(dst, n.Number)
	dst = binary.AppendVarint(dst, n.Clock)
	return append(append(dst, n.Nonce[:]...), n.Data...)
}

func decodeNote(body []byte) (Note, error) {
	d := decoder{buf: body}
	n := Note{Kind: NoteKind(d.byte()), Node: d.uint(), Index: d.uint(), Number: d.uint(), Clock: d.int()}
	d.fixed(n.Nonce[:])
	if n.Data = d.buf; len(n.Data) == 0 {
		n.Data = nil
	}
	if len(n.Data) > MaxNoteData || n.Kind == 0 || n.Kind >= noteEnd {
		d.bad = true
	}
	return n, d.err("note")
}

// decoder reads the fields of a body; the first fault sticks.
type decoder struct {
	buf []byte
	bad bool
}

func (d *decoder) err(what string) error {
	if d.bad {
		return fmt.Errorf("%w: %s", ErrFrame, what)
	}
	return nil
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.buf) {
		d.bad, d.buf = true, nil
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed(dst []byte) { copy(dst, d.take(len(dst))) }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	d.take(max(n, 0))
	d.bad = d.bad || n <= 0
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	d.take(max(n, 0))
	d.bad = d.bad || n <= 0
	return v
}
