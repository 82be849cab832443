package amqp

// Prepare is the body of a message to the coordinator that prepares a transaction for two-phase commit. It is our
// extension, with the symbolic descriptor oncemq:prepare:list only (contract C15).
type Prepare struct {
	// TxnID names the transaction, XID the global one; both mandatory. They alias the decoded bytes.
	TxnID, XID []byte
}

func (x *Prepare) appendTo(dst []byte) []byte {
	w := openListSymbolic(dst, symPrepare)
	w.needBin(x.TxnID)
	w.needBin(x.XID)
	return w.close()
}

func (x *Prepare) decode(r *reader) {
	l := r.openList("prepare", 2)
	x.TxnID = r.needBin(&l, "txn-id")
	x.XID = r.needBin(&l, "xid")
	r.closeList(&l)
}
