package amqp

// Transfer carries a message or a part of one; the payload follows it in its frame (2.7.5).
type Transfer struct {
	// Handle is the link.
	Handle uint32
	// DeliveryID is mandatory in the first transfer of a delivery, and so is DeliveryTag (at most 32 bytes, which the
	// engine checks). A nil tag is absent, an empty one is a tag without bytes. It aliases the decoded bytes.
	DeliveryID  Opt[uint32]
	DeliveryTag []byte
	// MessageFormat is 0 for the messages of this specification.
	MessageFormat Opt[uint32]
	// Settled, unset in a continuation, stays as it was.
	Settled Opt[bool]
	// More says that the delivery goes on in another transfer.
	More bool
	// ReceiverSettleMode overrides the link's for this delivery.
	ReceiverSettleMode Opt[ReceiverSettleMode]
	// State is the sender's state of the delivery, in particular *TransactionalState.
	State DeliveryState
	// Resume marks a delivery that is resumed on a recovered link; Aborted drops what came of it; Batchable says that
	// the answer may wait.
	Resume, Aborted, Batchable bool
}

func (*Transfer) frameType() uint8 { return FrameAMQP }

func (x *Transfer) appendTo(dst []byte) []byte {
	w := openList(dst, codeTransfer)
	w.uint(x.Handle)
	w.optUint(x.DeliveryID)
	w.bin(x.DeliveryTag)
	w.optUint(x.MessageFormat)
	w.optBool(x.Settled)
	w.boolOr(x.More, false)
	w.optUbyte(Opt[uint8]{V: uint8(x.ReceiverSettleMode.V), Set: x.ReceiverSettleMode.Set})
	w.state(x.State)
	w.boolOr(x.Resume, false)
	w.boolOr(x.Aborted, false)
	w.boolOr(x.Batchable, false)
	return w.close()
}

func (x *Transfer) decode(r *reader) {
	l := r.openList("transfer", 11)
	x.Handle = r.needUint(&l, "handle")
	x.DeliveryID = r.optUint(&l, "delivery-id")
	x.DeliveryTag = r.bin(&l, "delivery-tag")
	x.MessageFormat = r.optUint(&l, "message-format")
	x.Settled = r.optBool(&l, "settled")
	x.More = r.boolOr(&l, "more", false)
	mode := r.optUbyte(&l, "rcv-settle-mode", 1)
	x.ReceiverSettleMode = Opt[ReceiverSettleMode]{V: ReceiverSettleMode(mode.V), Set: mode.Set}
	x.State = r.state(&l, "state")
	x.Resume = r.boolOr(&l, "resume", false)
	x.Aborted = r.boolOr(&l, "aborted", false)
	x.Batchable = r.boolOr(&l, "batchable", false)
	r.closeList(&l)
}
