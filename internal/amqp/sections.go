package amqp

// BodyKind says what the body of a message consists of (3.2).
type BodyKind uint8

// The kinds of body. BodyNone, no body section at all, is normal: a plain JMS message has none.
const (
	BodyNone BodyKind = iota
	BodyData
	BodySequence
	BodyValue
)

// Sections is a message in its sections, as ranges of the payload that they alias; each includes its descriptor, and nil is
// an absent section. Nothing is decoded, everything is checked: what DecodeHeader, DecodeProperties and the others read
// from them afterwards can fail by their limits alone.
type Sections struct {
	// Header and DeliveryAnnotations are those that a broker writes anew.
	Header, DeliveryAnnotations []byte
	// MessageAnnotations travel with the message.
	MessageAnnotations []byte
	// Properties, ApplicationProperties and Body are the bare message, which is never encoded again.
	Properties, ApplicationProperties []byte
	// Body is all body sections together, BodyKind what they are and BodyCount their number: more than one of data or
	// sequence is allowed.
	Body      []byte
	BodyKind  BodyKind
	BodyCount int
	// Footer is what follows the body.
	Footer []byte

	// Rest is everything from the message annotations on: it follows a new header and new delivery annotations. Without
	// its first len(MessageAnnotations) bytes it follows new message annotations too.
	Rest []byte
	// Bare is the bare message: properties, application properties, body.
	Bare []byte
}

// ParseSections finds and checks the sections of a whole message of message-format 0. All of payload is read: text for
// UTF-8, nesting, sizes, the types of header and properties; the order of sections and that none comes twice. The budget of
// elements is spent by elements without width alone.
func ParseSections(payload []byte, lim Limits) (Sections, error) {
	p := sectionParser{r: newReader(payload, lim), bare: -1, rest: -1}
	for p.r.off < p.r.end && p.r.err == nil {
		p.next()
	}
	if p.r.err != nil {
		return Sections{}, p.r.err
	}
	return p.finish(), nil
}

// sectionParser holds where the parts of a message begin.
type sectionParser struct {
	r reader
	s Sections
	// last is the descriptor of the section before; sections come in the order of their codes.
	last uint64
	// rest and bare are where they begin, bareEnd where the bare message ends; -1 before that is known.
	rest, bare, bareEnd int
}

// next reads one section.
func (p *sectionParser) next() {
	r, start := &p.r, p.r.off
	if r.byte() != 0x00 {
		r.fail("a section that has no descriptor")
	}
	code := r.descriptor()
	if r.err != nil {
		return
	}
	if !p.inOrder(code) {
		return
	}
	p.last = code
	if p.rest < 0 && code >= codeMessageAnnotations {
		p.rest = start
	}
	if p.bare < 0 && code >= codeProperties && code <= codeAMQPValue {
		p.bare = start
	}
	p.content(code)
	if r.err != nil {
		return
	}
	if code >= codeProperties && code <= codeAMQPValue {
		p.bareEnd = r.off
	}
	p.keep(code, start)
}

func (p *sectionParser) inOrder(code uint64) bool {
	switch {
	case code < codeHeader || code > codeFooter:
		p.r.fail("a section that is not defined")
	case code > p.last && isBody(code) && isBody(p.last):
		p.r.fail("a body of two kinds")
	case code > p.last, code == p.last && (code == codeData || code == codeAMQPSequence):
		return true
	case code == p.last:
		p.r.fail("a section that comes twice")
	default:
		p.r.fail("a section that comes too late")
	}
	return false
}

func isBody(code uint64) bool { return code >= codeData && code <= codeAMQPValue }

// content checks what stands behind the descriptor.
func (p *sectionParser) content(code uint64) {
	r := &p.r
	switch code {
	case codeHeader:
		var h Header
		h.decode(r)
	case codeProperties:
		r.checkProperties()
	case codeApplicationProperties:
		r.checkMap(true)
	case codeDeliveryAnnotations, codeMessageAnnotations, codeFooter:
		r.checkMap(false)
	case codeData:
		r.checkType(TypeBinary, "a data section that is not a binary")
	case codeAMQPSequence:
		r.checkType(TypeList, "a sequence section that is not a list")
	case codeAMQPValue:
		r.skip()
	}
}

// keep stores the range of the section that began at start.
func (p *sectionParser) keep(code uint64, start int) {
	s, b := &p.s, p.r.buf[start:p.r.off:p.r.off]
	switch code {
	case codeHeader:
		s.Header = b
	case codeDeliveryAnnotations:
		s.DeliveryAnnotations = b
	case codeMessageAnnotations:
		s.MessageAnnotations = b
	case codeProperties:
		s.Properties = b
	case codeApplicationProperties:
		s.ApplicationProperties = b
	case codeFooter:
		s.Footer = b
	default:
		// Body sections stand one behind the other: the range grows.
		s.Body = p.r.buf[start-len(s.Body) : p.r.off : p.r.off]
		s.BodyCount++
		s.BodyKind = BodyKind(code-codeData) + BodyData
	}
}

func (p *sectionParser) finish() Sections {
	s, buf := p.s, p.r.buf
	if p.rest >= 0 {
		s.Rest = buf[p.rest:len(buf):len(buf)]
	}
	if p.bare >= 0 {
		s.Bare = buf[p.bare:p.bareEnd:p.bareEnd]
	}
	return s
}

// checkType skips a value that must be of type t.
func (r *reader) checkType(t Type, what string) {
	c := r.byte()
	if r.err == nil && typeOfCode[c] != t {
		r.fail(what)
		return
	}
	if r.err == nil {
		r.skipOf(c)
	}
}

// checkMap skips a map; the keys of application properties must be strings (3.2.5). Those of annotations should be symbols
// or ulongs (3.2.10), but clients send others and nothing here depends on it.
func (r *reader) checkMap(stringKeys bool) {
	c := r.byte()
	if r.err == nil && typeOfCode[c] != TypeMap {
		r.fail("a section that is not a map")
	}
	if r.err != nil {
		return
	}
	if !stringKeys {
		r.skipElements(c)
		return
	}
	r.enter()
	count, end := r.compound(c, 1)
	if count%2 != 0 {
		r.fail("a map with an odd count")
	}
	if r.err != nil {
		return
	}
	outer := r.inside(end)
	for i := uint32(0); i < count && r.err == nil; i += 2 {
		r.checkType(TypeString, "a key of application properties that is not a string")
		r.skip()
	}
	r.outside(outer)
}
