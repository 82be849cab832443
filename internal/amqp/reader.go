package amqp

import (
	"encoding/binary"
	"unicode/utf8"
)

// reader walks over encoded bytes under a budget. The first error sticks and ends everything: each method gives a zero
// value then, so that decoders are written without checks between fields.
type reader struct {
	buf []byte
	// Invariant: 0 <= off <= end <= len(buf). end is the end of the innermost list, map or array.
	off, end int
	depth    int
	// elems and mem are what is left of the budget.
	elems, mem int
	err        *DecodeError
	// tx, if not nil, is filled for the first transactional-state instead of a new one.
	tx *TransactionalState
}

func newReader(buf []byte, lim Limits) reader {
	return reader{buf: buf, end: len(buf), elems: lim.maxElements(), mem: lim.maxBytes()}
}

// result is the error as an error, nil if there is none.
func (r *reader) result() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = &DecodeError{Condition: ErrCondDecodeError, Offset: r.off, What: what}
	}
	r.off = r.end
}

// charge takes n values and size bytes from the budget.
func (r *reader) charge(n uint32, size int) {
	if uint64(n) > uint64(r.elems) {
		r.fail("more elements than the limit allows")
		return
	}
	if size > r.mem {
		r.fail("more decoded bytes than the limit allows")
		return
	}
	r.elems -= int(n)
	r.mem -= size
}

func (r *reader) enter() {
	r.depth++
	if r.depth > MaxDepth {
		r.fail("nested too deep")
	}
}

func (r *reader) leave() { r.depth-- }

func (r *reader) byte() byte {
	if r.off >= r.end {
		r.fail("bytes are missing")
		return 0
	}
	b := r.buf[r.off]
	r.off++
	return b
}

// take is the next n bytes, without room to append.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(r.end-r.off) {
		r.fail("bytes are missing")
		return nil
	}
	b := r.buf[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return b
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// length reads the size in front of a binary, string or symbol: one byte if the code is of the small kind.
func (r *reader) length(code byte) uint32 {
	if code < 0xb0 {
		return uint32(r.byte())
	}
	return r.u32()
}

// compound reads size and count of a list, map or array; end is where its last byte must be. Each element takes at least
// minWidth bytes, so that a count can't promise more than there is.
func (r *reader) compound(code byte, minWidth uint32) (count uint32, end int) {
	var size, width uint32
	switch code {
	case 0x45:
		return 0, r.off
	case 0xc0, 0xc1, 0xe0:
		size, count, width = uint32(r.byte()), uint32(r.byte()), 1
	default:
		size, count, width = r.u32(), r.u32(), 4
	}
	if r.err != nil {
		return 0, r.off
	}
	if size < width || uint64(size-width) > uint64(r.end-r.off) {
		r.fail("a size that doesn't fit")
		return 0, r.off
	}
	if uint64(count)*uint64(minWidth) > uint64(size-width) {
		r.fail("a count that its size can't hold")
		return 0, r.off
	}
	return count, r.off + int(size-width)
}

// text is the bytes of a string, valid UTF-8.
func (r *reader) text(code byte) []byte {
	b := r.take(r.length(code))
	if !utf8.Valid(b) {
		r.fail("a string that is not UTF-8")
		return nil
	}
	return b
}

// ascii is the bytes of a symbol.
func (r *reader) ascii(code byte) []byte {
	b := r.take(r.length(code))
	for _, c := range b {
		if c >= 0x80 {
			r.fail("a symbol that is not ASCII")
			return nil
		}
	}
	return b
}

func (r *reader) string(code byte) string {
	b := r.text(code)
	r.charge(0, len(b))
	if r.err != nil {
		return ""
	}
	return string(b)
}

// symbol is a Symbol, without allocation if it is one of those that every client sends.
func (r *reader) symbol(code byte) Symbol {
	b := r.ascii(code)
	if s, ok := knownSymbols[string(b)]; ok {
		return s
	}
	r.charge(0, len(b))
	if r.err != nil {
		return ""
	}
	return Symbol(b)
}

func (r *reader) boolean(code byte) bool {
	switch code {
	case 0x41:
		return true
	case 0x42:
		return false
	}
	b := r.byte()
	if b > 1 {
		r.fail("a boolean that is neither 0 nor 1")
	}
	return b == 1
}

// descriptor reads the descriptor of a type that this package knows, and is codeUnknown for every other.
func (r *reader) descriptor() uint64 {
	switch c := r.byte(); c {
	case 0x53:
		return uint64(r.byte())
	case 0x80:
		if v := r.u64(); v < codePrepare {
			return v
		}
	case 0x44:
		return 0
	case 0xa3, 0xb3:
		if v, ok := codeOfSymbol[string(r.ascii(c))]; ok {
			return v
		}
	default:
		r.fail("a descriptor that is neither ulong nor symbol")
	}
	return codeUnknown
}
