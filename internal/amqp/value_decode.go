package amqp

import (
	"math"
)

// DecodeValue decodes the one value that src begins with, and says how many bytes it took. The result is one of the types
// in the package comment; binaries alias src.
func DecodeValue(src []byte, lim Limits) (v any, n int, err error) {
	r := newReader(src, lim)
	v = r.value()
	if r.err != nil {
		return nil, 0, r.err
	}
	return v, r.off, nil
}

// SkipValue is DecodeValue without the value: it checks as much and builds nothing.
func SkipValue(src []byte, lim Limits) (n int, err error) {
	r := newReader(src, lim)
	r.skip()
	if r.err != nil {
		return 0, r.err
	}
	return r.off, nil
}

func (r *reader) value() any {
	c := r.byte()
	if r.err != nil {
		return nil
	}
	return r.valueOf(c)
}

// valueOf reads the value behind its constructor c. The memory that it is charged is that of the box and of what isn't
// aliased.
func (r *reader) valueOf(c byte) any {
	switch {
	case c == 0x00:
		return r.describedOf()
	case c < 0xa0:
		return r.fixedOf(c)
	}
	switch c {
	case 0xa0, 0xb0:
		r.charge(0, 24)
		if b := r.take(r.length(c)); b != nil {
			return b
		}
		return nil
	case 0xa1, 0xb1:
		r.charge(0, 16)
		return r.string(c)
	case 0xa3, 0xb3:
		r.charge(0, 16)
		return r.symbol(c)
	case 0xc0, 0xd0:
		return r.listOf(c)
	case 0xc1, 0xd1:
		return r.mapOf(c)
	case 0xe0, 0xf0:
		return r.arrayOf(c)
	}
	r.fail("a constructor that is not defined")
	return nil
}

// fixedOf reads a value of fixed width.
func (r *reader) fixedOf(c byte) any {
	r.charge(0, 16)
	switch c {
	case 0x40:
		return nil
	case 0x41, 0x42, 0x56:
		return r.boolean(c)
	case 0x43:
		return uint32(0)
	case 0x44:
		return uint64(0)
	case 0x45:
		return r.listOf(c)
	case 0x50:
		return r.byte()
	case 0x51:
		return int8(r.byte())
	case 0x52:
		return uint32(r.byte())
	case 0x53:
		return uint64(r.byte())
	case 0x54:
		return int32(int8(r.byte()))
	case 0x55:
		return int64(int8(r.byte()))
	case 0x60:
		return r.u16()
	case 0x61:
		return int16(r.u16())
	case 0x70:
		return r.u32()
	case 0x71:
		return int32(r.u32())
	case 0x72:
		return math.Float32frombits(r.u32())
	case 0x73:
		return r.char()
	case 0x74:
		return Decimal32(r.array4())
	case 0x80:
		return r.u64()
	case 0x81:
		return int64(r.u64())
	case 0x82:
		return math.Float64frombits(r.u64())
	case 0x83:
		return Timestamp(r.u64())
	case 0x84:
		return Decimal64(r.array8())
	case 0x94:
		return Decimal128(r.array16())
	case 0x98:
		return UUID(r.array16())
	}
	r.fail("a constructor that is not defined")
	return nil
}

// char is a code point. Lone surrogates pass: Java's char is sent so.
func (r *reader) char() Char {
	v := r.u32()
	if v > 0x10ffff {
		r.fail("a char beyond U+10FFFF")
		return 0
	}
	return Char(v)
}

func (r *reader) array4() (a [4]byte) {
	copy(a[:], r.take(4))
	return a
}

func (r *reader) array8() (a [8]byte) {
	copy(a[:], r.take(8))
	return a
}

func (r *reader) array16() (a [16]byte) {
	copy(a[:], r.take(16))
	return a
}

func (r *reader) describedOf() any {
	r.enter()
	r.charge(1, 48)
	d := &Described{Descriptor: r.value()}
	if d.Descriptor == nil {
		r.fail("a descriptor that is null")
	}
	d.Value = r.value()
	r.leave()
	if r.err != nil {
		return nil
	}
	return d
}

// inside narrows the reader to the elements that end at end, and returns what closes it again.
func (r *reader) inside(end int) (outer int) {
	outer, r.end = r.end, end
	return outer
}

func (r *reader) outside(outer int) {
	if r.err == nil && r.off != r.end {
		r.fail("a size that is not that of its elements")
	}
	r.end = outer
	r.leave()
}

func (r *reader) listOf(c byte) List {
	r.enter()
	count, end := r.compound(c, 1)
	r.charge(count, 24+16*int(count))
	if r.err != nil {
		return nil
	}
	outer := r.inside(end)
	l := make(List, 0, count)
	for i := uint32(0); i < count && r.err == nil; i++ {
		l = append(l, r.value())
	}
	r.outside(outer)
	return l
}

func (r *reader) mapOf(c byte) Map {
	r.enter()
	count, end := r.compound(c, 1)
	if count%2 != 0 {
		r.fail("a map with an odd count")
	}
	r.charge(count, 24+16*int(count))
	if r.err != nil {
		return nil
	}
	outer := r.inside(end)
	m := make(Map, 0, count/2)
	for i := uint32(0); i < count && r.err == nil; i += 2 {
		k := r.value()
		m = append(m, Pair{Key: k, Value: r.value()})
	}
	r.outside(outer)
	return m
}

func (r *reader) arrayOf(c byte) any {
	r.enter()
	count, end := r.compound(c, 0)
	if r.err != nil {
		return nil
	}
	outer := r.inside(end)
	var a Array
	code := r.byte()
	if code == 0x00 && r.err == nil {
		r.enter()
		r.charge(0, 16)
		if a.Descriptor = r.value(); a.Descriptor == nil {
			r.fail("a descriptor that is null")
		}
		code = r.byte()
		r.leave()
	}
	a.Type = r.arrayType(code, count)
	r.charge(count, 64+16*int(count))
	if r.err == nil {
		a.Items = make([]any, 0, count)
		for i := uint32(0); i < count && r.err == nil; i++ {
			a.Items = append(a.Items, r.valueOf(code))
		}
	}
	r.outside(outer)
	if r.err != nil {
		return nil
	}
	return a
}

// arrayType checks an array's element constructor, and its count against the bytes that are left. An array whose elements
// have no width may count anything: the budget of elements bounds it.
func (r *reader) arrayType(code byte, count uint32) Type {
	t := typeOfCode[code]
	if t == 0 {
		r.fail("an array's constructor that is not defined")
		return 0
	}
	left := uint64(r.end - r.off)
	switch w := widthOf(code); {
	case w < 0 && uint64(count) > left, w >= 0 && uint64(count)*uint64(w) != left:
		r.fail("an array's count that its size can't hold")
	}
	return t
}
