package amqp

// Disposition tells the state of a range of deliveries (2.7.6).
type Disposition struct {
	// Role is the role of the peer that sends this frame: its deliveries are those of the links where it has that role.
	Role Role
	// First and Last are delivery-ids, both inclusive; an unset Last is First. The range may wrap or be absurd: the
	// engine checks it against what is unsettled.
	First uint32
	Last  Opt[uint32]
	// Settled says that the sender of this frame forgets the deliveries.
	Settled bool
	// State is nil where none is told.
	State DeliveryState
	// Batchable says that the answer may wait.
	Batchable bool
}

func (*Disposition) frameType() uint8 { return FrameAMQP }

func (x *Disposition) appendTo(dst []byte) []byte {
	w := openList(dst, codeDisposition)
	w.bool(bool(x.Role))
	w.uint(x.First)
	w.optUint(x.Last)
	w.boolOr(x.Settled, false)
	w.state(x.State)
	w.boolOr(x.Batchable, false)
	return w.close()
}

func (x *Disposition) decode(r *reader) {
	l := r.openList("disposition", 6)
	x.Role = Role(r.needBool(&l, "role"))
	x.First = r.needUint(&l, "first")
	x.Last = r.optUint(&l, "last")
	x.Settled = r.boolOr(&l, "settled", false)
	x.State = r.state(&l, "state")
	x.Batchable = r.boolOr(&l, "batchable", false)
	r.closeList(&l)
}
