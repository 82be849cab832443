package amqp

// TransactionalState binds a transfer or an outcome to a transaction (4.5.6).
type TransactionalState struct {
	// TxnID names the transaction; mandatory. It aliases the decoded bytes.
	TxnID []byte
	// Outcome is what takes effect on commit; nil in transfers.
	Outcome DeliveryState
}

func (*TransactionalState) deliveryState() {}

func (x *TransactionalState) appendTo(dst []byte) []byte {
	w := openList(dst, codeTransactionalState)
	w.needBin(x.TxnID)
	w.state(x.Outcome)
	return w.close()
}

func (x *TransactionalState) decode(r *reader) {
	l := r.openList("transactional-state", 2)
	x.TxnID = r.needBin(&l, "txn-id")
	x.Outcome = r.outcome(&l, "outcome")
	r.closeList(&l)
}
