package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// delivery is what a subscription knows of a message that it has handed out at least
// once: held by a link, or given back. No pointers [5.1].
type delivery struct {
	message uint32 // slab index
	// subscription is its slot, 0: the queue's only one.
	subscription uint32
	link         uint32 // slot of the link that holds it, 0 when it was given back
	// prev and next are its neighbours in its link's list, oldest hand-out first.
	prev, next uint32
	order      uint64 // of the hand-out within its link
	// told is its place among what the link's home was told since LinkOpened, from 1; 0:
	// the client has named it as seen.
	told     uint64
	attempt  uint32 // 1 and up; the fencing number
	count    uint32 // failed attempts: AMQP delivery-count (C8)
	failures uint32 // what the redelivery limit counts (C13)
	gen      uint32 // the subscription's purgeGen when it was given back
	flags    uint8
}

const (
	deliverySeen    = 1 << iota // may have been on a wire: first-acquirer is false (C8)
	deliverySkipped             // not for this subscription, whose cursor will pass over it: nobody has it
	deliveryDelayed             // nobody has it, and it is still to arrive
	deliveryDirty               // stands in dirty.deliveries
	deliveryStored              // has a key on disk
	deliveryMarked              // scratch within one command: named already
	deliveryGone                // removed in this entry; its index is released by flush
)

// redeliveryLimit is the number of failures that makes a message a dead letter (C13).
const redeliveryLimit = 10

// give says how a delivery goes back (C8, C13).
type give struct {
	count   bool // delivery-count rises
	failure bool // the redelivery limit counts it
	seen    bool // first-acquirer is cleared
}

var (
	giveUntouched = give{}
	giveSeen      = give{seen: true}
	giveCounted   = give{count: true, seen: true}
	giveFailed    = give{count: true, failure: true, seen: true}
)

// hold makes l the holder of a message and returns its delivery.
func (m *Machine) hold(l *link, mi uint32) uint32 {
	di := m.deliveryOf(l.sub, mi)
	if di == 0 {
		di = m.newDelivery(l.sub, mi)
		if m.messages.at(mi).size&flagMoved != 0 {
			m.deliveries.at(di).flags |= deliverySeen
		}
	}
	d := m.deliveries.at(di)
	d.attempt++
	l.handed++
	d.order = l.handed
	m.chain(l, di)
	l.sub.inFlight++
	m.markDelivery(di)
	return di
}

// chain appends a delivery to its new link's list.
func (m *Machine) chain(l *link, di uint32) {
	d := m.deliveries.at(di)
	d.link, d.prev, d.next = l.slot, l.last, 0
	if l.last != 0 {
		m.deliveries.at(l.last).next = di
	} else {
		l.first = di
	}
	l.last = di
	l.held++
}

func (m *Machine) unchain(l *link, di uint32) {
	d := m.deliveries.at(di)
	if d.prev != 0 {
		m.deliveries.at(d.prev).next = d.next
	} else {
		l.first = d.next
	}
	if d.next != 0 {
		m.deliveries.at(d.next).prev = d.prev
	} else {
		l.last = d.prev
	}
	d.link, d.prev, d.next = 0, 0, 0
	l.held--
}

// held is the delivery that ref names, if l holds it with that attempt; else 0. Nobody
// can know a delivery whose message this very entry brought: such a name is a guess.
func (m *Machine) held(l *link, ref command.DeliveryRef) uint32 {
	if l == nil {
		return 0
	}
	mi := m.find(l.sub.address, ref.Message)
	if mi == 0 {
		return 0
	}
	di := m.deliveryOf(l.sub, mi)
	if di == 0 || m.messages.at(mi).fresh != 0 {
		return 0
	}
	if d := m.deliveries.at(di); d.link != l.slot || d.attempt != ref.Attempt {
		if d.link == 0 || !mutant.On(mutant.AnyAttempt) {
			return 0
		}
		m.unchain(m.links[d.link], di)
		m.chain(l, di)
		d.told = 0
	}
	return di
}

// consume removes a held message for good.
func (m *Machine) consume(l *link, di uint32) {
	mi := m.deliveries.at(di).message
	m.unchain(l, di)
	l.sub.inFlight--
	m.dropDelivery(l.sub, di)
	m.finish(l.sub, mi)
	m.emptied(l)
}

// dropDelivery forgets a delivery that nobody holds.
func (m *Machine) dropDelivery(s *subscription, di uint32) {
	d := m.deliveries.at(di)
	p := m.messages.at(d.message)
	s.deliveries--
	if d.flags&deliverySkipped != 0 {
		s.address.marks--
	}
	if d.flags&deliveryDelayed != 0 && d.gen == s.purgeGen {
		s.delayed--
	}
	if s.slot != 0 {
		delete(m.deliveryAt, deliveryKey{s.slot, d.message})
	} else {
		p.delivery = 0
	}
	delete(m.excluded, di)
	if d.flags&deliveryStored != 0 {
		m.deleteDeliveryKey(s, p.seq)
	}
	d.flags |= deliveryGone
	m.dirty.freed = append(m.dirty.freed, di)
}

