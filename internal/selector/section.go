package selector

import (
	"encoding/binary"
	"math"
)

// The constructors of AMQP 1.0 (1.6) that are told apart here.
const (
	codeDescribed = 0x00
	codeNull      = 0x40
	codeTrue      = 0x41
	codeFalse     = 0x42
	codeUint0     = 0x43
	codeUlong0    = 0x44
	codeList0     = 0x45
	codeUbyte     = 0x50
	codeByte      = 0x51
	codeUint8     = 0x52
	codeUlong8    = 0x53
	codeInt8      = 0x54
	codeLong8     = 0x55
	codeBoolean   = 0x56
	codeUshort    = 0x60
	codeShort     = 0x61
	codeUint      = 0x70
	codeInt       = 0x71
	codeFloat     = 0x72
	codeDecimal32 = 0x74
	codeUlong     = 0x80
	codeLong      = 0x81
	codeDouble    = 0x82
	codeTimestamp = 0x83
	codeDecimal64 = 0x84
	codeDecimal   = 0x94
	codeUUID      = 0x98
	codeBinary8   = 0xa0
	codeString8   = 0xa1
	codeSymbol8   = 0xa3
	codeBinary32  = 0xb0
	codeString32  = 0xb1
	codeSymbol32  = 0xb3
	codeList8     = 0xc0
	codeMap8      = 0xc1
	codeList32    = 0xd0
	codeMap32     = 0xd1
)

// data is the bytes of a value behind its constructor at the beginning of b, a size in front of them included; ok is false
// where b doesn't hold them all or there is no such constructor.
func data(code byte, b []byte) (d []byte, ok bool) {
	var n uint64
	switch code >> 4 {
	case 0x4:
	case 0x5:
		n = 1
	case 0x6:
		n = 2
	case 0x7:
		n = 4
	case 0x8:
		n = 8
	case 0x9:
		n = 16
	case 0xa, 0xc, 0xe:
		if len(b) < 1 {
			return nil, false
		}
		n = 1 + uint64(b[0])
	case 0xb, 0xd, 0xf:
		if len(b) < 4 {
			return nil, false
		}
		n = 4 + uint64(binary.BigEndian.Uint32(b))
	default:
		return nil, false
	}
	if n > uint64(len(b)) {
		return nil, false
	}
	return b[:n], true
}

// cursor reads the values of a section, one behind the other. Every value takes a byte at least, so a section is done in as
// many steps as it has bytes, whatever its counts say.
type cursor struct{ left []byte }

// next returns the constructor and the data of the next value. A described value is passed over: its code is codeDescribed.
// ok is false where there is none that can be read.
func (c *cursor) next() (code byte, d []byte, ok bool) {
	described := false
	for {
		if len(c.left) == 0 {
			return 0, nil, false
		}
		code, c.left = c.left[0], c.left[1:]
		if code != codeDescribed {
			break
		}
		described = true
		if !c.descriptor() {
			return 0, nil, false
		}
	}
	if d, ok = data(code, c.left); !ok {
		return 0, nil, false
	}
	c.left = c.left[len(d):]
	if described {
		return codeDescribed, nil, true
	}
	return code, d, true
}

// descriptor passes over a descriptor, which is described itself nowhere in AMQP.
func (c *cursor) descriptor() bool {
	if len(c.left) == 0 {
		return false
	}
	d, ok := data(c.left[0], c.left[1:])
	if ok {
		c.left = c.left[1+len(d):]
	}
	return ok
}

// open returns a cursor over the elements of a section, and their number: list8 and list32 are the constructors of lists or
// those of maps. Nothing is left where the section can't be read.
func open(section []byte, list8, list32 byte) (c cursor, count uint32) {
	c.left = section
	if len(section) == 0 || section[0] != codeDescribed {
		return cursor{}, 0
	}
	c.left = section[1:]
	if !c.descriptor() {
		return cursor{}, 0
	}
	code, d, ok := c.next()
	switch {
	case ok && code == list8 && len(d) >= 2:
		return cursor{d[2:]}, uint32(d[1])
	case ok && code == list32 && len(d) >= 8:
		return cursor{d[8:]}, binary.BigEndian.Uint32(d[4:])
	}
	return cursor{}, 0
}

// readHeader sets the registers of the header's fields; what is absent has its default (AMQP 3.2.1).
func (s *Selector) readHeader(section []byte) {
	for _, w := range s.header {
		s.setField(w, codeNull, nil)
	}
	s.readList(section, s.header)
}

func (s *Selector) readProperties(section []byte) { s.readList(section, s.properties) }

// readList sets the registers of the fields of a list, which wants has in their order.
func (s *Selector) readList(section []byte, wants []want) {
	c, count := open(section, codeList8, codeList32)
	i := 0
	for place := uint32(0); place < count; place++ {
		code, d, ok := c.next()
		if !ok {
			return
		}
		for uint32(wants[i].field.place()) == place {
			s.setField(wants[i], code, d)
			if i++; i == len(wants) {
				return
			}
		}
	}
}

