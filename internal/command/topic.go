package command

// Routing is what an address does with a message: an address has one for good.
type Routing uint8

const (
	// AnyRouting is what the address has; where it is made, Anycast.
	AnyRouting Routing = iota
	// Anycast is a queue: one of its consumers gets the message.
	Anycast
	// Multicast is a topic: each of its subscriptions gets the message.
	Multicast
)

// String implements fmt.Stringer: "queue", "topic", or "address".
func (r Routing) String() string {
	switch r {
	case Anycast:
		return "queue"
	case Multicast:
		return "topic"
	case AnyRouting:
	}
	return "address"
}

// Subscription is what a consumer of a topic reads (amqp.md 1.4). Without Durable and Shared it is the link's own, and ends with it. The others have an
// identity, of the principal, the container-id unless Global, the name, and whether they are durable; the first consumer makes it, with its selector.
type Subscription struct {
	// Durable: it stays without consumers, until one closes its link for good.
	Durable bool
	// Shared: any number of consumers get each message together once. Otherwise a newcomer takes the link of the one before it.
	Shared bool
	// Global: of all containers of the principal.
	Global bool
	// NoLocal: what connections of this container-id send isn't for it.
	NoLocal bool
	// Name is at most 4,096 bytes; of one that has an identity at least one.
	Name string
}

// Named says that the subscription has an identity.
func (s *Subscription) Named() bool { return s.Durable || s.Shared }

func (s *Subscription) append(dst []byte) []byte {
	flags := byte(0)
	for i, set := range [...]bool{s.Durable, s.Shared, s.Global, s.NoLocal} {
		if set {
			flags |= 1 << i
		}
	}
	return appendString(append(dst, flags), s.Name)
}

func (s *Subscription) decode(r *reader) {
	flags := r.byte()
	if flags > 15 {
		r.fail("flags of a subscription that there are not")
	}
	s.Durable, s.Shared, s.Global, s.NoLocal = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	s.Name = r.string()
}

func (r *reader) routing() Routing {
	x := Routing(r.byte())
	if x > Multicast {
		r.fail("a routing that there is not")
	}
	return x
}
