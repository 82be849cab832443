package command

// Send stores one message outside any transaction. Answer: EffectSent, with a
// refusal or none.
type Send struct {
	Conn    ConnID
	Link    uint32
	Request uint64
	// Number is the client's number of the send on a numbered link, 0 on others. A
	// number at or below the link's last is a repeat and gets its first outcome.
	Number uint64
	// Target is the incarnation that the link was attached to; zero means that
	// Address names the queue (anonymous relay), which is never created by a send.
	Target  Incarnation
	Address string
	// Message is the payload with all sections, as it came; it aliases the record.
	Message []byte
}

// Kind implements Command.
func (*Send) Kind() Kind { return KindSend }

func (c *Send) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	dst = appendUint(dst, c.Request)
	dst = appendUint(dst, c.Number)
	dst = appendUint(dst, uint64(c.Target))
	dst = appendString(dst, c.Address)
	return appendBytes(dst, c.Message)
}

func (c *Send) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Link = r.uint32()
	c.Request = r.uint()
	c.Number = r.uint()
	c.Target = Incarnation(r.uint())
	c.Address = r.string()
	c.Message = r.bytes()
}

// SendForget says that the client has settled these numbers of a numbered link:
// their kept outcomes go. No answer.
type SendForget struct {
	Conn    ConnID
	Link    uint32
	Numbers []uint64
}

// Kind implements Command.
func (*SendForget) Kind() Kind { return KindSendForget }

func (c *SendForget) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	return appendUints(dst, c.Numbers)
}

func (c *SendForget) decode(r *reader) {
	c.Conn, c.Link = ConnID(r.uint()), r.uint32()
	c.Numbers = r.uints(c.Numbers)
}
