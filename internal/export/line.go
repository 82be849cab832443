package export

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// line is a message as a line of JSON. Sections that the message doesn't have are left out.
type line struct {
	// Queue, Position, DeliveryCount and Held say where it was; an import passes over them.
	Queue         string `json:"queue,omitempty"`
	Position      uint64 `json:"position,omitempty"`
	DeliveryCount uint32 `json:"delivery-count,omitempty"`
	Held          bool   `json:"held,omitempty"`

	Header                map[string]any `json:"header,omitempty"`
	DeliveryAnnotations   any            `json:"delivery-annotations,omitempty"`
	MessageAnnotations    any            `json:"message-annotations,omitempty"`
	Properties            map[string]any `json:"properties,omitempty"`
	ApplicationProperties any            `json:"application-properties,omitempty"`
	// Data has an element for each section, in base64; Sequence likewise; Value is an object around the value, as null is one.
	Data     []string `json:"data,omitempty"`
	Sequence []any    `json:"sequence,omitempty"`
	Value    *valued  `json:"value,omitempty"`
	Footer   any      `json:"footer,omitempty"`
	// Encoded is the message as it stood on the wire, where the sections above don't say it exactly. It counts, and they don't.
	Encoded string `json:"encoded,omitempty"`
}

// valued is the body that is one value.
type valued struct {
	Is any `json:"is"`
}

// The descriptors of sections (AMQP 3.2).
const (
	codeHeader = 0x70 + iota
	codeDeliveryAnnotations
	codeMessageAnnotations
	codeProperties
	codeApplicationProperties
	codeData
	codeSequence
	codeValue
	codeFooter
)

// symbols are the same descriptors as symbols.
var symbols = map[amqp.Symbol]uint64{
	"amqp:header:list": codeHeader, "amqp:delivery-annotations:map": codeDeliveryAnnotations, "amqp:message-annotations:map": codeMessageAnnotations,
	"amqp:properties:list": codeProperties, "amqp:application-properties:map": codeApplicationProperties, "amqp:data:binary": codeData,
	"amqp:amqp-sequence:list": codeSequence, "amqp:amqp-value:*": codeValue, "amqp:footer:map": codeFooter,
}

// The names of the fields of the two sections that are lists, in their order.
var (
	headerFields     = []string{"durable", "priority", "ttl", "first-acquirer", "delivery-count"}
	propertiesFields = []string{
		"message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding", "absolute-expiry-time",
		"creation-time", "group-id", "group-sequence", "reply-to-group-id",
	}
)

// limits are for messages that the broker has taken.
var limits = amqp.Limits{MaxBytes: 256 << 20, MaxElements: 1 << 24}

// section is one section of a message, decoded.
type section struct {
	code  uint64
	value any
}

// sections decodes a message; absent fields at the end of a list are cut, so that equal messages are equal.
func sections(message []byte) (all []section, err error) {
	for len(message) > 0 {
		v, n, err := amqp.DecodeValue(message, limits)
		if err != nil {
			return nil, err
		}
		message = message[n:]
		d, ok := v.(*amqp.Described)
		if !ok {
			return nil, fmt.Errorf("%w: a section without a descriptor", errValue)
		}
		code, known := d.Descriptor.(uint64)
		if symbol, ok := d.Descriptor.(amqp.Symbol); ok {
			code, known = symbols[symbol]
		}
		if !known {
			return nil, fmt.Errorf("%w: a section %v", errValue, d.Descriptor)
		}
		if l, ok := d.Value.(amqp.List); ok && (code == codeHeader || code == codeProperties) {
			for len(l) > 0 && l[len(l)-1] == nil {
				l = l[:len(l)-1]
			}
			d.Value = l
		}
		all = append(all, section{code, d.Value})
	}
	return all, nil
}

// write is the line of a message: l says where it was. What the sections of a line can't say exactly is added as it is.
func (l line) write(message, overlay []byte) ([]byte, error) {
	if len(overlay) > 0 {
		var err error
		if message, err = annotated(message, overlay); err != nil {
			return nil, err
		}
	}
	exact := l
	all, err := sections(message)
	if err == nil {
		err = exact.setSections(all)
	}
	if err == nil {
		if text, same := exact.same(message, all); same {
			return text, nil
		}
	} else {
		exact = l
	}
	exact.Encoded = base64.StdEncoding.EncodeToString(message)
	return json.Marshal(&exact)
}

// same is the line's text, and whether it means the same message.
func (l *line) same(message []byte, all []section) (text []byte, same bool) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, false
	}
	read, err := parse(text)
	if err != nil {
		return nil, false
	}
	again, err := read.message()
	if err != nil || bytes.Equal(again, message) {
		return text, err == nil
	}
	back, err := sections(again)
	return text, err == nil && reflect.DeepEqual(all, back)
}

