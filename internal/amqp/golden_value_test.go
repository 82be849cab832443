package amqp

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

var long300 = strings.Repeat("x", 300)

// goldenValues are written by hand from part 1 of the specification: what we write and what we read.
var goldenValues = []golden{
	{"null", "40", nil},
	{"true", "41", true},
	{"false", "42", false},
	{"ubyte", "50 ff", uint8(255)},
	{"ushort", "60 01 02", uint16(0x0102)},
	{"uint0", "43", uint32(0)},
	{"smalluint", "52 ff", uint32(255)},
	{"uint", "70 00 00 01 00", uint32(256)},
	{"ulong0", "44", uint64(0)},
	{"smallulong", "53 01", uint64(1)},
	{"ulong", "80 ff ff ff ff ff ff ff ff", uint64(math.MaxUint64)},
	{"byte", "51 80", int8(-128)},
	{"short", "61 ff fe", int16(-2)},
	{"smallint", "54 ff", int32(-1)},
	{"int", "71 80 00 00 00", int32(math.MinInt32)},
	{"smalllong", "55 80", int64(-128)},
	{"long", "81 00 00 00 00 00 00 00 80", int64(128)},
	{"float", "72 3f 80 00 00", float32(1)},
	{"double", "82 c0 00 00 00 00 00 00 00", float64(-2)},
	{"decimal32", "74 01 02 03 04", Decimal32{1, 2, 3, 4}},
	{"decimal64", "84 01 02 03 04 05 06 07 08", Decimal64{1, 2, 3, 4, 5, 6, 7, 8}},
	{
		"decimal128", "94 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10",
		Decimal128{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	},
	{"char", "73 00 10 ff ff", Char(0x10ffff)},
	{"timestamp, least", "83 80 00 00 00 00 00 00 00", Timestamp(math.MinInt64)},
	{"timestamp, most", "83 7f ff ff ff ff ff ff ff", Timestamp(math.MaxInt64)},
	{
		"uuid", "98 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10",
		UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	},
	{"vbin8", "a0 02 00 ff", []byte{0, 255}},
	{"vbin8, empty", "a0 00", []byte{}},
	{"vbin32", "b0 00 00 01 2c '" + long300, []byte(long300)},
	{"str8", "a1 03 e2 82 ac", "€"},
	{"str32", "b1 00 00 01 2c '" + long300, long300},
	{"sym8", "a3 03 'abc", Symbol("abc")},
	{"sym32", "b3 00 00 01 2c '" + long300, Symbol(long300)},
	{"list0", "45", List{}},
	{"list8", "c0 04 02 41 52 07", List{true, uint32(7)}},
	{"list32", "d0 00 00 01 35 00 00 00 01 b1 00 00 01 2c '" + long300, List{long300}},
	{"map8, empty", "c1 01 00", Map{}},
	{"map8, order of the wire", "c1 09 04 a3 01 'b 41 a3 01 'a 42", Map{{Symbol("b"), true}, {Symbol("a"), false}}},
	{"map8, duplicates", "c1 09 04 a3 01 'a 41 a3 01 'a 42", Map{{Symbol("a"), true}, {Symbol("a"), false}}},
	{"described", "00 53 05 a1 01 'x", &Described{Descriptor: uint64(5), Value: "x"}},
	{"described by symbol", "00 a3 03 'a:b 45", &Described{Descriptor: Symbol("a:b"), Value: List{}}},
	{"described twice", "00 53 05 00 53 06 40", &Described{Descriptor: uint64(5), Value: &Described{Descriptor: uint64(6)}}},
	{
		"descriptor that is described", "00 00 53 05 53 06 40",
		&Described{Descriptor: &Described{Descriptor: uint64(5), Value: uint64(6)}},
	},
	{"array of null", "e0 02 03 40", Array{Type: TypeNull, Items: []any{nil, nil, nil}}},
	{"array of boolean", "e0 04 02 56 01 00", Array{Type: TypeBoolean, Items: []any{true, false}}},
	{"array of ubyte", "e0 04 02 50 01 ff", Array{Type: TypeUbyte, Items: []any{uint8(1), uint8(255)}}},
	{"array of byte", "e0 03 01 51 ff", Array{Type: TypeByte, Items: []any{int8(-1)}}},
	{"array of ushort", "e0 04 01 60 00 01", Array{Type: TypeUshort, Items: []any{uint16(1)}}},
	{"array of short", "e0 04 01 61 ff ff", Array{Type: TypeShort, Items: []any{int16(-1)}}},
	{"array of small uint", "e0 04 02 52 00 ff", Array{Type: TypeUint, Items: []any{uint32(0), uint32(255)}}},
	{"array of uint", "e0 0a 02 70 00 00 00 01 00 00 01 00", Array{Type: TypeUint, Items: []any{uint32(1), uint32(256)}}},
	{"array of small ulong", "e0 04 02 53 05 07", Ulongs(5, 7)},
	{"array of ulong", "e0 0a 01 80 00 00 00 00 00 00 01 00", Ulongs(256)},
	{"array of small int", "e0 04 02 54 ff 01", Array{Type: TypeInt, Items: []any{int32(-1), int32(1)}}},
	{"array of int", "e0 06 01 71 00 00 00 80", Array{Type: TypeInt, Items: []any{int32(128)}}},
	{"array of small long", "e0 03 01 55 80", Array{Type: TypeLong, Items: []any{int64(-128)}}},
	{"array of long", "e0 0a 01 81 00 00 00 00 00 00 00 80", Array{Type: TypeLong, Items: []any{int64(128)}}},
	{"array of float", "e0 06 01 72 3f 80 00 00", Array{Type: TypeFloat, Items: []any{float32(1)}}},
	{"array of double", "e0 0a 01 82 c0 00 00 00 00 00 00 00", Array{Type: TypeDouble, Items: []any{float64(-2)}}},
	{"array of char", "e0 06 01 73 00 00 00 41", Array{Type: TypeChar, Items: []any{Char('A')}}},
	{"array of timestamp", "e0 0a 01 83 00 00 00 00 00 00 00 01", Array{Type: TypeTimestamp, Items: []any{Timestamp(1)}}},
	{"array of decimal32", "e0 06 01 74 01 02 03 04", Array{Type: TypeDecimal32, Items: []any{Decimal32{1, 2, 3, 4}}}},
	{
		"array of uuid", "e0 12 01 98 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10",
		Array{Type: TypeUUID, Items: []any{UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}},
	},
	{"array of binary", "e0 05 02 a0 00 01 ff", Array{Type: TypeBinary, Items: []any{[]byte{}, []byte{255}}}},
	{"array of string", "e0 06 02 a1 01 'a 01 'b", Array{Type: TypeString, Items: []any{"a", "b"}}},
	{"array of symbol", "e0 06 02 a3 01 'a 01 'b", Symbols("a", "b")},
	{
		"array of list", "e0 17 02 d0 00 00 00 05 00 00 00 01 41 00 00 00 08 00 00 00 04 41 41 41 41",
		Array{Type: TypeList, Items: []any{List{true}, List{true, true, true, true}}},
	},
	{"array of map", "e0 0c 01 d1 00 00 00 06 00 00 00 02 41 42", Array{Type: TypeMap, Items: []any{Map{{true, false}}}}},
	{
		"array of array", "e0 0c 01 f0 00 00 00 06 00 00 00 01 50 07",
		Array{Type: TypeArray, Items: []any{Array{Type: TypeUbyte, Items: []any{uint8(7)}}}},
	},
	{"array of described", "e0 06 01 00 53 05 50 07", Array{Type: TypeUbyte, Descriptor: uint64(5), Items: []any{uint8(7)}}},
	{"array, empty", "e0 02 00 a3", Symbols()},
}

func TestGoldenValues(t *testing.T) {
	for _, g := range goldenValues {
		t.Run(g.name, func(t *testing.T) {
			b := wire(t, g.wire)
			if got := AppendValue(nil, g.want); !bytes.Equal(got, b) {
				t.Errorf("written %x\n   want %x", got, b)
			}
			if err := CheckValue(g.want); err != nil {
				t.Error(err)
			}
			got, n, err := DecodeValue(append(b, 0xff), Limits{})
			if err != nil || n != len(b) {
				t.Fatalf("%d bytes of %d, %v", n, len(b), err)
			}
			if !reflect.DeepEqual(got, g.want) {
				t.Errorf("read %#v\nwant %#v", got, g.want)
			}
			if n, err := SkipValue(b, Limits{}); err != nil || n != len(b) {
				t.Errorf("skipped %d bytes of %d, %v", n, len(b), err)
			}
			if c := CloneValue(got); !reflect.DeepEqual(c, got) {
				t.Errorf("cloned %#v", c)
			}
			for i := range b {
				if _, _, err := DecodeValue(b[:i:i], Limits{}); err == nil {
					t.Errorf("%d bytes of %d are a whole value", i, len(b))
				}
				if _, err := SkipValue(b[:i:i], Limits{}); err == nil {
					t.Errorf("%d bytes of %d are a whole value to skip", i, len(b))
				}
			}
		})
	}
}

// Wide encodings of what we write narrow.
func TestReadOnlyValues(t *testing.T) {
	for _, g := range []golden{
		{"boolean true", "56 01", true},
		{"boolean false", "56 00", false},
		{"uint of four bytes", "70 00 00 00 00", uint32(0)},
		{"ulong of eight bytes", "80 00 00 00 00 00 00 00 05", uint64(5)},
		{"int of four bytes", "71 ff ff ff ff", int32(-1)},
		{"long of eight bytes", "81 ff ff ff ff ff ff ff ff", int64(-1)},
		{"vbin32, short", "b0 00 00 00 01 07", []byte{7}},
		{"str32, short", "b1 00 00 00 01 'a", "a"},
		{"sym32, short", "b3 00 00 00 01 'a", Symbol("a")},
		{"list8, empty", "c0 01 00", List{}},
		{"list32, empty", "d0 00 00 00 04 00 00 00 00", List{}},
		{"map32", "d1 00 00 00 06 00 00 00 02 41 42", Map{{true, false}}},
		{"array32", "f0 00 00 00 06 00 00 00 01 50 07", Array{Type: TypeUbyte, Items: []any{uint8(7)}}},
		{"array of true without width", "e0 02 02 41", Array{Type: TypeBoolean, Items: []any{true, true}}},
		{"array of false without width", "e0 02 01 42", Array{Type: TypeBoolean, Items: []any{false}}},
		{"array of uint0", "e0 02 01 43", Array{Type: TypeUint, Items: []any{uint32(0)}}},
		{"array of ulong0", "e0 02 01 44", Ulongs(0)},
		{"array of list0", "e0 02 02 45", Array{Type: TypeList, Items: []any{List{}, List{}}}},
		{"array of list8", "e0 05 01 c0 02 01 41", Array{Type: TypeList, Items: []any{List{true}}}},
		{"lone surrogate", "73 00 00 d8 00", Char(0xd800)},
		{"NUL and newline", "a1 02 00 0a", "\x00\n"},
	} {
		got, n, err := DecodeValue(wire(t, g.wire), Limits{})
		if err != nil || n != len(wire(t, g.wire)) {
			t.Errorf("%s: %d bytes, %v", g.name, n, err)
		} else if !reflect.DeepEqual(got, g.want) {
			t.Errorf("%s: read %#v, want %#v", g.name, got, g.want)
		}
		if n, err := SkipValue(wire(t, g.wire), Limits{}); err != nil || n != len(wire(t, g.wire)) {
			t.Errorf("%s: skipped %d bytes, %v", g.name, n, err)
		}
	}
}

// The small kinds end where a byte does: 255 bytes of text, 255 elements, 255 bytes with the count among them.
func TestEndOfTheSmallKinds(t *testing.T) {
	nulls := func(n int) List { return make(List, n) }
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name   string
		v      any
		code   byte
		length int
	}{
		{"str8", text(255), 0xa1, 2 + 255},
		{"str32", text(256), 0xb1, 5 + 256},
		{"vbin8", make([]byte, 255), 0xa0, 2 + 255},
		{"vbin32", make([]byte, 256), 0xb0, 5 + 256},
		{"sym8", Symbol(text(255)), 0xa3, 2 + 255},
		{"sym32", Symbol(text(256)), 0xb3, 5 + 256},
		{"list8", nulls(254), 0xc0, 3 + 254},
		{"list32", nulls(255), 0xd0, 9 + 255},
		{"list8 of one", List{text(252)}, 0xc0, 3 + 254},
		{"list32 of one", List{text(253)}, 0xd0, 9 + 255},
		{"map8", Map{{text(251), nil}}, 0xc1, 3 + 254},
		{"map32", Map{{text(252), nil}}, 0xd1, 9 + 255},
		{"array8", Array{Type: TypeNull, Items: nulls(255)}, 0xe0, 4},
		{"array32", Array{Type: TypeNull, Items: nulls(256)}, 0xf0, 10},
		{"array8 of bytes", Array{Type: TypeString, Items: []any{text(252)}}, 0xe0, 3 + 254},
		{"array32 of bytes", Array{Type: TypeString, Items: []any{text(253)}}, 0xf0, 9 + 255},
		{"symbols8", Symbols(Symbol(text(252))), 0xe0, 3 + 254},
		{"symbols32", Symbols(Symbol(text(253))), 0xf0, 9 + 255},
	} {
		b := AppendValue([]byte("ab"), c.v)[2:]
		if b[0] != c.code || len(b) != c.length {
			t.Errorf("%s: constructor 0x%02x, %d bytes", c.name, b[0], len(b))
		}
		if v, n, err := DecodeValue(b, Limits{}); err != nil || n != len(b) || !same(v, c.v) {
			t.Errorf("%s: %d bytes, %v", c.name, n, err)
		}
	}
	long := &Coordinator{Capabilities: []Symbol{Symbol(text(300)), "b"}}
	if v, err := readComposite(long.appendTo(nil), Limits{}); err != nil || !reflect.DeepEqual(v, long) {
		t.Errorf("symbols of the large kind: %v, %v", v, err)
	}
}

