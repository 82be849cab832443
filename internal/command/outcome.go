package command

// TxOutcome answers "did it happen?" (contract.md: Outcomes). Values are stored.
type TxOutcome uint8

// The answers. Open and Expired are never recorded.
const (
	TxUnknown TxOutcome = iota
	TxCommitted
	TxRolledBack
	TxPrepared
	TxOpen
	TxExpired
)

// String is the symbol of wire.md: committed, rolled-back, prepared, open, expired.
func (o TxOutcome) String() string {
	switch o {
	case TxCommitted:
		return "committed"
	case TxRolledBack:
		return "rolled-back"
	case TxPrepared:
		return "prepared"
	case TxOpen:
		return "open"
	case TxExpired:
		return "expired"
	case TxUnknown:
	}
	return "unknown"
}

// Outcome asks for a transaction's outcome (C3). With Decide an undecided one is
// first recorded as rolled back; without, nothing changes (Peek). Answer:
// EffectOutcome, or a refusal for another principal's session.
type Outcome struct {
	Conn    ConnID
	Request uint64
	Tx      TxID
	Decide  bool
}

// Kind implements Command.
func (*Outcome) Kind() Kind { return KindOutcome }

func (c *Outcome) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = append(dst, c.Tx[:]...)
	return appendBool(dst, c.Decide)
}

func (c *Outcome) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	r.fixed(c.Tx[:])
	c.Decide = r.bool()
}

// TokenOpen opens a token for the connection's principal: a session identity with
// which any AMQP client names its transactions (C4). Answer: EffectTokenOpened with
// the SessionID in Tx.
type TokenOpen struct {
	Conn    ConnID
	Request uint64
	Nonce   [4]byte
}

// Kind implements Command.
func (*TokenOpen) Kind() Kind { return KindTokenOpen }

func (c *TokenOpen) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	return append(dst, c.Nonce[:]...)
}

func (c *TokenOpen) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	r.fixed(c.Nonce[:])
}
