package command

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrEncoding is wrapped by every error about bytes that are no valid entry,
// record or command. In a committed entry it means damage or a newer version.
var ErrEncoding = errors.New("oncemq: bad command encoding")

func appendUint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

func appendInt(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

func appendString(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// reader walks over an encoding. The first fault sticks: later reads yield zero
// values, so decoders check err once, at the end. It allocates only for strings.
type reader struct {
	buf []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s, %d bytes left", ErrEncoding, what, len(r.buf))
	}
	r.buf = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.fail("unsigned number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail("32-bit number out of range")
		return 0
	}
	return uint32(v)
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.fail("signed number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.buf) == 0 {
		r.fail("byte")
		return 0
	}
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b
}

func (r *reader) bool() bool {
	b := r.byte()
	if b > 1 {
		r.fail("boolean")
	}
	return b == 1
}

// bytes yields a slice of the encoding itself, never a copy.
func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.buf)) {
		r.fail("length beyond the end")
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) fixed(dst []byte) {
	if len(dst) > len(r.buf) {
		r.fail("fixed field beyond the end")
		return
	}
	copy(dst, r.buf)
	r.buf = r.buf[len(dst):]
}

// count reads a number of elements of at least size bytes each and refuses one
// that the remaining bytes can't hold, so that nobody allocates declared sizes.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.buf)/size) {
		r.fail("count beyond the end")
		return 0
	}
	return int(n)
}

// appendRefs writes references as message-number differences and attempts, since
// a batch names neighbours.
func appendRefs(dst []byte, refs []DeliveryRef) []byte {
	dst = appendUint(dst, uint64(len(refs)))
	var last uint64
	for _, d := range refs {
		dst = appendInt(dst, int64(d.Message-last))
		dst = appendUint(dst, uint64(d.Attempt))
		last = d.Message
	}
	return dst
}

func (r *reader) refs(into []DeliveryRef) []DeliveryRef {
	n := r.count(2)
	into = into[:0]
	var last uint64
	for range n {
		last += uint64(r.int())
		into = append(into, DeliveryRef{Message: last, Attempt: r.uint32()})
	}
	return into
}
