package state

// A subscription is a cursor and the set of what was handed out: each
// message below the cursor of its lane has a delivery, held by a link or given back, or is gone.
// Exception: those of an unfinished purge have none. From the cursor on messages wait that have no delivery; the others there were taken
// from among them, by links with selectors.
type subscription struct {
	object           // a topic's; a queue's is its address's
	position  object // the second record: turn and lanes
	topicPart        // zero of a queue's
	id        uint64 // a queue's is its address's incarnation
	address   *address
	lanes     []lane // of each of the address's
	// returned are the numbers of messages given back; they go out before the cursor,
	// in their place (C11). Where links have selectors it has old entries besides: count says how many are true.
	returned seqHeap
	count    int
	// picky are those given back that some link must not get [3.9], by their order.
	picky []pickyMessage
	// doomed are those given back before a purge, whose job is under way: a heap of each purge, the oldest first.
	doomed    []doomedHeap
	purgeGen  uint32  // rises with each purge; older given-back ones are doomed
	links     []*link // not ended, attached or in grace, by id
	ready     []*link // of those, the ones with an allowance, by id
	filtered  []*link // of links, the ones with a selector, by id
	turn      uint64  // id of the link that got the last message
	delayed   uint64  // not those from before a purge
	inFlight  uint64
	returning int // links whose return job is under way: nothing is handed out (C11)
	// touched: stands in Machine.touched.
	touched bool
}

// doomedHeap is what a purge found given back: a purge takes the heap as it is, however much there is to do of the one before [4.2].
type doomedHeap struct {
	gen     uint32 // the subscription's purgeGen before it
	numbers seqHeap
}

// pickyMessage is a message that waits and that some link must not get: a copy of its
// delivery's exclusions, so that passing over it looks nothing up.
type pickyMessage struct {
	seq  uint64
	wish exclusions
}

func (p pickyMessage) compare(seq uint64) int { return byOrder(p.seq, seq) }

// waiting counts the messages that nobody holds, without those of a purge.
func (s *subscription) waiting() uint64 {
	n := s.fresh()
	for i := range s.lanes {
		if ln := &s.lanes[i]; s.slot != 0 && ln.cursor < ln.to {
			n -= min(n, ln.to-ln.cursor)
		}
	}
	return n + uint64(s.count+len(s.picky))
}

// attached counts the links that are on a connection.
func (s *subscription) attached() (n int) {
	for _, l := range s.links {
		if l.conn != nil {
			n++
		}
	}
	return n
}

// over says that nobody can reach the subscription any more.
func (s *subscription) over() bool { return s.dying || s.address.dying }

// subscriptionOf is the one whose delivery it is.
func (m *Machine) subscriptionOf(d *delivery) *subscription {
	if d.subscription != 0 {
		return m.subscriptions[d.subscription]
	}
	return m.addresses[m.messages.at(d.message).address].queue
}

// deliveryOf is the subscription's delivery of a message, or 0.
func (m *Machine) deliveryOf(s *subscription, mi uint32) uint32 {
	switch {
	case s.slot != 0:
		return m.deliveryAt[deliveryKey{s.slot, mi}]
	case s.address.topic:
		return 0 // of a topic a message counts there for how many it is
	}
	return m.messages.at(mi).delivery
}

// newDelivery makes the subscription's delivery of a message, which has none.
func (m *Machine) newDelivery(s *subscription, mi uint32) uint32 {
	di := m.deliveries.alloc()
	d := m.deliveries.at(di)
	d.message, d.subscription = mi, s.slot
	s.deliveries++
	if s.slot != 0 {
		m.deliveryAt[deliveryKey{s.slot, mi}] = di
	} else {
		m.messages.at(mi).delivery = di
	}
	return di
}

// touch makes the end of the entry look whether s has something to hand out.
func (m *Machine) touch(s *subscription) {
	if !s.touched && !s.over() {
		s.touched = true
		m.touched = append(m.touched, s)
	}
}
