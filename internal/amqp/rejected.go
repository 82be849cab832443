package amqp

// Rejected is the outcome of a delivery that is invalid (3.4.3), and of a declare or discharge that failed.
type Rejected struct {
	// Error is why; nil if the peer doesn't say.
	Error *Error
}

func (*Rejected) deliveryState() {}

func (x *Rejected) appendTo(dst []byte) []byte {
	w := openList(dst, codeRejected)
	w.fault(x.Error)
	return w.close()
}

func (x *Rejected) decode(r *reader) {
	l := r.openList("rejected", 1)
	x.Error = r.fault(&l)
	r.closeList(&l)
}
