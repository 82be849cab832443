package state

import (
	"cmp"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// of is the address of a message's key.
func (m *loader) of(k *fields) *address {
	inc := command.Incarnation(k.be64())
	if m.address == nil || m.address.inc != inc {
		m.address = m.byInc[inc]
	}
	return m.address
}

func (m *loader) message(kind byte, k, v *fields) error {
	a := m.of(k)
	if a == nil {
		return missing("the queue")
	}
	seq := k.be64()
	if kind == keyMessage {
		mi := m.putMessage(a, seq, uint32(v.uint()))
		expires, due := v.int(), v.int()
		m.setTimer(mi, expires, due)
		if due != 0 {
			m.messages.at(mi).size |= flagDelayed
		}
		m.messages.at(mi).head = m.keepHead(v.b)
		v.b = nil
		return nil
	}
	mi := m.find(a, seq)
	if mi == 0 {
		return missing("the message")
	}
	if kind == keyOverlay {
		m.messages.at(mi).size |= flagOverlay
		m.keepOverlay(mi, slices.Clone(v.b))
	} else {
		m.messages.at(mi).size |= flagMoved
		m.keepOrigin(mi, origin{command.Incarnation(v.be64()), v.be64(), v.byte()&1 != 0})
	}
	return nil
}

func (m *loader) delivery(k, v *fields) error {
	a := m.of(k)
	if a == nil {
		return missing("the queue")
	}
	s := a.queue
	if id := k.be64(); id != 0 {
		if s = m.subscriptionByID[id]; s == nil {
			return missing("the subscription")
		}
	}
	mi := m.find(a, k.be64())
	if mi == 0 {
		return missing("the message")
	}
	di := m.newDelivery(s, mi)
	d := m.deliveries.at(di)
	id := v.uint()
	link := m.linkByID[id]
	if id != 0 && link == nil && !s.over() {
		return missing("the link")
	}
	d.order, d.told, d.attempt, d.count, d.failures = v.uint(), v.uint(), uint32(v.uint()), uint32(v.uint()), uint32(v.uint())
	d.gen = uint32(v.uint())
	d.flags = v.byte()&(deliverySeen|deliverySkipped|deliveryDelayed) | deliveryStored
	m.countDelivery(s, d)
	if d.flags&deliverySkipped != 0 {
		s.address.marks++
	}
	if d.flags&deliveryDelayed != 0 && d.gen == s.purgeGen {
		s.delayed++
	}
	var e exclusions
	e.n = uint32(min(v.uint(), maxExcluded))
	for i := range e.n {
		e.link[i] = v.uint()
	}
	if e.n > 0 && (link != nil || d.gen == s.purgeGen) {
		m.excluded[di] = e
	}
	switch {
	case s.over():
	case d.flags&deliverySkipped != 0:
	case d.flags&deliveryDelayed != 0:
	case link != nil:
		m.chain(link, di)
		link.sub.inFlight++
	default:
		m.gaveBack(s, di)
	}
	return nil
}

// gaveBack puts a given-back delivery where it was.
func (m *loader) gaveBack(s *subscription, di uint32) {
	d := m.deliveries.at(di)
	seq := m.messages.at(d.message).seq
	if d.gen != s.purgeGen {
		at, found := slices.BinarySearchFunc(s.doomed, d.gen, func(x doomedHeap, gen uint32) int {
			return cmp.Compare(x.gen-s.purgeGen, gen-s.purgeGen) // the oldest first, also behind the highest number
		})
		if !found {
			s.doomed = slices.Insert(s.doomed, at, doomedHeap{gen: d.gen})
		}
		s.doomed[at].numbers.push(seq)
		return
	}
	if wish, ok := m.excluded[di]; ok {
		at, _ := slices.BinarySearchFunc(s.picky, seq, pickyMessage.compare)
		s.picky = slices.Insert(s.picky, at, pickyMessage{seq, wish})
		return
	}
	s.returned.push(seq)
	s.count++
}
