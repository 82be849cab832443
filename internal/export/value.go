package export

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/oncemq/oncemq/internal/amqp"
)

// errValue is a value that isn't one of a line.
var errValue = errors.New("oncemq: no AMQP value")

// exact is the highest whole number that every JSON reader takes exactly; those beyond are written as strings.
const exact = 1 << 53

// typed is an AMQP value as JSON: null, booleans and strings are those of JSON; anything else is an object whose one key is the
// type's name.
func typed(v any) any {
	is := func(name string, v any) any { return map[string]any{name: v} }
	switch x := v.(type) {
	case nil, bool, string:
		return x
	case amqp.Symbol:
		return is("symbol", string(x))
	case []byte:
		return is("binary", base64.StdEncoding.EncodeToString(x))
	case float32:
		return is("float", real(float64(x), 32, uint64(math.Float32bits(x))))
	case float64:
		return is("double", real(x, 64, math.Float64bits(x)))
	case amqp.UUID:
		return is("uuid", hex.EncodeToString(x[:]))
	case amqp.Decimal32:
		return is("decimal32", hex.EncodeToString(x[:]))
	case amqp.Decimal64:
		return is("decimal64", hex.EncodeToString(x[:]))
	case amqp.Decimal128:
		return is("decimal128", hex.EncodeToString(x[:]))
	case amqp.List:
		return is("list", typedList(x))
	case amqp.Map:
		return is("map", typedMap(x))
	case amqp.Array:
		return is("array", map[string]any{"type": fmt.Sprintf("%02x", uint8(x.Type)), "descriptor": typed(x.Descriptor), "items": typedList(x.Items)})
	case *amqp.Described:
		return is("described", []any{typed(x.Descriptor), typed(x.Value)})
	}
	return typedInteger(v)
}

// integers are the types of whole numbers: name, bits, whether they have a sign, and the Go value.
var integers = map[string]struct {
	bits   int
	signed bool
	of     func(i int64, u uint64) any
}{
	"ubyte":     {8, false, func(_ int64, u uint64) any { return uint8(u) }},
	"ushort":    {16, false, func(_ int64, u uint64) any { return uint16(u) }},
	"uint":      {32, false, func(_ int64, u uint64) any { return uint32(u) }},
	"ulong":     {64, false, func(_ int64, u uint64) any { return u }},
	"byte":      {8, true, func(i int64, _ uint64) any { return int8(i) }},
	"short":     {16, true, func(i int64, _ uint64) any { return int16(i) }},
	"int":       {32, true, func(i int64, _ uint64) any { return int32(i) }},
	"long":      {64, true, func(i int64, _ uint64) any { return i }},
	"char":      {32, true, func(i int64, _ uint64) any { return amqp.Char(i) }},
	"timestamp": {64, true, func(i int64, _ uint64) any { return amqp.Timestamp(i) }},
}

func typedInteger(v any) any {
	name, text, small := "", fmt.Sprint(v), true
	switch x := v.(type) {
	case uint8:
		name = "ubyte"
	case uint16:
		name = "ushort"
	case uint32:
		name = "uint"
	case uint64:
		name, small = "ulong", x <= exact
	case int8:
		name = "byte"
	case int16:
		name = "short"
	case int32:
		name = "int"
	case int64:
		name, small = "long", x <= exact && x >= -exact
	case amqp.Char:
		name, text = "char", fmt.Sprint(int32(x))
	case amqp.Timestamp:
		name, text, small = "timestamp", fmt.Sprint(int64(x)), x <= exact && x >= -exact
	default: // what a later decoder brings; the message is then written encoded as well
		return map[string]any{"unknown": text}
	}
	if small {
		return map[string]any{name: json.Number(text)}
	}
	return map[string]any{name: text}
}

// real is a number, or the bits of one that JSON has no number for.
func real(f float64, bits int, raw uint64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprintf("%0*x", bits/4, raw)
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, bits))
}

func typedList(l []any) []any {
	all := make([]any, len(l))
	for i := range l {
		all[i] = typed(l[i])
	}
	return all
}

func typedMap(m amqp.Map) [][2]any {
	all := make([][2]any, len(m))
	for i := range m {
		all[i] = [2]any{typed(m[i].Key), typed(m[i].Value)}
	}
	return all
}

