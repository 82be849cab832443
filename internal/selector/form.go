package selector

import (
	"encoding/binary"
	"math"
)

// formVersion is the version of the parsed form, its first byte. Another version is another meaning: an operation that
// would give another result on some message needs one.
const formVersion = 1

// appendTo appends the parsed form: docs/format/selector.md.
func (p *program) appendTo(dst []byte) []byte {
	dst = append(dst, formVersion)
	dst = binary.AppendUvarint(dst, uint64(len(p.names)))
	for _, n := range p.names {
		dst = append(dst, byte(n.field))
		if n.field.keyed() {
			dst = appendText(dst, n.key)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.items)))
	for i := range p.items {
		dst = p.items[i].appendTo(dst)
	}
	return dst
}

func (it *item) appendTo(dst []byte) []byte {
	dst = append(dst, byte(it.op))
	switch it.op {
	case opName:
		dst = binary.AppendUvarint(dst, it.bits)
	case opInteger:
		dst = binary.AppendVarint(dst, int64(it.bits))
	case opFloat:
		dst = binary.BigEndian.AppendUint64(dst, it.bits)
	case opString:
		dst = appendText(dst, it.text)
	case opLike:
		dst = binary.AppendUvarint(appendText(dst, it.text), it.bits)
	case opInStrings:
		dst = binary.AppendUvarint(dst, uint64(len(it.strings)))
		for _, s := range it.strings {
			dst = appendText(dst, s)
		}
	case opInNumbers:
		dst = binary.AppendUvarint(dst, uint64(len(it.numbers)))
		for i := range it.numbers {
			dst = it.numbers[i].appendTo(dst)
		}
	default: // the others are the byte alone
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// formReader reads a parsed form. The first fault sticks; later reads give zeros.
type formReader struct {
	left []byte
	err  error
}

func (r *formReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = formError(format, args...)
	}
	r.left = nil
}

func (r *formReader) byte() byte {
	if len(r.left) == 0 {
		r.fail("it ends too early")
		return 0
	}
	b := r.left[0]
	r.left = r.left[1:]
	return b
}

// uint reads a number, which has one encoding only.
func (r *formReader) uint() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 || n > 1 && r.left[n-1] == 0 {
		r.fail("a number that can't be read")
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *formReader) int() uint64 {
	v := r.uint()
	return v>>1 ^ -(v & 1)
}

// float reads a finite float.
func (r *formReader) float() uint64 {
	if len(r.left) < 8 {
		r.fail("it ends too early")
		return 0
	}
	bits := binary.BigEndian.Uint64(r.left)
	if f := math.Float64frombits(bits); math.IsNaN(f) || math.IsInf(f, 0) {
		r.fail("a float that isn't finite")
	}
	r.left = r.left[min(8, len(r.left)):]
	return bits
}

// count reads a number of things of which each takes at least one byte.
func (r *formReader) count() int {
	v := r.uint()
	if v > uint64(len(r.left)) {
		r.fail("a count of %d with %d bytes left", v, len(r.left))
		return 0
	}
	return int(v)
}

// text borrows the bytes of a string.
func (r *formReader) text() []byte {
	n := r.count()
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}
