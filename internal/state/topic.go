package state

import (
	"cmp"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// A topic's message is stored once, whatever the number of subscriptions [4.9], and counts for how many of them it is still there: for those whose
// cursor hasn't come to it, and for those that have a delivery of it. The count is in message.delivery; it isn't stored, since it follows from the rest.

// topicAddress is what an address knows as a topic.
type topicAddress struct {
	subs   []*subscription // by id, dying ones too
	living int             // how many aren't dying
	// noLocal are those of subs that don't want what their own container sends, by id, dying ones too.
	noLocal   []*subscription
	published bool // stands in Machine.published
	marks     int  // deliveries that say that a message isn't for their subscription
}

// topicPart is what a subscription of a topic has beside a queue's.
type topicPart struct {
	slot uint32 // in Machine.subscriptions, 0 of a queue's
	is   command.Subscription
	key  subscriptionKey
	// filter is its selector, nil: none. What doesn't fit goes when the cursor comes to it, and that doesn't wait for a consumer.
	filter *filter
	refs   int // links, those that have ended and hold something too
	// ending: its identity is free for another, and it goes with its last link.
	ending bool
	// dying: a job takes it out of what is pending. left says for how many messages, markers included.
	dying      bool
	left       uint64
	deliveries uint64 // markers too
}

// subscriptionKey is a named subscription's identity.
type subscriptionKey struct {
	principal, container, name string
	durable                    bool
}

// deliveryKey names a delivery by its subscription's slot and its message's index.
type deliveryKey struct{ subscription, message uint32 }

// fullName is how people are told of a subscription: the queue's name, or the topic's and its own.
func (s *subscription) fullName() string {
	if s.is.Name == "" {
		return s.address.name
	}
	return s.address.name + "::" + s.is.Name
}

// publish makes a message pending for all subscriptions: one step. It says whether it is for any.
func (m *Machine) publish(a *address, mi uint32, from *conn) bool {
	left := a.living
	m.messages.at(mi).delivery = uint32(a.living)
	if !a.published {
		a.published = true
		m.published = append(m.published, a)
	}
	if from == nil {
		return true
	}
	for _, s := range slices.Clone(a.noLocal) {
		if !s.dying && s.key.principal == from.client.key.principal && s.key.container == from.client.key.container {
			left--
			m.skip(s, mi)
		}
	}
	return left > 0
}

// touchPublished touches the subscriptions that can do something with what their topics got.
func (m *Machine) touchPublished() {
	for _, a := range m.published {
		a.published = false
		for _, s := range a.subs {
			if s.filter != nil || len(s.ready) > 0 {
				m.touch(s)
			}
		}
	}
	m.published = emptied(m.published)
}

// skip makes a message, which was just published, one that isn't for s. Behind the cursor a delivery that nobody has marks it.
func (m *Machine) skip(s *subscription, mi uint32) {
	seq := m.messages.at(mi).seq
	m.steps++
	m.markPosition(s)
	if ln := s.lane(seq); ln.cursor == seq {
		ln.cursor++
	} else {
		m.mark(s, mi)
		ln.taken++
	}
	m.finish(s, mi)
}

// mark makes the delivery that says that a message behind its cursor isn't for s.
func (m *Machine) mark(s *subscription, mi uint32) {
	di := m.newDelivery(s, mi)
	m.deliveries.at(di).flags |= deliverySkipped
	m.markDelivery(di)
	s.address.marks++
}

// passed forgets a mark that s's cursor passes over; mi is 0 where no message is any more.
func (m *Machine) passed(s *subscription, mi uint32) {
	if s.slot == 0 || mi == 0 {
		return
	}
	if di := m.deliveryOf(s, mi); di != 0 && m.deliveries.at(di).flags&deliverySkipped != 0 {
		m.dropDelivery(s, di)
	}
}

// finish takes a message out of s for good: a queue's goes, a topic's when nobody else has it pending.
func (m *Machine) finish(s *subscription, mi uint32) {
	a := s.address
	if s.slot == 0 {
		m.drop(a, mi)
		return
	}
	p := m.messages.at(mi)
	if p.delivery--; p.delivery > 0 {
		return
	}
	for at := 0; a.marks > 0 && at < len(a.subs); at++ {
		other := a.subs[at]
		if di := m.deliveryOf(other, mi); di != 0 { // a mark
			m.dropDelivery(other, di)
			if other.dying {
				other.left--
				m.markPosition(other)
			}
		}
	}
	m.drop(a, mi)
}

// discarding says that the cursor is still to pass over what a purge has taken.
func (s *subscription) discarding() bool {
	return s.slot != 0 && slices.ContainsFunc(s.lanes, func(ln lane) bool { return ln.cursor < ln.to })
}

// sifts says that the cursor moves without a consumer.
func (s *subscription) sifts() bool { return s.filter != nil && s.fresh() > 0 || s.discarding() }

// sift moves the cursors of a subscription over what was purged, and with a selector to the end: what fits waits from then on among what came back. It takes
// about budget steps at most.
func (m *Machine) sift(s *subscription, budget int) (used int) {
	for at := range s.lanes {
		ln := &s.lanes[at]
		for ln.cursor < s.address.lanes[at] && (s.filter != nil || ln.cursor < ln.to) {
			if used >= budget {
				return used
			}
			used += m.siftOne(s, ln)
		}
		if ln.cursor >= ln.to {
			ln.to = 0
		}
	}
	return used
}

// siftOne moves a cursor by one.
func (m *Machine) siftOne(s *subscription, ln *lane) (used int) {
	seq := ln.cursor
	ln.cursor++
	m.markPosition(s)
	m.headBuf = m.headBuf[:0]
	mi := m.find(s.address, seq)
	switch {
	case mi == 0 || m.deliveryOf(s, mi) != 0:
		m.passed(s, mi)
		ln.taken--
	case seq >= ln.to && m.matches(s.filter.selector, mi, 0):
		di := m.newDelivery(s, mi)
		m.deliveries.at(di).gen = s.purgeGen
		m.markDelivery(di)
		m.putReturned(s, seq)
	default:
		m.finish(s, mi)
	}
	return 1 + len(m.headBuf)/headPerStep
}

// cleanFor takes a message out of a subscription that dies, where it is pending there.
func (m *Machine) cleanFor(s *subscription, ln *lane, mi uint32) {
	m.steps++
	seq := m.messages.at(mi).seq
	switch di := m.deliveryOf(s, mi); {
	case di != 0:
		mark := m.deliveries.at(di).flags&deliverySkipped != 0
		m.dropDelivery(s, di)
		s.left--
		if !mark {
			m.finish(s, mi)
		}
	case seq >= ln.cursor:
		s.left--
		m.finish(s, mi)
	}
}

// dropDeliveries forgets what subscriptions of a deleted topic know of a message.
func (m *Machine) dropDeliveries(a *address, mi uint32) {
	for _, s := range a.subs {
		if di := m.deliveryOf(s, mi); di != 0 {
			m.dropDelivery(s, di)
		}
		m.steps++
	}
	m.messages.at(mi).delivery = 0
}

// countPending counts again for how many subscriptions each message of a topic is there.
func (m *loader) countPending(a *address) {
	type event struct {
		seq uint64
		by  int
	}
	for at, next := range a.lanes {
		var events []event
		for _, s := range a.subs {
			ln, to := &s.lanes[at], next
			if s.dying {
				to = ln.to
			}
			if ln.cursor < to {
				events = append(events, event{ln.cursor, 1}, event{to, -1})
			}
		}
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.seq, b.seq) })
		count := 0
		for i, e := range events {
			if count += e.by; count > 0 && i+1 < len(events) {
				m.pendingBetween(a, e.seq, events[i+1].seq, uint32(count))
			}
		}
	}
}

// countDelivery puts right what countPending will count for a message that has a delivery.
func (m *loader) countDelivery(s *subscription, d *delivery) {
	if s.slot == 0 || s.address.dying {
		return
	}
	p := m.messages.at(d.message)
	ln := s.lane(p.seq)
	covered := p.seq >= ln.cursor && (!s.dying || p.seq < ln.to)
	switch mark := d.flags&deliverySkipped != 0; {
	case mark && covered:
		p.delivery--
	case !mark && !covered:
		p.delivery++
	}
}

// pendingBetween counts messages of a lane as pending for so many subscriptions.
func (m *loader) pendingBetween(a *address, from, to uint64, count uint32) {
	for seq := from; seq < to; {
		if m.chunk(a, seq>>chunkBits) == 0 {
			seq = (seq>>chunkBits + 1) << chunkBits
			continue
		}
		if mi := m.find(a, seq); mi != 0 {
			m.messages.at(mi).delivery += count
		}
		seq++
	}
}