func TestNaNKeepsItsBits(t *testing.T) {
	for _, s := range []string{"72 7f c0 00 01", "82 ff f8 00 00 00 00 00 07"} {
		b := wire(t, s)
		v, _, err := DecodeValue(b, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendValue(nil, v); !bytes.Equal(got, b) {
			t.Errorf("%x came back as %x", b, got)
		}
	}
}

func TestInt(t *testing.T) {
	if got := AppendValue(nil, 300); !bytes.Equal(got, wire(t, "81 00 00 00 00 00 00 01 2c")) {
		t.Errorf("300 is %x", got)
	}
	if got := AppendValue(nil, Array{Type: TypeLong, Items: []any{1, int64(300)}}); len(got) != 4+16 {
		t.Errorf("an array of int and int64 is %x", got)
	}
}

func TestCheckValue(t *testing.T) {
	deep := any("x")
	for range MaxDepth + 1 {
		deep = List{deep}
	}
	for name, v := range map[string]any{
		"struct":                 struct{}{},
		"in a list":              List{make(chan int)},
		"in a map":               Map{{"k", []string{"x"}}},
		"map key":                Map{{struct{}{}, 1}},
		"in a described":         &Described{Descriptor: uint64(1), Value: struct{}{}},
		"descriptor null":        &Described{Value: "x"},
		"array item":             Array{Type: TypeUint, Items: []any{uint64(1)}},
		"array type":             Array{Type: 0x52, Items: []any{uint32(1)}},
		"array without type":     Array{},
		"char beyond":            Char(0x110000),
		"nested deeper than can": deep,
	} {
		if CheckValue(v) == nil {
			t.Errorf("%s passes", name)
		}
	}
	for name, v := range map[string]any{"int": 5, "composite": &Declare{}, "policy": DeleteOnClose, "nil": nil} {
		if err := CheckValue(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What we write must not make a peer refuse the frame.
func TestTextIsMadeValid(t *testing.T) {
	v, _, err := DecodeValue(AppendValue(nil, "a\xffb"), Limits{})
	if err != nil || v != "a\uFFFDb" {
		t.Errorf("string: %q, %v", v, err)
	}
	v, _, err = DecodeValue(AppendValue(nil, Symbol("a€b")), Limits{})
	if err != nil || v != Symbol("a?b") {
		t.Errorf("symbol: %q, %v", v, err)
	}
	v, _, err = DecodeValue(AppendValue(nil, Symbols("ä", Symbol(strings.Repeat("ä", 200)))), Limits{})
	if err != nil || !reflect.DeepEqual(v, Symbols("?", Symbol(strings.Repeat("?", 200)))) {
		t.Errorf("symbols: %v, %v", v, err)
	}
	// 100 bad bytes in a row become one replacement, single ones grow threefold: past the small kind here.
	grown := strings.Repeat("\xffa", 120)
	v, _, err = DecodeValue(AppendValue(nil, Array{Type: TypeString, Items: []any{grown}}), Limits{})
	if err != nil || v.(Array).Items[0] != strings.Repeat("\uFFFDa", 120) {
		t.Errorf("strings in an array: %v, %v", v, err)
	}
}
