package amqp

// widthOf is the width in bytes of the values of a constructor, -1 if it varies.
func widthOf(code byte) int {
	switch code >> 4 {
	case 0x4:
		return 0
	case 0x5:
		return 1
	case 0x6:
		return 2
	case 0x7:
		return 4
	case 0x8:
		return 8
	case 0x9:
		return 16
	}
	return -1
}

// typeOfCode maps constructors to types; 0 where there is none. 0x00, the descriptor's, is none. Read only.
var typeOfCode = [256]Type{
	0x40: TypeNull,
	0x41: TypeBoolean, 0x42: TypeBoolean, 0x56: TypeBoolean,
	0x43: TypeUint, 0x52: TypeUint, 0x70: TypeUint,
	0x44: TypeUlong, 0x53: TypeUlong, 0x80: TypeUlong,
	0x45: TypeList, 0xc0: TypeList, 0xd0: TypeList,
	0x50: TypeUbyte, 0x51: TypeByte, 0x60: TypeUshort, 0x61: TypeShort,
	0x54: TypeInt, 0x71: TypeInt, 0x55: TypeLong, 0x81: TypeLong,
	0x72: TypeFloat, 0x82: TypeDouble,
	0x74: TypeDecimal32, 0x84: TypeDecimal64, 0x94: TypeDecimal128,
	0x73: TypeChar, 0x83: TypeTimestamp, 0x98: TypeUUID,
	0xa0: TypeBinary, 0xb0: TypeBinary,
	0xa1: TypeString, 0xb1: TypeString,
	0xa3: TypeSymbol, 0xb3: TypeSymbol,
	0xc1: TypeMap, 0xd1: TypeMap,
	0xe0: TypeArray, 0xf0: TypeArray,
}

// skip checks one value as value does, and builds nothing. Only elements without width are charged: all others are bounded
// by the bytes that they take.
func (r *reader) skip() {
	c := r.byte()
	if r.err == nil {
		r.skipOf(c)
	}
}

func (r *reader) skipOf(c byte) {
	if c == 0x00 {
		r.enter()
		r.skipDescriptor()
		r.skip()
		r.leave()
		return
	}
	switch typeOfCode[c] {
	case 0:
		r.fail("a constructor that is not defined")
	case TypeBoolean:
		r.boolean(c)
	case TypeChar:
		r.char()
	case TypeBinary:
		r.take(r.length(c))
	case TypeString:
		r.text(c)
	case TypeSymbol:
		r.ascii(c)
	case TypeList, TypeMap:
		r.skipElements(c)
	case TypeArray:
		r.skipArray(c)
	default:
		r.take(uint32(widthOf(c)))
	}
}

func (r *reader) skipDescriptor() {
	c := r.byte()
	if c == 0x40 {
		r.fail("a descriptor that is null")
	}
	if r.err == nil {
		r.skipOf(c)
	}
}

func (r *reader) skipElements(c byte) {
	r.enter()
	count, end := r.compound(c, 1)
	if typeOfCode[c] == TypeMap && count%2 != 0 {
		r.fail("a map with an odd count")
	}
	if r.err != nil {
		return
	}
	outer := r.inside(end)
	for i := uint32(0); i < count && r.err == nil; i++ {
		r.skip()
	}
	r.outside(outer)
}

func (r *reader) skipArray(c byte) {
	r.enter()
	count, end := r.compound(c, 0)
	if r.err != nil {
		return
	}
	outer := r.inside(end)
	code := r.byte()
	if code == 0x00 && r.err == nil {
		r.enter()
		r.skipDescriptor()
		code = r.byte()
		r.leave()
	}
	t := r.arrayType(code, count)
	switch w := widthOf(code); {
	case r.err != nil:
	case w == 0:
		r.charge(count, 0)
	case w > 0 && t != TypeBoolean && t != TypeChar:
		r.take(count * uint32(w))
	default:
		for i := uint32(0); i < count && r.err == nil; i++ {
			r.skipOf(code)
		}
	}
	r.outside(outer)
}
