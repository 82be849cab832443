package amqp

// Released is the outcome of a delivery that was not and will not be acted upon (3.4.4).
type Released struct{}

func (*Released) deliveryState() {}

func (*Released) appendTo(dst []byte) []byte {
	return append(dst, 0x00, 0x53, byte(codeReleased), 0x45)
}

func (*Released) decode(r *reader) {
	l := r.openList("released", 0)
	r.closeList(&l)
}
