package amqp

// Detach detaches a link from its session (2.7.7).
type Detach struct {
	// Handle is the link. Closed ends it for good; without it the link may be resumed.
	Handle uint32
	Closed bool
	// Error is why, nil if nothing is wrong.
	Error *Error
}

func (*Detach) frameType() uint8 { return FrameAMQP }

func (x *Detach) appendTo(dst []byte) []byte {
	w := openList(dst, codeDetach)
	w.uint(x.Handle)
	w.boolOr(x.Closed, false)
	w.fault(x.Error)
	return w.close()
}

func (x *Detach) decode(r *reader) {
	l := r.openList("detach", 3)
	x.Handle = r.needUint(&l, "handle")
	x.Closed = r.boolOr(&l, "closed", false)
	x.Error = r.fault(&l)
	r.closeList(&l)
}
