package command

// ConnOpen opens a connection [1.4]. In one step it ends the former connection of
// the same client: same principal and container-id, and same non-zero nonce with a
// lower attempt. A lower attempt than the present one is refused. Answer:
// EffectConnOpened with *ConnOpened in Detail.
type ConnOpen struct {
	// Local is the home's own key of the connection, unique within its epoch, 1 and
	// up; effects for the connection are addressed to it.
	Local uint64
	// Principal is the authenticated user; it is part of every key of what outlives
	// the connection [1.5].
	Principal   string
	ContainerID string
	// Nonce is drawn once by each client process; zero for a client without our
	// capability, which can't resume.
	Nonce [16]byte
	// Attempt rises with every connection that a client process opens.
	Attempt uint32
	// SoleConnection: the client asked for sole-connection-for-container. A clash
	// with a live one that asked too is refused, and the old home is told to probe.
	SoleConnection bool
}

// Kind implements Command.
func (*ConnOpen) Kind() Kind { return KindConnOpen }

func (c *ConnOpen) append(dst []byte) []byte {
	dst = appendUint(dst, c.Local)
	dst = appendString(dst, c.Principal)
	dst = appendString(dst, c.ContainerID)
	dst = append(dst, c.Nonce[:]...)
	dst = appendUint(dst, uint64(c.Attempt))
	return appendBool(dst, c.SoleConnection)
}

func (c *ConnOpen) decode(r *reader) {
	c.Local = r.uint()
	c.Principal = r.string()
	c.ContainerID = r.string()
	r.fixed(c.Nonce[:])
	c.Attempt = r.uint32()
	c.SoleConnection = r.bool()
}

// EndCause says how a connection ended; it decides counts (C8), limits (C13) and
// grace (C6).
type EndCause uint8

// The causes.
const (
	// EndClosed: the client sent Close. No grace; deliveries that were written lose
	// first-acquirer, counts stay.
	EndClosed EndCause = 1 + iota
	// EndReset: the client's side closed or reset the socket without Close, or broke
	// the protocol. Grace 5 s; counts of written deliveries rise.
	EndReset
	// EndSilent: idle time-out. Grace 60 s; counts rise.
	EndSilent
	// EndForced: the home gave the connection up for reasons of its own. Grace 60 s;
	// counts of written deliveries rise, and the redelivery limit counts none (C13).
	EndForced
	// EndFailed: the client sent Close with an error. As EndClosed, but that it may connect anew, and say again what it sent:
	// Qpid JMS does where its node was silent.
	EndFailed
)

// LinkUnwritten lists what a link's home never wrote to the socket: it returns to
// the queue untouched (C8). So does every delivery that the home has not received,
// because it was computed while the command was on its way.
type LinkUnwritten struct {
	Link uint32
	// Received is how many EffectDeliver the home has had for the link since its
	// LinkOpened; state counts what it hands out in the same order.
	Received  uint64
	Unwritten []DeliveryRef
}

// ConnEnd ends a connection; its home tells what it had not written, for every
// consumer link that the connection has. No answer.
type ConnEnd struct {
	Conn  ConnID
	Cause EndCause
	Links []LinkUnwritten
}

// Kind implements Command.
func (*ConnEnd) Kind() Kind { return KindConnEnd }

func (c *ConnEnd) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Conn))
	dst = append(dst, byte(c.Cause))
	dst = appendUint(dst, uint64(len(c.Links)))
	for _, l := range c.Links {
		dst = appendUint(dst, uint64(l.Link))
		dst = appendUint(dst, l.Received)
		dst = appendRefs(dst, l.Unwritten)
	}
	return dst
}

func (c *ConnEnd) decode(r *reader) {
	c.Conn = ConnID(r.uint())
	c.Cause = EndCause(r.byte())
	n := r.count(3)
	c.Links = c.Links[:0]
	for range n {
		c.Links = append(c.Links, LinkUnwritten{Link: r.uint32(), Received: r.uint(), Unwritten: r.refs(nil)})
	}
}
