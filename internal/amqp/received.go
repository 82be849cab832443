package amqp

// Received says how much of a delivery has come (3.4.1), for its resumption.
type Received struct {
	// SectionNumber and SectionOffset (bytes) name the first byte that has not come. Both are mandatory.
	SectionNumber uint32
	SectionOffset uint64
}

func (*Received) deliveryState() {}

func (x *Received) appendTo(dst []byte) []byte {
	w := openList(dst, codeReceived)
	w.uint(x.SectionNumber)
	w.ulong(x.SectionOffset)
	return w.close()
}

func (x *Received) decode(r *reader) {
	l := r.openList("received", 2)
	x.SectionNumber = r.needUint(&l, "section-number")
	x.SectionOffset = r.needUlong(&l, "section-offset")
	r.closeList(&l)
}
