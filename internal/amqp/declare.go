package amqp

// Declare is the body of a message to the coordinator that begins a transaction (4.5.2).
type Declare struct {
	// GlobalID is nil, or the global transaction that it belongs to, which nobody supports.
	GlobalID any
}

func (x *Declare) appendTo(dst []byte) []byte {
	w := openList(dst, codeDeclare)
	w.any(x.GlobalID)
	return w.close()
}

func (x *Declare) decode(r *reader) {
	l := r.openList("declare", 1)
	x.GlobalID = r.any(&l, "global-id")
	r.closeList(&l)
}

// Declared is the outcome of a Declare (4.5.5).
type Declared struct {
	// TxnID names the transaction; at most 32 bytes; mandatory. It aliases the decoded bytes.
	TxnID []byte
}

func (*Declared) deliveryState() {}

func (x *Declared) appendTo(dst []byte) []byte {
	w := openList(dst, codeDeclared)
	w.needBin(x.TxnID)
	return w.close()
}

func (x *Declared) decode(r *reader) {
	l := r.openList("declared", 1)
	x.TxnID = r.needBin(&l, "txn-id")
	r.closeList(&l)
}
