package state

import (
	"encoding/binary"
	"fmt"

	"github.com/oncemq/oncemq/internal/command"
)

func putUint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }
func putInt(dst []byte, v int64) []byte   { return binary.AppendVarint(dst, v) }

func putString(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

func putBools(dst []byte, flags ...bool) []byte {
	var b byte
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return append(dst, b)
}

// fields reads a stored key or value. The first fault sticks in err.
type fields struct {
	b   []byte
	err error
}

func (f *fields) fault() {
	if f.err == nil {
		f.err = fmt.Errorf("%w: a stored record is too short or malformed", ErrState)
	}
	f.b = nil
}

func (f *fields) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.fault()
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) int() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.fault()
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.fault()
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) string() string {
	n := f.uint()
	if n > uint64(len(f.b)) {
		f.fault()
		return ""
	}
	return string(f.take(int(n)))
}

// be64 and be32 read the fixed fields of keys.
func (f *fields) be64() uint64 {
	if b := f.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (f *fields) be32() uint32 {
	if b := f.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (f *fields) id16() (v [16]byte) {
	copy(v[:], f.take(16))
	return v
}

func (f *fields) session() command.SessionID { return f.id16() }
