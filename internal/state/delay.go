package state

import "encoding/binary"

// Annotations that delay a message (amqp.md 1.5, 6.53): the moment in ms since 1970 at which it may be handed out, or for how many ms it may not.
const (
	annotationDeliveryTime  = "x-opt-delivery-time"
	annotationDeliveryDelay = "x-opt-delivery-delay"
)

// dueAt is when a message that comes now may be handed out, 0: at once.
func (s *sections) dueAt(now int64) int64 {
	if s.annotations == nil {
		return 0
	}
	_, at := sectionCode(s.annotations)
	pairs, n, ok := mapPairs(s.annotations[at:])
	if !ok {
		return 0
	}
	due := int64(0)
	for range n / 2 {
		k := valueSize(pairs, 8)
		v := valueSize(pairs[k:], 8)
		switch ms := integer(pairs[k : k+v]); symbolText(pairs[:k]) {
		case annotationDeliveryTime:
			due = ms
		case annotationDeliveryDelay:
			if ms > 0 && ms < 1<<50 {
				due = now + ms
			}
		}
		pairs = pairs[k+v:]
	}
	if due <= now {
		return 0
	}
	return due
}

// symbolText is an encoded symbol's or string's text, "" of anything else.
func symbolText(v []byte) string {
	switch {
	case len(v) > 2 && (v[0] == 0xa3 || v[0] == 0xa1):
		return string(v[2:])
	case len(v) > 5 && (v[0] == 0xb3 || v[0] == 0xb1):
		return string(v[5:])
	}
	return ""
}

// integer is an encoded whole number or timestamp, 0 of anything else and of what is too large.
func integer(v []byte) int64 {
	switch {
	case len(v) == 2 && (v[0] == 0x52 || v[0] == 0x53 || v[0] == 0x50):
		return int64(v[1])
	case len(v) == 2 && (v[0] == 0x54 || v[0] == 0x55 || v[0] == 0x51):
		return int64(int8(v[1]))
	case len(v) == 5 && v[0] == 0x70:
		return int64(binary.BigEndian.Uint32(v[1:]))
	case len(v) == 5 && v[0] == 0x71:
		return int64(int32(binary.BigEndian.Uint32(v[1:])))
	case len(v) == 9 && (v[0] == 0x80 || v[0] == 0x81 || v[0] == 0x83):
		return max(0, int64(binary.BigEndian.Uint64(v[1:])))
	}
	return 0
}

// delay keeps a message, which was just stored, from all subscriptions until at. Each has a delivery of it that nobody holds: its cursor passes over it, and in its time it
// waits among what came back, in its own place.
func (m *Machine) delay(a *address, mi uint32, at int64) {
	p := m.messages.at(mi)
	p.size |= flagDelayed
	expires := m.expiresAt(mi)
	m.forgetTimer(p)
	m.setTimer(mi, expires, at)
	if !a.topic {
		m.delayFor(a.queue, mi)
		return
	}
	for _, s := range a.subs {
		if !s.dying && p.seq >= s.lane(p.seq).cursor && m.deliveryOf(s, mi) == 0 {
			m.delayFor(s, mi)
		}
	}
}

func (m *Machine) delayFor(s *subscription, mi uint32) {
	seq := m.messages.at(mi).seq
	if ln := s.lane(seq); ln.cursor == seq {
		ln.cursor++
	} else {
		ln.taken++
	}
	di := m.newDelivery(s, mi)
	d := m.deliveries.at(di)
	d.flags |= deliveryDelayed
	d.gen = s.purgeGen
	s.delayed++
	m.markDelivery(di)
	m.markPosition(s)
	m.steps++
}

// arrive makes a message whose time has come wait.
func (m *Machine) arrive(mi uint32) {
	p := m.messages.at(mi)
	a := m.addresses[p.address]
	if a.dying {
		return
	}
	p.size &^= flagDelayed
	expires := m.expiresAt(mi)
	m.forgetTimer(p)
	m.setTimer(mi, expires, 0)
	m.dirty.arrived = append(m.dirty.arrived, messageAt{a, p.seq})
	if !a.topic {
		m.land(a.queue, mi)
		return
	}
	for left, at := p.delivery, 0; left > 0 && at < len(a.subs); at++ {
		s := a.subs[at]
		if di := m.deliveryOf(s, mi); di == 0 || s.dying || m.deliveries.at(di).flags&deliveryDelayed == 0 {
			continue
		}
		if !m.land(s, mi) {
			left--
		}
	}
}

// land makes it wait in s; false: it isn't for s, since it was purged meanwhile or doesn't fit the selector.
func (m *Machine) land(s *subscription, mi uint32) bool {
	di := m.deliveryOf(s, mi)
	d := m.deliveries.at(di)
	m.steps++
	if d.gen != s.purgeGen || s.filter != nil && !m.matches(s.filter.selector, mi, 0) {
		m.dropDelivery(s, di)
		m.finish(s, mi)
		return false
	}
	s.delayed--
	d.flags &^= deliveryDelayed
	m.markDelivery(di)
	seq := m.messages.at(mi).seq
	m.putReturned(s, seq)
	m.offer(s, seq, mi)
	m.touch(s)
	return true
}
