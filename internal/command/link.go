package command

// Unsettled is one entry of the unsettled map with which a client re-attaches a
// receiving link (AMQP 2.6.13, [3.3]): it has seen this delivery.
type Unsettled struct {
	Incarnation Incarnation
	Ref         DeliveryRef
}

// Dynamic says which kind of node the opening of a link makes (AMQP 3.5.3, 3.5.4, dynamic). It belongs to the connection, and goes with all
// its messages when the link that made it is detached, in whatever way, or its session or its connection ends (lifetime-policy
// delete-on-close).
type Dynamic uint8

// The kinds of nodes. State refuses those that it doesn't know.
const (
	DynamicNone  Dynamic = iota // none: the link names its address
	DynamicQueue                // a temporary queue
)

// The beginnings of the names of temporary nodes. They are reserved: only Dynamic makes such a name, and nobody a second time, so an old
// reply-to never leads to somebody else's node.
const (
	TemporaryQueuePrefix = "temp-queue:"
	TemporaryTopicPrefix = "temp-topic:"
)

// LinkOpen attaches a consumer (the broker's sending link) to an address, or
// re-attaches it by (session, Name) after a failover. Answer: EffectLinkOpened with
// *LinkOpened in Detail.
type LinkOpen struct {
	Conn    ConnID
	Request uint64
	// Link is the home's number for the link, unique within the connection, senders
	// and consumers together; 1 and up.
	Link uint32
	// Session is set for links of resumable sessions, zero otherwise.
	Session SessionID
	Name    string
	// Address is the queue's or topic's; empty: that of the subscription, which must be there and have no other consumer.
	Address string
	// Create: make the address if it isn't there, with Routing.
	Create bool
	// Routing is what the address must be.
	Routing Routing
	// Subscription is which one the consumer reads, where the address is a topic.
	Subscription Subscription
	// Presettled: the sender settles (snd-settle-mode settled): a message leaves the
	// queue once its home reports it written (C13).
	Presettled bool
	// Resume: the client re-attaches with an unsettled map (which may be empty). Held
	// deliveries that it doesn't name are sent whole, as first deliveries.
	Resume    bool
	Unsettled []Unsettled
	// Filter is the parsed form of a selector (docs/format/selector.md), empty: none.
	Filter []byte
	// Dynamic: make a temporary node for the link; Address is empty then, and the answer names it.
	Dynamic Dynamic
}

// Kind implements Command.
func (*LinkOpen) Kind() Kind { return KindLinkOpen }

func (c *LinkOpen) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = appendUint(dst, uint64(c.Link))
	dst = append(dst, c.Session[:]...)
	dst = appendString(dst, c.Name)
	dst = appendString(dst, c.Address)
	dst = appendBool(dst, c.Create)
	dst = appendBool(dst, c.Presettled)
	dst = appendBool(dst, c.Resume)
	dst = appendUint(dst, uint64(len(c.Unsettled)))
	for _, u := range c.Unsettled {
		dst = appendUint(dst, uint64(u.Incarnation))
		dst = appendUint(dst, u.Ref.Message)
		dst = appendUint(dst, uint64(u.Ref.Attempt))
	}
	dst = appendBytes(dst, c.Filter)
	dst = append(dst, byte(c.Routing))
	dst = c.Subscription.append(dst)
	return append(dst, byte(c.Dynamic))
}

func (c *LinkOpen) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	c.Link = r.uint32()
	r.fixed(c.Session[:])
	c.Name = r.string()
	c.Address = r.string()
	c.Create = r.bool()
	c.Presettled = r.bool()
	c.Resume = r.bool()
	n := r.count(3)
	c.Unsettled = c.Unsettled[:0]
	for range n {
		u := Unsettled{Incarnation: Incarnation(r.uint())}
		u.Ref = DeliveryRef{Message: r.uint(), Attempt: r.uint32()}
		c.Unsettled = append(c.Unsettled, u)
	}
	c.Filter = r.bytes()
	c.Routing = r.routing()
	c.Subscription.decode(r)
	c.Dynamic = Dynamic(r.byte())
}

// LinkEnd ends a consumer link by Detach or End. Unwritten deliveries, and those
// that the home has not received, return untouched, enlisted ones stay until their transactions are decided, and the
// others return, with first-acquirer cleared and the count left, when Closed; when
// not Closed they stay with the link until they are settled or the session or
// connection ends (amqp.md 0.7). No answer.
type LinkEnd struct {
	Conn   ConnID
	Link   uint32
	Closed bool
	// Terminus: the client has closed the link, and with it a durable subscription that nobody else reads (AMQP 2.6.4).
	Terminus bool
	// Received is as in LinkUnwritten.
	Received  uint64
	Unwritten []DeliveryRef
	Enlisted  []DeliveryRef
}

// Kind implements Command.
func (*LinkEnd) Kind() Kind { return KindLinkEnd }

func (c *LinkEnd) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	dst = appendBool(dst, c.Closed)
	dst = appendBool(dst, c.Terminus)
	dst = appendUint(dst, c.Received)
	dst = appendRefs(dst, c.Unwritten)
	return appendRefs(dst, c.Enlisted)
}

