package amqp

// Modified is the outcome of a delivery that was not processed and is changed for its next attempt (3.4.5).
type Modified struct {
	// DeliveryFailed counts this attempt as failed; UndeliverableHere keeps the message from this link.
	DeliveryFailed, UndeliverableHere bool
	// MessageAnnotations are merged into the message's; nil if absent.
	MessageAnnotations Map
}

func (*Modified) deliveryState() {}

func (x *Modified) appendTo(dst []byte) []byte {
	w := openList(dst, codeModified)
	w.boolOr(x.DeliveryFailed, false)
	w.boolOr(x.UndeliverableHere, false)
	w.mapping(x.MessageAnnotations)
	return w.close()
}

func (x *Modified) decode(r *reader) {
	l := r.openList("modified", 3)
	x.DeliveryFailed = r.boolOr(&l, "delivery-failed", false)
	x.UndeliverableHere = r.boolOr(&l, "undeliverable-here", false)
	x.MessageAnnotations = r.mapping(&l, "message-annotations")
	r.closeList(&l)
}
