package amqp

// Flow updates the windows of a session and, with Handle set, the credit of a link (2.7.4).
type Flow struct {
	// NextIncomingID is unset as long as the peer's Begin has not been seen.
	NextIncomingID Opt[uint32]
	// IncomingWindow and OutgoingWindow count transfers; NextOutgoingID is the id of the next transfer.
	IncomingWindow, NextOutgoingID, OutgoingWindow uint32
	// Handle is the link, unset in a flow of the session alone. DeliveryCount, LinkCredit and Available (counts of
	// deliveries) belong to the link.
	Handle, DeliveryCount, LinkCredit, Available Opt[uint32]
	// Drain asks the sender to use up or give back its credit; Echo asks for a flow in return.
	Drain, Echo bool
	// Properties of the link's state, such as txn-id.
	Properties Map
}

func (*Flow) frameType() uint8 { return FrameAMQP }

func (x *Flow) appendTo(dst []byte) []byte {
	w := openList(dst, codeFlow)
	w.optUint(x.NextIncomingID)
	w.uint(x.IncomingWindow)
	w.uint(x.NextOutgoingID)
	w.uint(x.OutgoingWindow)
	w.optUint(x.Handle)
	w.optUint(x.DeliveryCount)
	w.optUint(x.LinkCredit)
	w.optUint(x.Available)
	w.boolOr(x.Drain, false)
	w.boolOr(x.Echo, false)
	w.mapping(x.Properties)
	return w.close()
}

func (x *Flow) decode(r *reader) {
	l := r.openList("flow", 11)
	x.NextIncomingID = r.optUint(&l, "next-incoming-id")
	x.IncomingWindow = r.needUint(&l, "incoming-window")
	x.NextOutgoingID = r.needUint(&l, "next-outgoing-id")
	x.OutgoingWindow = r.needUint(&l, "outgoing-window")
	x.Handle = r.optUint(&l, "handle")
	x.DeliveryCount = r.optUint(&l, "delivery-count")
	x.LinkCredit = r.optUint(&l, "link-credit")
	x.Available = r.optUint(&l, "available")
	x.Drain = r.boolOr(&l, "drain", false)
	x.Echo = r.boolOr(&l, "echo", false)
	x.Properties = r.mapping(&l, "properties")
	r.closeList(&l)
}
