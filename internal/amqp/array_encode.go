package amqp

import "encoding/binary"

// appendArray writes an array with the narrowest constructor that all its items fit. Constructors without width are written
// for null alone: they are legal for true, false, 0 and the empty list too, but not every peer reads those.
func appendArray(dst []byte, a Array) []byte {
	start := len(dst)
	dst = openCompound(dst)
	if a.Descriptor != nil {
		dst = AppendValue(append(dst, 0x00), a.Descriptor)
	}
	code := elementCode(a)
	dst = append(dst, code)
	for _, e := range a.Items {
		dst = appendElement(dst, code, e)
	}
	return closeCompound(dst, start, len(a.Items), 0xe0, 0xf0)
}

func appendSymbols(dst []byte, v []Symbol) []byte {
	code := byte(0xa3)
	for _, s := range v {
		if len(s) > 255 {
			code = 0xb3
		}
	}
	start := len(dst)
	dst = append(openCompound(dst), code)
	for _, s := range v {
		dst = appendVariable(dst, code, validSymbol(s))
	}
	return closeCompound(dst, start, len(v), 0xe0, 0xf0)
}

// elementCode is the narrowest constructor for all items of a.
func elementCode(a Array) byte {
	small := func(code byte, fits func(any) bool) byte {
		for _, e := range a.Items {
			if !fits(e) {
				return byte(a.Type)
			}
		}
		return code
	}
	switch a.Type {
	case TypeUint:
		return small(0x52, func(e any) bool { return e.(uint32) < 256 })
	case TypeUlong:
		return small(0x53, func(e any) bool { return e.(uint64) < 256 })
	case TypeInt:
		return small(0x54, func(e any) bool { return e.(int32) == int32(int8(e.(int32))) })
	case TypeLong:
		return small(0x55, func(e any) bool { v := toLong(e); return v == int64(int8(v)) })
	case TypeBinary:
		return small(0xa0, func(e any) bool { return len(e.([]byte)) < 256 })
	case TypeString:
		return small(0xa1, func(e any) bool { return len(validString(e.(string))) < 256 })
	case TypeSymbol:
		return small(0xa3, func(e any) bool { return len(e.(Symbol)) < 256 })
	}
	return byte(a.Type)
}

func toLong(e any) int64 {
	if v, ok := e.(int); ok {
		return int64(v)
	}
	return e.(int64)
}

// appendElement writes one item behind the array's common constructor.
func appendElement(dst []byte, code byte, e any) []byte {
	switch code {
	case 0x40:
		return dst
	case 0x52:
		return append(dst, byte(e.(uint32)))
	case 0x53:
		return append(dst, byte(e.(uint64)))
	case 0x54:
		return append(dst, byte(e.(int32)))
	case 0x55:
		return append(dst, byte(toLong(e)))
	case 0xa0, 0xb0:
		return appendVariable(dst, code, e.([]byte))
	case 0xa1, 0xb1:
		return appendVariable(dst, code, validString(e.(string)))
	case 0xa3, 0xb3:
		return appendVariable(dst, code, validSymbol(e.(Symbol)))
	case 0xd0, 0xd1, 0xf0:
		return appendCompoundElement(dst, e)
	}
	return appendWide(dst, e)
}

func appendVariable[T string | Symbol | []byte](dst []byte, code byte, v T) []byte {
	if code < 0xb0 {
		dst = append(dst, byte(len(v)))
	} else {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	}
	return append(dst, v...)
}

// appendCompoundElement writes a list, map or array behind its large constructor: size and count of 4 bytes each.
func appendCompoundElement(dst []byte, e any) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	var count int
	switch x := e.(type) {
	case List:
		count = len(x)
		for _, v := range x {
			dst = AppendValue(dst, v)
		}
	case Map:
		count = 2 * len(x)
		for i := range x {
			dst = AppendValue(AppendValue(dst, x[i].Key), x[i].Value)
		}
	case Array:
		count = len(x.Items)
		if x.Descriptor != nil {
			dst = AppendValue(append(dst, 0x00), x.Descriptor)
		}
		code := elementCode(x)
		dst = append(dst, code)
		for _, v := range x.Items {
			dst = appendElement(dst, code, v)
		}
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(count))
	return dst
}
