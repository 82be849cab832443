package amqp

// End ends a session (2.7.8).
type End struct {
	// Error is why, nil if nothing is wrong.
	Error *Error
}

func (*End) frameType() uint8 { return FrameAMQP }

func (x *End) appendTo(dst []byte) []byte {
	w := openList(dst, codeEnd)
	w.fault(x.Error)
	return w.close()
}

func (x *End) decode(r *reader) {
	l := r.openList("end", 1)
	x.Error = r.fault(&l)
	r.closeList(&l)
}