// giveBack returns a held message to its own place, or makes it a dead letter.
func (m *Machine) giveBack(l *link, di uint32, g give) {
	s := l.sub
	m.unchain(l, di)
	s.inFlight--
	m.steps++
	d := m.deliveries.at(di)
	m.charge(d, g)
	m.markDelivery(di)
	m.emptied(l)
	if s.over() {
		return
	}
	switch {
	case d.failures >= redeliveryLimit && !s.address.dead:
		m.deadLetter(s, di, reasonLimit)
	case m.expired(d.message):
		m.counters.ExpiredMessages++
		mi := d.message
		m.dropDelivery(s, di)
		m.finish(s, mi)
	case m.isPicky(s, di) && len(s.picky) >= maxPicky && !s.address.dead:
		m.deadLetter(s, di, reasonUndeliverable)
	default:
		m.putBack(s, di)
	}
}

// isPicky says that some living link must not get the delivery. The wishes of links that
// have ended since it was handed out are forgotten.
func (m *Machine) isPicky(s *subscription, di uint32) bool {
	e, ok := m.excluded[di]
	if !ok {
		return false
	}
	if prune(s, &e) {
		m.keepExclusions(di, e)
	}
	return e.n > 0
}

// prune drops the links from e that have ended, and says whether there were any.
func prune(s *subscription, e *exclusions) bool {
	before := e.n
	e.n = 0
	for _, id := range e.link[:before] {
		if _, living := slices.BinarySearchFunc(s.links, id, func(l *link, id uint64) int { return compare(l.id, id) }); living {
			e.link[e.n] = id
			e.n++
		}
	}
	clear(e.link[e.n:])
	return e.n < before
}

// keepExclusions sets a delivery's exclusions.
func (m *Machine) keepExclusions(di uint32, e exclusions) {
	if e.n == 0 {
		delete(m.excluded, di)
	} else {
		m.excluded[di] = e
	}
	m.markDelivery(di)
}

// charge raises a delivery's numbers.
func (m *Machine) charge(d *delivery, g give) {
	if g.count {
		d.count++
	}
	if g.failure {
		d.failures++
	}
	if g.seen {
		d.flags |= deliverySeen
	}
}

// putBack makes a message wait again in its place.
func (m *Machine) putBack(s *subscription, di uint32) {
	d := m.deliveries.at(di)
	d.gen = s.purgeGen
	seq := m.messages.at(d.message).seq
	wish, ok := m.excluded[di]
	if ok && len(s.picky) >= maxPicky { // in a dead-letter queue the wish is forgotten
		delete(m.excluded, di)
		ok = false
	}
	if ok {
		at, _ := slices.BinarySearchFunc(s.picky, seq, pickyMessage.compare)
		s.picky = slices.Insert(s.picky, at, pickyMessage{seq, wish})
	} else {
		m.putReturned(s, seq)
	}
	m.rearm(d.message)
	m.offer(s, seq, d.message)
	m.touch(s)
}

// maxExcluded is how many links may be excluded for a message, maxPicky how many
// messages of a subscription may exclude links [3.9].
const (
	maxExcluded = 8
	maxPicky    = 1000
)

// exclusions are the links that must not get a delivery again.
type exclusions struct {
	n    uint32
	link [maxExcluded]uint64
}

func (e *exclusions) has(id uint64) bool { return slices.Contains(e.link[:e.n], id) }

// exclude keeps a held delivery from l from now on. false: it can't be noted, since
// eight others that live are.
func (m *Machine) exclude(l *link, di uint32) bool {
	e := m.excluded[di]
	if l.ended || e.has(l.id) {
		return true
	}
	prune(l.sub, &e)
	if e.n == maxExcluded {
		if !l.sub.address.dead {
			return false
		}
		copy(e.link[:], e.link[1:]) // a dead-letter queue forgets the oldest
		e.n--
	}
	e.link[e.n] = l.id
	e.n++
	m.keepExclusions(di, e)
	return true
}

// forgetExclusions clears what the picky messages of s know of a link that ended.
func (m *Machine) forgetExclusions(s *subscription) {
	keep := s.picky[:0]
	for _, p := range s.picky {
		if prune(s, &p.wish) {
			m.keepExclusions(m.deliveryOf(s, m.find(s.address, p.seq)), p.wish)
		}
		if p.wish.n > 0 {
			keep = append(keep, p)
		} else {
			m.putReturned(s, p.seq)
		}
	}
	m.steps += len(s.picky) / passedPerStep // less than touching a message
	s.picky = keep
	m.touch(s)
}
