package amqp

// Discharge is the body of a message to the coordinator that ends a transaction (4.5.3).
type Discharge struct {
	// TxnID names the transaction; mandatory. It aliases the decoded bytes.
	TxnID []byte
	// Fail asks for a rollback.
	Fail bool
}

func (x *Discharge) appendTo(dst []byte) []byte {
	w := openList(dst, codeDischarge)
	w.needBin(x.TxnID)
	// The specification gives fail no default, so that it is always written.
	w.bool(x.Fail)
	return w.close()
}

func (x *Discharge) decode(r *reader) {
	l := r.openList("discharge", 2)
	x.TxnID = r.needBin(&l, "txn-id")
	x.Fail = r.boolOr(&l, "fail", false)
	r.closeList(&l)
}
