package selector

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"
)

// valueType is the type of a value.
type valueType uint8

// Up to typeNull a value is NULL, from typeString on it has a text.
const (
	typeAbsent valueType = iota // not found yet
	typeNull
	typeBoolean
	typeInteger
	typeFloat
	typeString
	typeUUID  // as text: lower case, with hyphens
	typeUlong // an id of JMS: as text, in decimal digits
)

// value is one value. Its text borrows from the message or from the selector.
type value struct {
	// text is a string, or the 16 bytes of a uuid.
	text []byte
	// bits are a boolean (0 or 1), an integer, a float's bits, or a ulong.
	bits uint64
	kind valueType
}

func (v *value) null() bool { return v.kind <= typeNull }

func (v *value) number() bool { return v.kind == typeInteger || v.kind == typeFloat }

// float is a number as a float: Java's numeric promotion.
func (v *value) float() float64 {
	if v.kind == typeInteger {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// uuidLength is the length in bytes of the text of a uuid, the longest that is made here.
const uuidLength = 36

// string is the text of a value that has one; room is where it is made if it must be.
func (v *value) string(room *[uuidLength]byte) []byte {
	switch v.kind {
	case typeUUID:
		for i, at := range [...]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
			hex.Encode(room[at:at+2], v.text[i:i+1])
		}
		for _, at := range [...]int{8, 13, 18, 23} {
			room[at] = '-'
		}
		return room[:]
	case typeUlong:
		return strconv.AppendUint(room[:0], v.bits, 10)
	case typeString:
		return v.text
	case typeAbsent, typeNull, typeBoolean, typeInteger, typeFloat:
	}
	return nil
}

func condOf(b bool) cond {
	if b {
		return condTrue
	}
	return condFalse
}

// compare is a comparison (JMS 3.8.1.2): unknown where a side is NULL; false where the types are no like ones, or where
// strings or booleans are compared by order.
func compare(o op, a, b *value) cond {
	if a.kind == typeInteger && b.kind == typeInteger {
		return condOf(ordered(o, int64(a.bits), int64(b.bits)))
	}
	switch {
	case a.null() || b.null():
		return condUnknown
	case a.number() && b.number():
		return condOf(ordered(o, a.float(), b.float()))
	case o != opEqual && o != opNotEqual:
		return condFalse
	case a.kind >= typeString && b.kind >= typeString:
		return condOf(sameText(a, b) == (o == opEqual))
	case a.kind == typeBoolean && b.kind == typeBoolean:
		return condOf((a.bits == b.bits) == (o == opEqual))
	}
	return condFalse
}

// ordered compares two numbers of one type. A NaN differs from everything, and has no order.
func ordered[T int64 | float64](o op, a, b T) bool {
	switch o {
	case opEqual:
		return a == b
	case opNotEqual:
		return a != b
	case opLess:
		return a < b
	case opLessOrEqual:
		return a <= b
	case opGreater:
		return a > b
	case opGreaterOrEqual:
		return a >= b
	default:
		return false
	}
}

func sameText(a, b *value) bool {
	if a.kind == typeString && b.kind == typeString {
		return bytes.Equal(a.text, b.text)
	}
	var roomA, roomB [uuidLength]byte
	return bytes.Equal(a.string(&roomA), b.string(&roomB))
}

// between is a >= low AND a <= high; notBetween is a < low OR a > high, as JMS defines them.
func between(a, low, high *value) cond {
	return min(compare(opGreaterOrEqual, a, low), compare(opLessOrEqual, a, high))
}

func notBetween(a, low, high *value) cond {
	return max(compare(opLess, a, low), compare(opGreater, a, high))
}

// inStrings says whether v is one of set, which is sorted.
func inStrings(v *value, set [][]byte) cond {
	if v.null() {
		return condUnknown
	}
	if v.kind < typeString {
		return condFalse
	}
	var room [uuidLength]byte
	text := v.string(&room)
	low, high := 0, len(set)
	for low < high {
		middle := int(uint(low+high) / 2)
		switch bytes.Compare(set[middle], text) {
		case 0:
			return condTrue
		case -1:
			low = middle + 1
		default:
			high = middle
		}
	}
	return condFalse
}

func inNumbers(v *value, set []value) cond {
	if v.null() {
		return condUnknown
	}
	for i := range set {
		if compare(opEqual, v, &set[i]) == condTrue {
			return condTrue
		}
	}
	return condFalse
}

// truth is a value as a condition: x stands for x = TRUE.
func truth(v *value) cond {
	if v.null() {
		return condUnknown
	}
	return condOf(v.kind == typeBoolean && v.bits != 0)
}

// valueOf is a condition as a value.
func valueOf(c cond) value {
	if c == condUnknown {
		return value{kind: typeNull}
	}
	return value{kind: typeBoolean, bits: uint64(c >> 1)}
}

// arithmetic is an operation on numbers, NULL where a side is no number. Integers wrap around as Java's long; their
// division by zero is NULL. Every result of a float operation is rounded by its conversion [4.3].
func arithmetic(o op, a, b *value) value {
	if a.kind == typeInteger && b.kind == typeInteger {
		return integers(o, int64(a.bits), int64(b.bits))
	}
	if !a.number() || !b.number() {
		return value{kind: typeNull}
	}
	x, y := a.float(), b.float()
	switch o {
	case opAdd:
		x = float64(x + y)
	case opSubtract:
		x = float64(x - y)
	case opMultiply:
		x = float64(x * y)
	default:
		x = float64(x / y)
	}
	return value{kind: typeFloat, bits: math.Float64bits(x)}
}

func integers(o op, x, y int64) value {
	switch o {
	case opAdd:
		x += y
	case opSubtract:
		x -= y
	case opMultiply:
		x *= y
	default:
		if y == 0 {
			return value{kind: typeNull}
		}
		x /= y
	}
	return value{kind: typeInteger, bits: uint64(x)}
}

// signedValue is v with a sign before it: NULL unless it is a number.
func signedValue(v *value, negative bool) value {
	switch {
	case !v.number():
		return value{kind: typeNull}
	case !negative:
		return *v
	case v.kind == typeInteger:
		return value{kind: typeInteger, bits: -v.bits}
	}
	return value{kind: typeFloat, bits: v.bits ^ 1<<63}
}
