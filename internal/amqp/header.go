package amqp

// Header is the part of a message that a broker writes anew (3.2.1). NewHeader gives one with the default priority.
type Header struct {
	// Durable asks for storage.
	Durable bool
	// Priority is 4 by default.
	Priority uint8
	// TTL is in milliseconds.
	TTL Opt[uint32]
	// FirstAcquirer says that nobody else can have had the message (contract C8).
	FirstAcquirer bool
	// DeliveryCount is the number of failed attempts before this one.
	DeliveryCount uint32
}

// DefaultPriority is the priority of a message that names none.
const DefaultPriority uint8 = 4

// NewHeader is a Header with the defaults of the specification.
func NewHeader() Header { return Header{Priority: DefaultPriority} }

// AppendHeader appends the header section.
func AppendHeader(dst []byte, x *Header) []byte {
	w := openList(dst, codeHeader)
	w.boolOr(x.Durable, false)
	w.ubyteOr(x.Priority, DefaultPriority)
	w.optUint(x.TTL)
	w.boolOr(x.FirstAcquirer, false)
	w.uintOr(x.DeliveryCount, 0)
	return w.close()
}

func (x *Header) decode(r *reader) {
	l := r.openList("header", 5)
	x.Durable = r.boolOr(&l, "durable", false)
	x.Priority = r.ubyteOr(&l, "priority", DefaultPriority, 255)
	x.TTL = r.optUint(&l, "ttl")
	x.FirstAcquirer = r.boolOr(&l, "first-acquirer", false)
	x.DeliveryCount = r.uintOr(&l, "delivery-count", 0)
	r.closeList(&l)
}

// DecodeHeader decodes a header section, such as Sections.Header. An empty section is the default header.
func DecodeHeader(section []byte) (Header, error) {
	x := NewHeader()
	if len(section) == 0 {
		return x, nil
	}
	r := newReader(section, Limits{})
	r.section(codeHeader)
	x.decode(&r)
	return x, r.whole()
}