// untyped is the inverse of typed, of JSON whose numbers are json.Number.
func untyped(v any) (any, error) {
	switch x := v.(type) {
	case nil, bool, string:
		return x, nil
	case map[string]any:
		if len(x) == 1 {
			for name, inner := range x {
				return ofType(name, inner)
			}
		}
	}
	return nil, fmt.Errorf(`%w: %.100v; allowed: null, true, false, "text", and {"TYPE": ...}`, errValue, v)
}

// ofType reads a value of a named type.
func ofType(name string, v any) (any, error) {
	if of, ok := integers[name]; ok {
		var i int64
		var u uint64
		var err error
		if of.signed {
			i, err = strconv.ParseInt(fmt.Sprint(v), 10, of.bits)
		} else {
			u, err = strconv.ParseUint(fmt.Sprint(v), 10, of.bits)
		}
		return of.of(i, u), wrong(name, v, err)
	}
	switch name {
	case "list":
		l, err := untypedList(v)
		return amqp.List(l), err
	case "map":
		return untypedMap(v)
	case "array":
		return untypedArray(v)
	case "described":
		l, err := untypedList(v)
		if err == nil && len(l) != 2 {
			err = errValue
		}
		if err != nil {
			return nil, wrong(name, v, err)
		}
		return &amqp.Described{Descriptor: l[0], Value: l[1]}, nil
	case "float", "double":
		return untypedReal(name, v)
	}
	text, ok := v.(string)
	if !ok {
		return nil, wrong(name, v, errValue)
	}
	return ofText(name, text)
}

// ofText reads a value that is written as a string.
func ofText(name, text string) (any, error) {
	fixed := func(into []byte) error {
		b, err := hex.DecodeString(text)
		if err == nil && copy(into, b) != len(b) || len(b) != len(into) {
			err = errValue
		}
		return wrong(name, text, err)
	}
	switch name {
	case "symbol":
		return amqp.Symbol(text), nil
	case "binary":
		b, err := base64.StdEncoding.DecodeString(text)
		return b, wrong(name, text, err)
	case "uuid":
		var x amqp.UUID
		err := fixed(x[:])
		return x, err
	case "decimal32":
		var x amqp.Decimal32
		err := fixed(x[:])
		return x, err
	case "decimal64":
		var x amqp.Decimal64
		err := fixed(x[:])
		return x, err
	case "decimal128":
		var x amqp.Decimal128
		err := fixed(x[:])
		return x, err
	}
	return nil, fmt.Errorf("%w: there is no type %.40q", errValue, name)
}

func untypedReal(name string, v any) (any, error) {
	bits := 64
	if name == "float" {
		bits = 32
	}
	var f float64
	var raw uint64
	var err error
	if text, ok := v.(string); ok {
		if raw, err = strconv.ParseUint(text, 16, bits); bits == 32 {
			return math.Float32frombits(uint32(raw)), wrong(name, v, err)
		}
		return math.Float64frombits(raw), wrong(name, v, err)
	}
	if f, err = strconv.ParseFloat(fmt.Sprint(v), bits); bits == 32 {
		return float32(f), wrong(name, v, err)
	}
	return f, wrong(name, v, err)
}

func untypedList(v any) ([]any, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, wrong("list", v, errValue)
	}
	all := make([]any, len(l))
	var err error
	for i := range l {
		if all[i], err = untyped(l[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func untypedMap(v any) (amqp.Map, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, wrong("map", v, errValue)
	}
	m := make(amqp.Map, len(l))
	for i := range l {
		pair, err := untypedList(l[i])
		if err != nil || len(pair) != 2 {
			return nil, wrong("map", l[i], errors.Join(err, errValue))
		}
		m[i] = amqp.Pair{Key: pair[0], Value: pair[1]}
	}
	return m, nil
}

func untypedArray(v any) (any, error) {
	o, _ := v.(map[string]any)
	kind, err := strconv.ParseUint(fmt.Sprint(o["type"]), 16, 8)
	if err != nil {
		return nil, wrong("array", v, err)
	}
	descriptor, err := untyped(o["descriptor"])
	if err != nil {
		return nil, err
	}
	items, err := untypedList(o["items"])
	return amqp.Array{Type: amqp.Type(kind), Descriptor: descriptor, Items: items}, err
}

// wrong says what is no value of a type; nil where err is.
func wrong(name string, v any, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %.100v is no %s (%w)", errValue, v, name, err)
}
