package command

// TxSend is one message sent in a transaction; fields as in Send.
type TxSend struct {
	Target  Incarnation
	Address string
	Message []byte
}

// TxSettle is one delivery settled in a transaction. Link is of the committing
// connection; a link that ended with this delivery enlisted still counts.
type TxSettle struct {
	Link uint32
	Ref  DeliveryRef
	// Settled: the receiver settled already, so a rollback returns the delivery (T15);
	// otherwise it stays with the link (T16).
	Settled bool
	Disposition
}

// Limits of one transaction (contract.md, Defaults).
const (
	MaxTxOperations = 10_000
	MaxTxBytes      = 64 << 20
)

// Commit decides a transaction, wholly or not at all (C1). Check order: the outcome
// record, the number of operations, the operations [2.1]. Answer: EffectDecided.
type Commit struct {
	Conn    ConnID
	Request uint64
	// Tx is zero for an untagged transaction of a generic client.
	Tx TxID
	// Named: the transaction was named through $oncemq.tx; a record for its number
	// refuses it instead of being its result (wire.md).
	Named bool
	// Operations is how many the client says it did, -1 where it doesn't say.
	Operations int64
	// Counted is how many the home counted by wire.md's rules (sends and distinct
	// settled deliveries).
	Counted uint32
	Known   Known
	Sends   []TxSend
	Settles []TxSettle
}

// Kind implements Command.
func (*Commit) Kind() Kind { return KindCommit }

func (c *Commit) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = appendTx(dst, c.Tx)
	dst = appendBool(dst, c.Named)
	dst = appendInt(dst, c.Operations)
	dst = appendUint(dst, uint64(c.Counted))
	dst = c.Known.append(dst)
	dst = appendUint(dst, uint64(len(c.Sends)))
	for i := range c.Sends {
		s := &c.Sends[i]
		dst = appendUint(dst, uint64(s.Target))
		dst = appendString(dst, s.Address)
		dst = appendBytes(dst, s.Message)
	}
	return appendTxSettles(dst, c.Settles)
}

func (c *Commit) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	c.Tx = r.tx()
	c.Named = r.bool()
	c.Operations = r.int()
	c.Counted = r.uint32()
	c.Known.decode(r)
	n := r.count(3)
	c.Sends = c.Sends[:0]
	for range n {
		c.Sends = append(c.Sends, TxSend{Target: Incarnation(r.uint()), Address: r.string(), Message: r.bytes()})
	}
	c.Settles = r.txSettles(c.Settles)
}

// Rollback decides a transaction as rolled back; what was settled in it returns
// with its failure counted (C8). Where a record exists it is the answer (C10).
// Answer: EffectDecided where Request isn't 0.
type Rollback struct {
	Conn    ConnID
	Request uint64
	Tx      TxID
	Named   bool
	Reason  string
	Known   Known
	Settles []TxSettle
}

// Kind implements Command.
func (*Rollback) Kind() Kind { return KindRollback }

func (c *Rollback) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = appendTx(dst, c.Tx)
	dst = appendBool(dst, c.Named)
	dst = appendString(dst, c.Reason)
	dst = c.Known.append(dst)
	return appendTxSettles(dst, c.Settles)
}

func (c *Rollback) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	c.Tx = r.tx()
	c.Named = r.bool()
	c.Reason = r.string()
	c.Known.decode(r)
	c.Settles = r.txSettles(c.Settles)
}

// Reasons of rolled-back transactions, as recorded and reported.
const (
	ReasonClient       = "rolled back by the client"
	ReasonIncomplete   = "incomplete"
	ReasonTimeout      = "timeout"
	ReasonTooLarge     = "too large"
	ReasonDeliveryLost = "delivery lost"
	ReasonRefused      = "an operation was refused"
	ReasonResolved     = "undecided when its outcome was asked for"
	ReasonSessionEnded = "session ended"
	ReasonReused       = "number already used"
	ReasonLimit        = "resource limit"
)

func appendTx(dst []byte, t TxID) []byte {
	if t.IsZero() {
		return append(dst, 0)
	}
	return append(append(dst, 1), t[:]...)
}

func (r *reader) tx() (t TxID) {
	if r.bool() {
		r.fixed(t[:])
	}
	return t
}

func appendTxSettles(dst []byte, v []TxSettle) []byte {
	dst = appendUint(dst, uint64(len(v)))
	for i := range v {
		s := &v[i]
		dst = appendUint(dst, uint64(s.Link))
		dst = appendUint(dst, s.Ref.Message)
		dst = appendUint(dst, uint64(s.Ref.Attempt))
		dst = appendBool(dst, s.Settled)
		dst = s.Disposition.append(dst)
	}
	return dst
}

func (r *reader) txSettles(into []TxSettle) []TxSettle {
	n := r.count(5)
	into = into[:0]
	for range n {
		s := TxSettle{Link: r.uint32()}
		s.Ref = DeliveryRef{Message: r.uint(), Attempt: r.uint32()}
		s.Settled = r.bool()
		s.Disposition.decode(r)
		into = append(into, s)
	}
	return into
}
