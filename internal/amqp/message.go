package amqp

// section reads the descriptor of one section, which must be code.
func (r *reader) section(code uint64) {
	if r.byte() != 0x00 || r.descriptor() != code {
		r.fail("another section than expected")
	}
}

// whole is the error of the decode of a range, which must be used up.
func (r *reader) whole() error {
	if r.err == nil && r.off != r.end {
		r.fail("bytes behind a section")
	}
	return r.result()
}

func decodeMapSection(section []byte, code uint64, lim Limits) (Map, error) {
	if len(section) == 0 {
		return nil, nil
	}
	r := newReader(section, lim)
	r.section(code)
	c := r.byte()
	if r.err == nil && typeOfCode[c] != TypeMap {
		r.fail("a section that is not a map")
	}
	if r.err != nil {
		return nil, r.err
	}
	m := r.mapOf(c)
	if err := r.whole(); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeDeliveryAnnotations decodes that section; nil if it is empty. Binaries in it alias section.
func DecodeDeliveryAnnotations(section []byte, lim Limits) (Map, error) {
	return decodeMapSection(section, codeDeliveryAnnotations, lim)
}

// DecodeMessageAnnotations decodes that section; nil if it is empty. Binaries in it alias section.
func DecodeMessageAnnotations(section []byte, lim Limits) (Map, error) {
	return decodeMapSection(section, codeMessageAnnotations, lim)
}

// DecodeApplicationProperties decodes that section; nil if it is empty. Binaries in it alias section.
func DecodeApplicationProperties(section []byte, lim Limits) (Map, error) {
	return decodeMapSection(section, codeApplicationProperties, lim)
}

// DecodeFooter decodes that section; nil if it is empty. Binaries in it alias section.
func DecodeFooter(section []byte, lim Limits) (Map, error) {
	return decodeMapSection(section, codeFooter, lim)
}

// Value decodes the body if it is a single amqp-value section: a *Declare, *Discharge or *Prepare if it is one of those (a
// message to the coordinator), else the value as DecodeValue gives it. Another body is a *DecodeError.
func (s *Sections) Value(lim Limits) (any, error) {
	r := newReader(s.Body, lim)
	if s.BodyKind != BodyValue {
		r.fail("a body that is not an amqp-value")
		return nil, r.err
	}
	r.section(codeAMQPValue)
	v := r.control()
	if err := r.whole(); err != nil {
		return nil, err
	}
	return v, nil
}

// control reads a value that may be for the coordinator.
func (r *reader) control() any {
	start := r.off
	if r.err == nil && r.off < r.end && r.buf[r.off] == 0x00 {
		r.off++
		switch r.controlCode() {
		case codeDeclare:
			x := new(Declare)
			x.decode(r)
			return x
		case codeDischarge:
			x := new(Discharge)
			x.decode(r)
			return x
		case codePrepare:
			x := new(Prepare)
			x.decode(r)
			return x
		}
		r.off = start
	}
	return r.value()
}

// controlCode is descriptor, but for descriptors of other types, which are legal in a body.
func (r *reader) controlCode() uint64 {
	if r.off < r.end {
		if t := typeOfCode[r.buf[r.off]]; t == TypeUlong || t == TypeSymbol {
			return r.descriptor()
		}
	}
	return codeUnknown
}

// Data appends the bytes of each data section of the body to dst; none if the body is of another kind. They alias the
// payload.
func (s *Sections) Data(dst [][]byte) [][]byte {
	if s.BodyKind != BodyData {
		return dst
	}
	r := newReader(s.Body, Limits{})
	for r.off < r.end && r.err == nil {
		r.section(codeData)
		c := r.byte()
		if b := r.take(r.length(c)); r.err == nil {
			dst = append(dst, b)
		}
	}
	return dst
}

// Sequences decodes the sequence sections of the body; none if the body is of another kind.
func (s *Sections) Sequences(lim Limits) ([]List, error) {
	if s.BodyKind != BodySequence {
		return nil, nil
	}
	var lists []List
	r := newReader(s.Body, lim)
	for r.off < r.end && r.err == nil {
		r.section(codeAMQPSequence)
		c := r.byte()
		lists = append(lists, r.listOf(c))
	}
	if r.err != nil {
		return nil, r.err
	}
	return lists, nil
}

func appendSection(dst []byte, code byte) []byte { return append(dst, 0x00, 0x53, code) }

// AppendDeliveryAnnotations appends that section. Keys are to be symbols.
func AppendDeliveryAnnotations(dst []byte, m Map) []byte {
	return appendMap(appendSection(dst, codeDeliveryAnnotations), m)
}

// AppendMessageAnnotations appends that section. Keys are to be symbols.
func AppendMessageAnnotations(dst []byte, m Map) []byte {
	return appendMap(appendSection(dst, codeMessageAnnotations), m)
}

// AppendApplicationProperties appends that section. Keys are to be strings, values of simple types.
func AppendApplicationProperties(dst []byte, m Map) []byte {
	return appendMap(appendSection(dst, codeApplicationProperties), m)
}

// AppendData appends a data section.
func AppendData(dst, data []byte) []byte {
	return appendBinary(appendSection(dst, codeData), data)
}

// AppendSequence appends a sequence section.
func AppendSequence(dst []byte, l List) []byte {
	return AppendValue(appendSection(dst, codeAMQPSequence), l)
}

// AppendAMQPValue appends a value section, such as that of a *Declare or *Discharge.
func AppendAMQPValue(dst []byte, v any) []byte {
	return AppendValue(appendSection(dst, codeAMQPValue), v)
}

// AppendFooter appends that section. Keys are to be symbols.
func AppendFooter(dst []byte, m Map) []byte {
	return appendMap(appendSection(dst, codeFooter), m)
}
