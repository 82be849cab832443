package amqp

// Accepted is the outcome of a delivery that was taken over (3.4.2), and of a discharge that committed.
type Accepted struct{}

func (*Accepted) deliveryState() {}

func (*Accepted) appendTo(dst []byte) []byte {
	return append(dst, 0x00, 0x53, byte(codeAccepted), 0x45)
}

func (*Accepted) decode(r *reader) {
	l := r.openList("accepted", 0)
	r.closeList(&l)
}
