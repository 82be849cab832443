package command

// Disposed is an AMQP outcome of a delivery (AMQP 3.4) as it travels in commands.
type Disposed uint8

// The outcomes. Released clears first-acquirer, since the message was on a wire, and
// leaves the delivery-count (C8).
const (
	Accepted Disposed = 1 + iota
	Rejected
	Released
	Modified
)

// Disposition is an outcome and its fields.
type Disposition struct {
	Outcome Disposed
	// Failed and UndeliverableHere are modified's flags.
	Failed, UndeliverableHere bool
	// Reason is rejected's error description, kept with the dead letter (at most
	// 1,024 bytes; the home cuts it).
	Reason string
	// Annotations are modified's message annotations, an encoded AMQP map of at most
	// 4 KiB (overlay, [3.9]); nil for none. It aliases the record.
	Annotations []byte
}

func (d *Disposition) append(dst []byte) []byte {
	flags := byte(d.Outcome)
	if d.Failed {
		flags |= 0x10
	}
	if d.UndeliverableHere {
		flags |= 0x20
	}
	more := d.Reason != "" || len(d.Annotations) > 0
	if more {
		flags |= 0x40
	}
	dst = append(dst, flags)
	if more {
		dst = appendString(dst, d.Reason)
		dst = appendBytes(dst, d.Annotations)
	}
	return dst
}

func (d *Disposition) decode(r *reader) {
	flags := r.byte()
	*d = Disposition{Outcome: Disposed(flags & 0x0f), Failed: flags&0x10 != 0, UndeliverableHere: flags&0x20 != 0}
	if d.Outcome < Accepted || d.Outcome > Modified || flags&0x80 != 0 {
		r.fail("delivery outcome")
	}
	if flags&0x40 != 0 {
		d.Reason = r.string()
		d.Annotations = r.bytes()
	}
}

// Settle applies one outcome to deliveries of a link, outside transactions. On a
// pre-settled link an accepted one is the home's report that they were written.
// Answer where Request isn't 0: EffectSettled, whose Refs are those that were lost
// (no longer the link's with that attempt).
type Settle struct {
	Conn    ConnID
	Link    uint32
	Request uint64
	// Keep: the receiver hasn't settled yet; the result stays with the link until
	// Forget ([3.3], resumable links).
	Keep bool
	Disposition
	Refs []DeliveryRef
}

// Kind implements Command.
func (*Settle) Kind() Kind { return KindSettle }

func (c *Settle) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	dst = appendUint(dst, c.Request)
	dst = appendBool(dst, c.Keep)
	dst = c.Disposition.append(dst)
	return appendRefs(dst, c.Refs)
}

func (c *Settle) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Link = r.uint32()
	c.Request = r.uint()
	c.Keep = r.bool()
	c.Disposition.decode(r)
	c.Refs = r.refs(c.Refs)
}

// Forget says that the receiver has settled these: results kept by Settle go. No
// answer.
type Forget struct {
	Conn ConnID
	Link uint32
	Refs []DeliveryRef
}

// Kind implements Command.
func (*Forget) Kind() Kind { return KindForget }

func (c *Forget) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	return appendRefs(dst, c.Refs)
}

func (c *Forget) decode(r *reader) {
	c.Conn, c.Link = ConnID(r.uint()), r.uint32()
	c.Refs = r.refs(c.Refs)
}
