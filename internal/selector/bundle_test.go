package selector

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// The types that a test's message is made of, beside those of Go.
type (
	symbol    string
	timestamp int64
	uuid      [16]byte
	char      rune
	// raw is an encoded value.
	raw []byte
)

// encode is the encoding of a value; a value of Go is that type of AMQP, nil null.
func encode(v any) []byte {
	be := binary.BigEndian
	switch v := v.(type) {
	case nil:
		return []byte{codeNull}
	case bool:
		if v {
			return []byte{codeTrue}
		}
		return []byte{codeFalse}
	case int8:
		return []byte{codeByte, byte(v)}
	case uint8:
		return []byte{codeUbyte, v}
	case int16:
		return be.AppendUint16([]byte{codeShort}, uint16(v))
	case uint16:
		return be.AppendUint16([]byte{codeUshort}, v)
	case int32:
		return be.AppendUint32([]byte{codeInt}, uint32(v))
	case uint32:
		return be.AppendUint32([]byte{codeUint}, v)
	case int:
		return encode(int64(v))
	case int64:
		return be.AppendUint64([]byte{codeLong}, uint64(v))
	case uint64:
		return be.AppendUint64([]byte{codeUlong}, v)
	case timestamp:
		return be.AppendUint64([]byte{codeTimestamp}, uint64(v))
	case float32:
		return be.AppendUint32([]byte{codeFloat}, math.Float32bits(v))
	case float64:
		return be.AppendUint64([]byte{codeDouble}, math.Float64bits(v))
	case char:
		return be.AppendUint32([]byte{0x73}, uint32(v))
	case uuid:
		return append([]byte{codeUUID}, v[:]...)
	case raw:
		return v
	case string:
		return variable(codeString8, codeString32, v)
	case symbol:
		return variable(codeSymbol8, codeSymbol32, string(v))
	case []byte:
		return variable(codeBinary8, codeBinary32, string(v))
	}
	panic("a type that the tests don't encode")
}

func variable(code8, code32 byte, s string) []byte {
	if len(s) < 256 {
		return append([]byte{code8, byte(len(s))}, s...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{code32}, uint32(len(s))), s...)
}

// section is an encoded section: a list or a map of those elements.
func section(descriptor, code byte, elements ...any) []byte {
	var body []byte
	for _, e := range elements {
		body = append(body, encode(e)...)
	}
	b := binary.BigEndian.AppendUint32([]byte{0, 0x53, descriptor, code}, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(b, uint32(len(elements))), body...)
}

func header(fields ...any) []byte       { return section(0x70, codeList32, fields...) }
func annotations(pairs ...any) []byte   { return section(0x72, codeMap32, pairs...) }
func properties(fields ...any) []byte   { return section(0x73, codeList32, fields...) }
func applications(pairs ...any) []byte  { return section(0x74, codeMap32, pairs...) }
func withProperties(ps ...any) *Message { return &Message{ApplicationProperties: applications(ps...)} }

// result evaluates text; it goes through the parsed form twice, which has to be the same both times.
func result(t testing.TB, text string, m *Message) cond {
	t.Helper()
	parsed, err := Parse(text)
	if err != nil {
		t.Errorf("%.80s: %v", text, err)
		return condFalse
	}
	s, err := Decode(parsed.AppendTo(nil))
	if err != nil {
		t.Errorf("%.80s: %v", text, err)
		return condFalse
	}
	if a, b := string(parsed.AppendTo(nil)), string(s.AppendTo(nil)); a != b {
		t.Errorf("%.80s: form %x became %x", text, a, b)
	}
	s.fill(m)
	c := s.run()
	if s.Match(m) != (c == condTrue) || parsed.Match(m) != (c == condTrue) || s.Match(m) != (c == condTrue) {
		t.Errorf("%.80s: evaluated to %s, but Match says otherwise", text, c)
	}
	return c
}

// String names a condition.
func (c cond) String() string { return [...]string{"false", "unknown", "true"}[c] }

func condNamed(s string) cond { return cond(strings.Index("FUT", s)) }
