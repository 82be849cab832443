package amqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrValue says that a Go value has no AMQP type, or is nested deeper than MaxDepth.
var ErrValue = errors.New("oncemq: a value that AMQP has no type for")

// AppendValue appends v in its smallest encoding. v is one of the types in the package comment, an int (written as long) or
// a composite of this package. Anything else is a mistake of the program and panics: values that come from outside it, such
// as an application's properties, are to be checked with CheckValue before.
func AppendValue(dst []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(dst, 0x40)
	case bool:
		return appendBool(dst, x)
	case string:
		return appendString(dst, x)
	case Symbol:
		return appendSymbol(dst, x)
	case []byte:
		return appendBinary(dst, x)
	case Map:
		return appendMap(dst, x)
	case List:
		start := len(dst)
		if len(x) == 0 {
			return append(dst, 0x45)
		}
		dst = openCompound(dst)
		for _, e := range x {
			dst = AppendValue(dst, e)
		}
		return closeCompound(dst, start, len(x), 0xc0, 0xd0)
	case Array:
		return appendArray(dst, x)
	case *Described:
		return AppendValue(AppendValue(append(dst, 0x00), x.Descriptor), x.Value)
	case composite:
		return x.appendTo(dst)
	}
	return appendNumber(dst, v)
}

func appendNumber(dst []byte, v any) []byte {
	switch x := v.(type) {
	case uint32:
		return appendUint(dst, x)
	case uint64:
		return appendUlong(dst, x)
	case int32:
		return appendInt(dst, x)
	case int64:
		return appendLong(dst, x)
	case int:
		return appendLong(dst, int64(x))
	}
	t := typeOf(v)
	if t == 0 {
		panic(fmt.Sprintf("amqp: a %T has no AMQP type", v))
	}
	return appendWide(append(dst, byte(t)), v)
}

// typeOf is the AMQP type of a Go value; 0 if it has none.
func typeOf(v any) Type {
	switch v.(type) {
	case nil:
		return TypeNull
	case bool:
		return TypeBoolean
	case uint8:
		return TypeUbyte
	case uint16:
		return TypeUshort
	case uint32:
		return TypeUint
	case uint64:
		return TypeUlong
	case int8:
		return TypeByte
	case int16:
		return TypeShort
	case int32:
		return TypeInt
	case int64, int:
		return TypeLong
	case float32:
		return TypeFloat
	case float64:
		return TypeDouble
	case Decimal32:
		return TypeDecimal32
	case Decimal64:
		return TypeDecimal64
	case Decimal128:
		return TypeDecimal128
	case Char:
		return TypeChar
	case Timestamp:
		return TypeTimestamp
	case UUID:
		return TypeUUID
	case []byte:
		return TypeBinary
	case string:
		return TypeString
	case Symbol:
		return TypeSymbol
	case List:
		return TypeList
	case Map:
		return TypeMap
	case Array:
		return TypeArray
	}
	return 0
}

// appendWide appends a value of fixed width as it stands behind its widest constructor.
func appendWide(dst []byte, v any) []byte {
	be := binary.BigEndian
	switch x := v.(type) {
	case bool:
		if x {
			return append(dst, 1)
		}
		return append(dst, 0)
	case uint8:
		return append(dst, x)
	case int8:
		return append(dst, byte(x))
	case uint16:
		return be.AppendUint16(dst, x)
	case int16:
		return be.AppendUint16(dst, uint16(x))
	case uint32:
		return be.AppendUint32(dst, x)
	case int32:
		return be.AppendUint32(dst, uint32(x))
	case float32:
		return be.AppendUint32(dst, math.Float32bits(x))
	case Char:
		return be.AppendUint32(dst, uint32(x))
	case uint64:
		return be.AppendUint64(dst, x)
	case int64:
		return be.AppendUint64(dst, uint64(x))
	case int:
		return be.AppendUint64(dst, uint64(x))
	case float64:
		return be.AppendUint64(dst, math.Float64bits(x))
	case Timestamp:
		return be.AppendUint64(dst, uint64(x))
	case Decimal32:
		return append(dst, x[:]...)
	case Decimal64:
		return append(dst, x[:]...)
	case Decimal128:
		return append(dst, x[:]...)
	case UUID:
		return append(dst, x[:]...)
	}
	panic(fmt.Sprintf("amqp: a %T has no fixed width", v))
}

func appendMap(dst []byte, m Map) []byte {
	start := len(dst)
	dst = openCompound(dst)
	for i := range m {
		dst = AppendValue(AppendValue(dst, m[i].Key), m[i].Value)
	}
	return closeCompound(dst, start, 2*len(m), 0xc1, 0xd1)
}

// CheckValue says whether v can be appended: an error that is ErrValue names the type that can't, or says that v is nested
// too deep, that a char is beyond U+10FFFF, or that an array holds an item that is not of its type.
func CheckValue(v any) error { return checkValue(v, 0) }

func checkValue(v any, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrValue, MaxDepth)
	}
	switch x := v.(type) {
	case List:
		for _, e := range x {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case Map:
		for i := range x {
			if err := checkValue(x[i].Key, depth+1); err != nil {
				return err
			}
			if err := checkValue(x[i].Value, depth+1); err != nil {
				return err
			}
		}
		return nil
	case Array:
		return checkArray(x, depth)
	case *Described:
		if x == nil || x.Descriptor == nil {
			return fmt.Errorf("%w: a described value without a descriptor", ErrValue)
		}
		if err := checkValue(x.Descriptor, depth+1); err != nil {
			return err
		}
		return checkValue(x.Value, depth+1)
	case Char:
		if x < 0 || x > 0x10ffff {
			return fmt.Errorf("%w: a char beyond U+10FFFF", ErrValue)
		}
		return nil
	case composite:
		return nil
	}
	if typeOf(v) == 0 {
		return fmt.Errorf("%w: %T", ErrValue, v)
	}
	return nil
}

func checkArray(a Array, depth int) error {
	if a.Descriptor != nil {
		if err := checkValue(a.Descriptor, depth+1); err != nil {
			return err
		}
	}
	if typeOfCode[a.Type] != a.Type || a.Type == 0 {
		return fmt.Errorf("%w: an array of type 0x%02x", ErrValue, uint8(a.Type))
	}
	for _, e := range a.Items {
		if typeOf(e) != a.Type {
			return fmt.Errorf("%w: a %T in an array of type 0x%02x", ErrValue, e, uint8(a.Type))
		}
		if err := checkValue(e, depth+1); err != nil {
			return err
		}
	}
	return nil
}
