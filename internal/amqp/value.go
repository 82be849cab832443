package amqp

// Opt is an optional field that has no default in the specification: V holds if Set. It is a value, so that frames of
// the hot path decode without allocation. The zero Opt is an absent field.
type Opt[T any] struct {
	V   T
	Set bool
}

// Some is the Opt that is set to v.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Set: true} }

// Or is the value if it is set, else def.
func (o Opt[T]) Or(def T) T {
	if o.Set {
		return o.V
	}
	return def
}

// Symbol is an ASCII name from a domain (1.6.21).
type Symbol string

// Char is one Unicode code point (1.6.16).
type Char rune

// Timestamp is milliseconds since the Unix epoch, possibly negative (1.6.17).
type Timestamp int64

// UUID is the 16 bytes of RFC 4122 in network order (1.6.18).
type UUID [16]byte

// Decimal32 is IEEE 754-2008 decimal32 as it stands on the wire; nothing here computes with it (1.6.13).
type Decimal32 [4]byte

// Decimal64 is IEEE 754-2008 decimal64 as it stands on the wire (1.6.14).
type Decimal64 [8]byte

// Decimal128 is IEEE 754-2008 decimal128 as it stands on the wire (1.6.15).
type Decimal128 [16]byte

// List is a sequence of values of any types (1.6.22).
type List []any

// Pair is one entry of a Map.
type Pair struct {
	Key, Value any
}

// Map is a map in the order of the wire (1.6.23). Duplicate keys, which the specification forbids, are kept as they came:
// the reader decides. A nil Map is an absent field, an empty one an empty map.
type Map []Pair

// Lookup finds the first value whose key is name, be the key a symbol or a string.
func (m Map) Lookup(name string) (any, bool) {
	for i := range m {
		switch k := m[i].Key.(type) {
		case Symbol:
			if string(k) == name {
				return m[i].Value, true
			}
		case string:
			if k == name {
				return m[i].Value, true
			}
		}
	}
	return nil, false
}

// Type names a primitive type by its widest constructor (1.6). The encodings of one type differ, its Type doesn't.
type Type uint8

// The primitive types.
const (
	TypeNull       Type = 0x40
	TypeBoolean    Type = 0x56
	TypeUbyte      Type = 0x50
	TypeUshort     Type = 0x60
	TypeUint       Type = 0x70
	TypeUlong      Type = 0x80
	TypeByte       Type = 0x51
	TypeShort      Type = 0x61
	TypeInt        Type = 0x71
	TypeLong       Type = 0x81
	TypeFloat      Type = 0x72
	TypeDouble     Type = 0x82
	TypeDecimal32  Type = 0x74
	TypeDecimal64  Type = 0x84
	TypeDecimal128 Type = 0x94
	TypeChar       Type = 0x73
	TypeTimestamp  Type = 0x83
	TypeUUID       Type = 0x98
	TypeBinary     Type = 0xb0
	TypeString     Type = 0xb1
	TypeSymbol     Type = 0xb3
	TypeList       Type = 0xd0
	TypeMap        Type = 0xd1
	TypeArray      Type = 0xf0
)

// Array is a sequence of values of one type (1.6.24). Each item has the Go type that belongs to Type. Descriptor, if not
// nil, describes every item; the items are the values beneath it.
type Array struct {
	Type       Type
	Descriptor any
	Items      []any
}

// Symbols is an Array of symbols.
func Symbols(names ...Symbol) Array {
	a := Array{Type: TypeSymbol, Items: make([]any, len(names))}
	for i, n := range names {
		a.Items[i] = n
	}
	return a
}

// Ulongs is an Array of ulongs.
func Ulongs(values ...uint64) Array {
	a := Array{Type: TypeUlong, Items: make([]any, len(values))}
	for i, v := range values {
		a.Items[i] = v
	}
	return a
}

// Uint64 is the value of any integer type that is not negative, for readers that don't mind which one a client chose.
func Uint64(v any) (uint64, bool) {
	switch x := v.(type) {
	case uint64:
		return x, true
	case uint32:
		return uint64(x), true
	case uint16:
		return uint64(x), true
	case uint8:
		return uint64(x), true
	case int64:
		return uint64(x), x >= 0
	case int32:
		return uint64(x), x >= 0
	case int16:
		return uint64(x), x >= 0
	case int8:
		return uint64(x), x >= 0
	}
	return 0, false
}

// Described is a value with a descriptor, usually a ulong (uint64) or a Symbol, that this package doesn't know or that
// stands where any type may (1.2).
type Described struct {
	Descriptor any
	Value      any
}
