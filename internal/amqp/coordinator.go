package amqp

// Coordinator is the target of a link on which transactions are declared and discharged (4.5.1).
type Coordinator struct {
	// Capabilities asked for, or in an answer those that are real, such as CapLocalTransactions.
	Capabilities []Symbol
}

func (x *Coordinator) appendTo(dst []byte) []byte {
	w := openList(dst, codeCoordinator)
	w.syms(x.Capabilities)
	return w.close()
}

func (x *Coordinator) decode(r *reader) {
	l := r.openList("coordinator", 1)
	x.Capabilities = r.syms(&l, "capabilities")
	r.closeList(&l)
}