// annotated merges annotations that came later over those of the message.
func annotated(message, overlay []byte) ([]byte, error) {
	s, err := amqp.ParseSections(message, limits)
	if err != nil {
		return nil, err
	}
	v, _, err := amqp.DecodeValue(overlay, limits)
	over, ok := v.(amqp.Map)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: annotations of the broker", errValue)
	}
	stored, err := amqp.DecodeMessageAnnotations(s.MessageAnnotations, limits)
	if err != nil {
		return nil, err
	}
	for _, p := range over {
		at := slices.IndexFunc(stored, func(q amqp.Pair) bool { return reflect.DeepEqual(q.Key, p.Key) })
		if at < 0 {
			stored = append(stored, p)
		} else {
			stored[at] = p
		}
	}
	before := message[:len(message)-len(s.Rest)]
	return slices.Concat(before, amqp.AppendMessageAnnotations(nil, stored), s.Rest[len(s.MessageAnnotations):]), nil
}

func (l *line) setSections(all []section) error {
	for _, s := range all {
		var m amqp.Map
		var list amqp.List
		ok := true
		switch s.code {
		case codeHeader, codeProperties, codeSequence:
			list, ok = s.value.(amqp.List)
		case codeData, codeValue:
		default:
			m, ok = s.value.(amqp.Map)
		}
		if !ok {
			return fmt.Errorf("%w: a section of another type", errValue)
		}
		var err error
		switch s.code {
		case codeHeader:
			l.Header, err = named(headerFields, list)
		case codeProperties:
			l.Properties, err = named(propertiesFields, list)
		case codeDeliveryAnnotations:
			l.DeliveryAnnotations = typedMap(m)
		case codeMessageAnnotations:
			l.MessageAnnotations = typedMap(m)
		case codeApplicationProperties:
			l.ApplicationProperties = typedMap(m)
		case codeFooter:
			l.Footer = typedMap(m)
		case codeSequence:
			l.Sequence = append(l.Sequence, typedList(list))
		case codeValue:
			l.Value = &valued{typed(s.value)}
		case codeData:
			b, ok := s.value.([]byte)
			if !ok {
				return fmt.Errorf("%w: data that isn't binary", errValue)
			}
			l.Data = append(l.Data, base64.StdEncoding.EncodeToString(b))
		default:
			return fmt.Errorf("%w: a section %#x", errValue, s.code)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named gives a list's fields their names; an empty list is an empty object.
func named(names []string, list amqp.List) (map[string]any, error) {
	if len(list) > len(names) {
		return nil, fmt.Errorf("%w: %d fields of %d", errValue, len(list), len(names))
	}
	all := map[string]any{}
	for i, v := range list {
		if v != nil {
			all[names[i]] = typed(v)
		}
	}
	return all, nil
}

// parse reads a line.
func parse(text []byte) (l line, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err = d.Decode(&l); err != nil {
		return l, err
	}
	if _, err = d.Token(); err != io.EOF {
		return l, fmt.Errorf("%w: something follows the object", errValue)
	}
	return l, nil
}

// message encodes what the line holds.
func (l *line) message() ([]byte, error) {
	if l.Encoded != "" {
		return base64.StdEncoding.DecodeString(l.Encoded)
	}
	e := encoder{}
	e.fields(codeHeader, headerFields, l.Header)
	e.pairs(codeDeliveryAnnotations, l.DeliveryAnnotations)
	e.pairs(codeMessageAnnotations, l.MessageAnnotations)
	e.fields(codeProperties, propertiesFields, l.Properties)
	e.pairs(codeApplicationProperties, l.ApplicationProperties)
	for _, text := range l.Data {
		b, err := base64.StdEncoding.DecodeString(text)
		e.add(codeData, b, err)
	}
	for _, x := range l.Sequence {
		list, err := untypedList(x)
		e.add(codeSequence, amqp.List(list), err)
	}
	if l.Value != nil {
		v, err := untyped(l.Value.Is)
		e.add(codeValue, v, err)
	}
	e.pairs(codeFooter, l.Footer)
	return e.b, e.err
}

// encoder encodes sections; the first error sticks.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) add(code uint64, v any, err error) {
	if err == nil {
		err = amqp.CheckValue(v)
	}
	if e.err == nil {
		e.err = err
	}
	if e.err == nil {
		e.b = amqp.AppendValue(e.b, &amqp.Described{Descriptor: code, Value: v})
	}
}

// pairs adds a section that is a map, if there is one.
func (e *encoder) pairs(code uint64, v any) {
	if v == nil {
		return
	}
	m, err := untypedMap(v)
	e.add(code, m, err)
}

// fields adds a section that is a list, if there is one.
func (e *encoder) fields(code uint64, names []string, fields map[string]any) {
	if fields == nil {
		return
	}
	list, found := amqp.List{}, 0
	for i, name := range names {
		v, ok := fields[name]
		if !ok {
			continue
		}
		found++
		x, err := untyped(v)
		if err != nil && e.err == nil {
			e.err = err
		}
		for len(list) < i {
			list = append(list, nil)
		}
		list = append(list, x)
	}
	if found != len(fields) && e.err == nil {
		e.err = fmt.Errorf("%w: a field that isn't one of %v", errValue, names)
	}
	e.add(code, list, nil)
}
