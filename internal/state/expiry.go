package state

import "encoding/binary"

// expiry is when a message expires, or before that is due. It stands in a heap by that moment while it isn't in a link's hands. No pointers [5.1].
type expiry struct {
	at      int64 // civil ms
	expires int64 // civil ms, 0: never
	message uint32
	place   uint32 // in Machine.expiries + 1, 0: not there
}

// expiryOf is the moment when a message that comes now expires, 0: never. A ttl counts from its coming, so that the clock of who sent it doesn't matter; without one
// the absolute time of the properties holds (AMQP 1.0 3.2.1, 3.2.4).
func (s *sections) expiryOf(now int64) int64 {
	if ttl := unsigned32(listField(s.header, 2)); ttl > 0 {
		return now + int64(ttl)
	}
	if v := listField(s.properties, 8); len(v) == 9 && v[0] == 0x83 {
		if at := int64(binary.BigEndian.Uint64(v[1:])); at > 0 {
			return at
		}
	}
	return 0
}

// unsigned32 is an encoded uint, 0 of anything else.
func unsigned32(v []byte) uint32 {
	switch {
	case len(v) == 2 && v[0] == 0x52:
		return uint32(v[1])
	case len(v) == 5 && v[0] == 0x70:
		return binary.BigEndian.Uint32(v[1:])
	}
	return 0
}

// setTimer gives a message the moments at which it expires and is due, 0 where there is none.
func (m *Machine) setTimer(mi uint32, expires, due int64) {
	at := due
	if due == 0 {
		at = expires
	}
	if at == 0 {
		return
	}
	i := m.timers.alloc()
	*m.timers.at(i) = expiry{at: at, expires: expires, message: mi}
	m.messages.at(mi).timer = i
	m.expiries.push(m, i)
}

// forgetTimer is for a message that goes, and before another setTimer.
func (m *Machine) forgetTimer(p *message) {
	if p.timer != 0 {
		m.expiries.remove(m, p.timer)
		m.timers.release(p.timer)
		p.timer = 0
	}
}

// expiresAt is when a message expires, 0: never.
func (m *Machine) expiresAt(mi uint32) int64 {
	if t := m.messages.at(mi).timer; t != 0 {
		return m.timers.at(t).expires
	}
	return 0
}

// due is when a message that is delayed arrives, 0 of any other.
func (m *Machine) due(mi uint32) int64 {
	if p := m.messages.at(mi); p.size&flagDelayed != 0 {
		return m.timers.at(p.timer).at
	}
	return 0
}

// expired says that a message's moment has come.
func (m *Machine) expired(mi uint32) bool {
	at := m.expiresAt(mi)
	return at != 0 && at <= m.civil.now
}

// runExpiries brings what is due, and expires what has to, as far as the entry's work allows. What links hold is passed over, and costs nothing: a machine that was loaded may have more of it.
func (m *Machine) runExpiries() {
	for m.steps < m.maxSteps/2 && len(m.expiries) > 0 {
		t := m.timers.at(m.expiries[0])
		if t.at > m.civil.now {
			return
		}
		m.expiries.remove(m, m.expiries[0])
		if m.messages.at(t.message).size&flagDelayed != 0 {
			m.arrive(t.message)
		} else {
			m.expire(t.message)
		}
	}
}

// nextExpiry is when the next one is due.
func (m *Machine) nextExpiry() int64 {
	if len(m.expiries) == 0 {
		return Never
	}
	return m.timers.at(m.expiries[0]).at
}

// expire takes a message whose moment has come from all for whom it waits; who holds it may settle it still, and where it is given back it goes then.
func (m *Machine) expire(mi uint32) {
	p := m.messages.at(mi)
	a := m.addresses[p.address]
	if a.dying {
		return
	}
	if !a.topic {
		if di := p.delivery; di == 0 || m.deliveries.at(di).link == 0 {
			m.counters.ExpiredMessages++
			m.unwait(a.queue, mi)
			m.finish(a.queue, mi)
		}
		return
	}
	count, seq := p.delivery, p.seq
	for _, s := range a.subs {
		di := m.deliveryOf(s, mi)
		switch {
		case s.dying: // its job has it
		case di != 0 && (m.deliveries.at(di).link != 0 || m.deliveries.at(di).flags&deliverySkipped != 0):
		case di != 0 || seq >= s.lane(seq).cursor:
			m.counters.ExpiredMessages++
			m.steps++
			m.unwait(s, mi)
			if count--; count == 0 {
				m.finish(s, mi)
				return
			}
			m.pass(s, mi)
			m.finish(s, mi)
		}
	}
}

// unwait takes a message out of those that wait in s: what was given back there loses its delivery, and the cursor may pass over it.
func (m *Machine) unwait(s *subscription, mi uint32) {
	di, seq := m.deliveryOf(s, mi), m.messages.at(mi).seq
	if di == 0 {
		if seq >= s.lane(seq).cursor {
			m.take(s, seq, mi)
			m.markPosition(s)
		}
		return
	}
	if m.deliveries.at(di).gen == s.purgeGen {
		m.take(s, seq, mi)
	}
	m.dropDelivery(s, di)
}

// pass marks a message that others have still as one that isn't for s any more, where its cursor is still to come to it.
func (m *Machine) pass(s *subscription, mi uint32) {
	seq := m.messages.at(mi).seq
	if seq < s.lane(seq).cursor {
		return
	}
	m.mark(s, mi)
}

// rearm puts a message that waits again among those that will expire.
func (m *Machine) rearm(mi uint32) {
	if t := m.messages.at(mi).timer; t != 0 && m.timers.at(t).place == 0 {
		m.expiries.push(m, t)
	}
}

// expiryHeap has timers by their moments; what is equal goes by address and number, so the order is total.
type expiryHeap []uint32

func (h expiryHeap) less(m *Machine, i, j int) bool {
	a, b := m.timers.at(h[i]), m.timers.at(h[j])
	if a.at != b.at {
		return a.at < b.at
	}
	p, q := m.messages.at(a.message), m.messages.at(b.message)
	if p.address != q.address {
		return m.addresses[p.address].inc < m.addresses[q.address].inc
	}
	return p.seq < q.seq
}

func (h expiryHeap) swap(m *Machine, i, j int) {
	h[i], h[j] = h[j], h[i]
	m.timers.at(h[i]).place, m.timers.at(h[j]).place = uint32(i+1), uint32(j+1)
}

func (h *expiryHeap) push(m *Machine, t uint32) {
	*h = append(*h, t)
	m.timers.at(t).place = uint32(len(*h))
	h.fix(m, len(*h)-1)
}

// remove takes a timer out, if it is there.
func (h *expiryHeap) remove(m *Machine, t uint32) {
	place := m.timers.at(t).place
	if place == 0 {
		return
	}
	i, last := int(place-1), len(*h)-1
	h.swap(m, i, last)
	*h = (*h)[:last]
	m.timers.at(t).place = 0
	if i < last {
		h.fix(m, i)
	}
}

func (h expiryHeap) fix(m *Machine, i int) {
	for i > 0 && h.less(m, i, (i-1)/2) {
		h.swap(m, i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		down := 2*i + 1
		if down >= len(h) {
			return
		}
		if down+1 < len(h) && h.less(m, down+1, down) {
			down++
		}
		if !h.less(m, down, i) {
			return
		}
		h.swap(m, i, down)
		i = down
	}
}
