package amqp

// Close ends a connection (2.7.9).
type Close struct {
	// Error is why, nil if nothing is wrong.
	Error *Error
}

func (*Close) frameType() uint8 { return FrameAMQP }

func (x *Close) appendTo(dst []byte) []byte {
	w := openList(dst, codeClose)
	w.fault(x.Error)
	return w.close()
}

func (x *Close) decode(r *reader) {
	l := r.openList("close", 1)
	x.Error = r.fault(&l)
	r.closeList(&l)
}