// place is that of a field in its list.
func (f field) place() byte {
	switch {
	case f == fieldJMSDeliveryMode:
		return 0
	case f == fieldJMSMessageID:
		return 0
	case f == fieldJMSCorrelationID:
		return byte(fieldCorrelationID - fieldMessageID)
	case f < fieldMessageID:
		return byte(f - fieldDurable)
	}
	return byte(f - fieldMessageID)
}

// The values of JMSDeliveryMode (JMS 3.8.1.3).
var (
	textPersistent    = []byte("PERSISTENT")
	textNonPersistent = []byte("NON_PERSISTENT")
)

// setField sets the register of a field to a value that was read.
func (s *Selector) setField(w want, code byte, d []byte) {
	v := &s.values[w.slot]
	read(v, code, d)
	switch w.field {
	case fieldDurable, fieldFirstAcquirer:
		if v.kind == typeNull {
			*v = value{kind: typeBoolean}
		}
	case fieldJMSDeliveryMode:
		mode := textNonPersistent
		if v.kind == typeBoolean && v.bits != 0 {
			mode = textPersistent
		}
		*v = value{kind: typeString, text: mode}
	case fieldPriority:
		if v.kind == typeNull {
			*v = value{kind: typeInteger, bits: 4}
		}
	case fieldJMSMessageID, fieldJMSCorrelationID:
		switch code {
		case codeUlong, codeUlong8, codeUlong0:
			*v = value{kind: typeUlong, bits: unsigned(d)}
		}
	default:
	}
}

// readMap sets the registers of the keys of a map; of a key that is there twice the first counts.
func (s *Selector) readMap(section []byte, keys []key) {
	c, count := open(section, codeMap8, codeMap32)
	missing := len(keys)
	for ; count >= 2 && missing > 0; count -= 2 {
		code, d, ok := c.next()
		if !ok {
			return
		}
		slot := int32(-1)
		switch code {
		case codeString8, codeSymbol8:
			slot = find(keys, d[1:])
		case codeString32, codeSymbol32:
			slot = find(keys, d[4:])
		}
		if code, d, ok = c.next(); !ok {
			return
		}
		if slot >= 0 && s.values[slot].kind == typeAbsent {
			read(&s.values[slot], code, d)
			missing--
		}
	}
}

// few is up to how many keys are looked through one by one; more are searched by halves.
const few = 8

// find is the register of a key, -1 where the selector hasn't that name.
func find(keys []key, text []byte) int32 {
	if len(keys) <= few {
		for i := range keys {
			if keys[i].name == string(text) {
				return keys[i].slot
			}
		}
		return -1
	}
	low, high := 0, len(keys)
	for low < high {
		middle := int(uint(low+high) / 2)
		if keys[middle].name < string(text) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(keys) && keys[low].name == string(text) {
		return keys[low].slot
	}
	return -1
}

// read sets v to a value of AMQP: NULL where selectors have no such type (char, list, map, array, described).
func read(v *value, code byte, d []byte) {
	switch code {
	case codeString8, codeSymbol8, codeBinary8:
		*v = value{kind: typeString, text: d[1:]}
	case codeString32, codeSymbol32, codeBinary32:
		*v = value{kind: typeString, text: d[4:]}
	case codeInt8, codeLong8, codeByte:
		*v = value{kind: typeInteger, bits: uint64(int8(d[0]))}
	case codeShort:
		*v = value{kind: typeInteger, bits: uint64(int16(binary.BigEndian.Uint16(d)))}
	case codeInt:
		*v = value{kind: typeInteger, bits: uint64(int32(binary.BigEndian.Uint32(d)))}
	case codeLong, codeTimestamp:
		*v = value{kind: typeInteger, bits: binary.BigEndian.Uint64(d)}
	case codeUbyte, codeUshort, codeUint, codeUint8, codeUint0, codeUlong8, codeUlong0:
		*v = value{kind: typeInteger, bits: unsigned(d)}
	case codeUlong:
		*v = ulong(binary.BigEndian.Uint64(d))
	case codeTrue, codeFalse:
		*v = valueOf(condOf(code == codeTrue))
	case codeBoolean:
		*v = value{kind: typeNull}
		if d[0] <= 1 {
			*v = value{kind: typeBoolean, bits: uint64(d[0])}
		}
	case codeFloat:
		*v = floatValue(float64(math.Float32frombits(binary.BigEndian.Uint32(d))))
	case codeDouble:
		*v = value{kind: typeFloat, bits: binary.BigEndian.Uint64(d)}
	case codeDecimal32, codeDecimal64, codeDecimal:
		*v = floatValue(decimal(d))
	case codeUUID:
		*v = value{kind: typeUUID, text: d}
	default:
		*v = value{kind: typeNull}
	}
}

func floatValue(f float64) value { return value{kind: typeFloat, bits: math.Float64bits(f)} }

// unsigned is a number of up to 8 bytes.
func unsigned(d []byte) (n uint64) {
	for _, b := range d {
		n = n<<8 | uint64(b)
	}
	return n
}

// ulong is a number, approximate where no long of Java holds it.
func ulong(n uint64) value {
	if n>>63 != 0 {
		return floatValue(float64(n))
	}
	return value{kind: typeInteger, bits: n}
}