func (c *LinkEnd) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Link = r.uint32()
	c.Closed = r.bool()
	c.Terminus = r.bool()
	c.Received = r.uint()
	c.Unwritten = r.refs(c.Unwritten)
	c.Enlisted = r.refs(c.Enlisted)
}

// SenderOpen attaches a producer (the broker's receiving link) to an address.
// Answer: EffectSenderOpened with *SenderOpened in Detail.
type SenderOpen struct {
	Conn    ConnID
	Request uint64
	Link    uint32 // as in LinkOpen
	// Session and Name key the numbers of a numbered link; Session is zero otherwise.
	Session SessionID
	Name    string
	Address string
	Create  bool
	Routing Routing // as in LinkOpen
	// Numbered: sends carry numbers that rise per link; state keeps the last and
	// the outcomes other than accepted (C9 transport).
	Numbered bool
	// Held are the numbers that the client still holds unsettled when it
	// re-attaches; the answer has the outcome of each.
	Held []uint64
	// Resends: over a link of this name that it attaches anew, behind a lost connection, the client says its sends again by
	// itself, under the same message-ids, which it gives to nothing else (C9 JMS resend). Not together with Numbered.
	Resends bool
	// Dynamic is as in LinkOpen.
	Dynamic Dynamic
}

// Kind implements Command.
func (*SenderOpen) Kind() Kind { return KindSenderOpen }

func (c *SenderOpen) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, c.Request)
	dst = appendUint(dst, uint64(c.Link))
	dst = append(dst, c.Session[:]...)
	dst = appendString(dst, c.Name)
	dst = appendString(dst, c.Address)
	dst = appendBool(dst, c.Create)
	dst = append(dst, byte(c.Routing))
	dst = appendBool(dst, c.Numbered)
	dst = appendUints(dst, c.Held)
	dst = appendBool(dst, c.Resends)
	return append(dst, byte(c.Dynamic))
}

func (c *SenderOpen) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Request = r.uint()
	c.Link = r.uint32()
	r.fixed(c.Session[:])
	c.Name = r.string()
	c.Address = r.string()
	c.Create = r.bool()
	c.Routing = r.routing()
	c.Numbered = r.bool()
	c.Held = r.uints(c.Held)
	c.Resends = r.bool()
	c.Dynamic = Dynamic(r.byte())
}

// SenderEnd ends a sender link. One that is Closed never comes back, so its numbers or its resend window are forgotten; of a
// numbered one nothing else is said. The temporary queue that the link has made goes either way. No answer.
type SenderEnd struct {
	Conn   ConnID
	Link   uint32
	Closed bool
}

// Kind implements Command.
func (*SenderEnd) Kind() Kind { return KindSenderEnd }

func (c *SenderEnd) append(dst []byte) []byte {
	return appendBool(appendUint(appendUint(dst, uint64(c.Conn)), uint64(c.Link)), c.Closed)
}

func (c *SenderEnd) decode(r *reader) {
	c.Conn, c.Link, c.Closed = ConnID(r.uint()), r.uint32(), r.bool()
}

// Allow adds to a link's allowance [3.4]: what may be handed out to it. No answer
// but the deliveries.
type Allow struct {
	Conn     ConnID
	Link     uint32
	Messages uint32
	Bytes    uint64 // the last message may exceed it
}

// Kind implements Command.
func (*Allow) Kind() Kind { return KindAllow }

func (c *Allow) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	dst = appendUint(dst, uint64(c.Messages))
	return appendUint(dst, c.Bytes)
}

func (c *Allow) decode(r *reader) {
	c.Conn, c.Link, c.Messages, c.Bytes = ConnID(r.uint()), r.uint32(), r.uint32(), r.uint()
}

// Withdraw takes a link's whole allowance back and returns, untouched, what its
// home had not written, and what is handed out before Withdraw is applied: the home
// drops that, or it would reach the client before what returns to its place in the
// queue [3.4]. Answer: EffectWithdrawn.
type Withdraw struct {
	Conn    ConnID
	Link    uint32
	Request uint64
	// Received is as in LinkUnwritten.
	Received  uint64
	Unwritten []DeliveryRef
}

// Kind implements Command.
func (*Withdraw) Kind() Kind { return KindWithdraw }

func (c *Withdraw) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = appendUint(dst, uint64(c.Link))
	dst = appendUint(dst, c.Request)
	dst = appendUint(dst, c.Received)
	return appendRefs(dst, c.Unwritten)
}

func (c *Withdraw) decode(r *reader) {
	c.Conn, c.Link, c.Request, c.Received = ConnID(r.uint()), r.uint32(), r.uint(), r.uint()
	c.Unwritten = r.refs(c.Unwritten)
}

// appendUints writes rising numbers as differences.
func appendUints(dst []byte, v []uint64) []byte {
	dst = appendUint(dst, uint64(len(v)))
	var last uint64
	for _, n := range v {
		dst = appendInt(dst, int64(n-last))
		last = n
	}
	return dst
}

func (r *reader) uints(into []uint64) []uint64 {
	n := r.count(1)
	into = into[:0]
	var last uint64
	for range n {
		last += uint64(r.int())
		into = append(into, last)
	}
	return into
}
