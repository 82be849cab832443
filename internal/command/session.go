package command

// Known is a client's acknowledgement of outcomes (C2): every number up to
// Through is known to the client, but for those listed in Unknown (rising, at most
// MaxUnknown), which stay kept.
type Known struct {
	Through uint64
	Unknown []uint64
}

// MaxUnknown is how many unknown outcomes a session may hold (C2), and how many of
// the newest outcomes a token keeps.
const MaxUnknown = 1000

func (k *Known) append(dst []byte) []byte {
	dst = appendUint(dst, k.Through)
	dst = appendUint(dst, uint64(len(k.Unknown)))
	var last uint64
	for _, n := range k.Unknown {
		dst = appendUint(dst, n-last)
		last = n
	}
	return dst
}

func (k *Known) decode(r *reader) {
	k.Through = r.uint()
	n := r.count(1)
	k.Unknown = k.Unknown[:0]
	var last uint64
	for range n {
		last += r.uint()
		k.Unknown = append(k.Unknown, last)
	}
}

// SessionOpen opens a resumable session, or resumes Session on a new connection of
// the same client. Opening is idempotent by Nonce within the client. Answer:
// EffectSessionOpened with *SessionOpened in Detail, or a refusal: a session that
// is gone can't be resumed.
type SessionOpen struct {
	Conn    ConnID
	Request uint64
	// Session to resume; zero opens a new one.
	Session SessionID
	Nonce   [16]byte
	// Rollback: the client wants OnFailover Rollback (S1): on loss of the connection
	// its deliveries return at once, but the session and its outcomes stay.
	Rollback bool
}

// Kind implements Command.
func (*SessionOpen) Kind() Kind { return KindSessionOpen }

func (c *SessionOpen) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = append(dst, c.Session[:]...)
	dst = append(dst, c.Nonce[:]...)
	return appendBool(dst, c.Rollback)
}

func (c *SessionOpen) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	r.fixed(c.Session[:])
	r.fixed(c.Nonce[:])
	c.Rollback = r.bool()
}

// SessionEnd ends a session: its links end as by LinkEnd with Closed, and its
// outcomes stay for 24 h unless Known acknowledges all of them (C2). No answer.
type SessionEnd struct {
	Conn    ConnID
	Session SessionID
	Known   Known
}

// Kind implements Command.
func (*SessionEnd) Kind() Kind { return KindSessionEnd }

func (c *SessionEnd) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = append(dst, c.Session[:]...)
	return c.Known.append(dst)
}

func (c *SessionEnd) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	r.fixed(c.Session[:])
	c.Known.decode(r)
}
