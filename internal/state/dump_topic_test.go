package state

import (
	"fmt"
	"slices"
)

func (m *Machine) dumpTopic(p func(string, ...any), a *address) {
	p("topic %x %q lanes %x depth %d bytes %d dying %v named %v living %d", a.inc, a.name, a.lanes, a.depth, a.bytes, a.dying, m.byName[a.name] == a, a.living)
	if a.dying {
		return
	}
	for _, s := range a.subs {
		p("  sub %x %+v key %+v selector %x dying %v left %d ending %v refs %d", s.id, s.is, s.key, s.filter.bytes(), s.dying, s.left, s.ending, s.refs)
		p("    lanes %x turn %x gen %d inflight %d returning %d deliveries %d", s.lanes, s.turn, s.purgeGen, s.inFlight, s.returning, s.deliveries)
		if s.dying {
			continue
		}
		p("    returned %v picky %v doomed %v named %v", m.trueReturned(s), s.picky, m.doomedNumbers(s), m.named[s.key] == s)
		for _, l := range s.links {
			p("    living %x", l.id)
		}
		for _, l := range s.ready {
			p("    ready %x", l.id)
		}
	}
	for seq := range numbers(a) {
		mi := m.find(a, seq)
		if mi == 0 {
			continue
		}
		m.dumpMessage(p, mi)
		p("   pending %d", m.messages.at(mi).delivery)
		for _, s := range a.subs {
			if di := m.deliveryOf(s, mi); di != 0 && !s.dying {
				p("   of %x", s.id)
				m.dumpDelivery(p, di)
			}
		}
	}
}

// verifyTopic checks that each message is pending for those that it counts, in one place of each, and returns how many there are.
func (m *Machine) verifyTopic(a *address) (total int, err error) {
	pending := make(map[uint64]uint32)
	living := 0
	for _, s := range a.subs {
		if m.subscriptions[s.slot] != s || m.subscriptionByID[s.id] != s || s.gone {
			return 0, fmt.Errorf("subscription %x isn't in its slot", s.id)
		}
		if s.touched != slices.Contains(m.touched, s) {
			return 0, fmt.Errorf("subscription %x: touched is %v", s.id, s.touched)
		}
		if a.dying {
			continue
		}
		if err := m.verifySubscription(s, pending); err != nil {
			return 0, fmt.Errorf("subscription %x: %w", s.id, err)
		}
		if !s.dying {
			living++
		}
	}
	bytes := uint64(0)
	for seq := range numbers(a) {
		mi := m.find(a, seq)
		if mi == 0 {
			if pending[seq] != 0 {
				return 0, fmt.Errorf("message %x is pending for %d and isn't there", seq, pending[seq])
			}
			continue
		}
		total++
		p := m.messages.at(mi)
		bytes += uint64(p.size & sizeMask)
		if p.fresh != 0 || p.seq != seq || p.address != a.slot {
			return 0, fmt.Errorf("message %x: %+v", seq, *p)
		}
		if !a.dying && (p.delivery != pending[seq] || p.delivery == 0) {
			return 0, fmt.Errorf("message %x is pending for %d, it says %d", seq, pending[seq], p.delivery)
		}
	}
	if uint64(total) != a.depth || bytes != a.bytes || !a.dying && living != a.living {
		return 0, fmt.Errorf("%d messages of %d bytes for %d, it says %d of %d for %d", total, bytes, living, a.depth, a.bytes, a.living)
	}
	return total, nil
}

// verifySubscription checks a topic's subscription, and adds one to each message that is pending in it.
func (m *Machine) verifySubscription(s *subscription, pending map[uint64]uint32) error {
	refs, held := 0, uint64(0)
	places := make(map[uint64]int)
	for _, l := range m.links {
		if l == nil || l.sub != s {
			continue
		}
		refs++
		for di, before := l.first, uint32(0); di != 0; di, before = m.deliveries.at(di).next, di {
			if d := m.deliveries.at(di); d.prev != before || d.link != l.slot {
				return fmt.Errorf("link %x: its list is broken", l.id)
			}
			places[m.messages.at(m.deliveries.at(di).message).seq]++
			held++
		}
	}
	if refs != s.refs || !s.dying && held != s.inFlight || refs == 0 && (!s.is.Durable || s.ending) && !s.dying {
		return fmt.Errorf("%d links hold %d, it says %d and %d; %+v ending %v dying %v", refs, held, s.refs, s.inFlight, s.is, s.ending, s.dying)
	}
	back := m.trueReturned(s)
	if len(back) != s.count {
		return fmt.Errorf("%d came back, it says %d", len(back), s.count)
	}
	for _, seq := range back {
		places[seq]++
	}
	for _, x := range s.picky {
		places[x.seq]++
	}
	for _, x := range m.doomedNumbers(s) {
		for _, seq := range x[1:] {
			places[seq]++
		}
	}
	deliveries, left, delayed := uint64(0), uint64(0), uint64(0)
	taken := make([]uint64, len(s.lanes))
	for seq := range numbers(s.address) {
		at := s.address.laneAt(seq)
		ln := &s.lanes[at]
		behind := seq >= ln.cursor && (!s.dying || seq < ln.to)
		di := uint32(0)
		mi := m.find(s.address, seq)
		if mi != 0 {
			di = m.deliveryOf(s, mi)
		}
		switch mark := di != 0 && m.deliveries.at(di).flags&deliverySkipped != 0; {
		case mi == 0 || mark:
			if behind {
				taken[at]++
			}
			if places[seq] != 0 || mark && !behind {
				return fmt.Errorf("message %x, which isn't for it, is in %d places", seq, places[seq])
			}
			if mark {
				deliveries++
				left++
			}
		case di != 0 && m.deliveries.at(di).flags&deliveryDelayed != 0:
			deliveries++
			left++
			pending[seq]++
			if behind {
				taken[at]++
			}
			if !s.dying && m.deliveries.at(di).gen == s.purgeGen {
				delayed++
			}
			if places[seq] != 0 {
				return fmt.Errorf("message %x is delayed and in %d places", seq, places[seq])
			}
		case di != 0:
			deliveries++
			left++
			pending[seq]++
			if behind { // it was delayed
				taken[at]++
			}
			if !s.dying && places[seq] != 1 {
				return fmt.Errorf("message %x is in %d places", seq, places[seq])
			}
		case behind:
			left++
			pending[seq]++
			if places[seq] != 0 {
				return fmt.Errorf("message %x waits and is in %d places", seq, places[seq])
			}
		}
	}
	if !s.dying && delayed != s.delayed {
		return fmt.Errorf("%d are delayed, it says %d", delayed, s.delayed)
	}
	if deliveries != s.deliveries || s.dying && left != s.left {
		return fmt.Errorf("%d deliveries, %d are left; it says %d and %d", deliveries, left, s.deliveries, s.left)
	}
	for at, n := range taken {
		if !s.dying && n != s.lanes[at].taken {
			return fmt.Errorf("lane %d: %d numbers behind the cursor don't wait there, it says %d", at, n, s.lanes[at].taken)
		}
	}
	if s.filter != nil && !s.dying && !s.touched && s.fresh() > 0 {
		return fmt.Errorf("nobody sifts the %d that wait", s.fresh())
	}
	return nil
}

// verifyExpiries checks that all that will expire stands in the heap but what links hold, which may.
func (m *Machine) verifyExpiries() error {
	if n := m.timers.live(); n < len(m.expiries) {
		return fmt.Errorf("%d timers, %d in the heap", n, len(m.expiries))
	}
	for i, t := range m.expiries {
		x := m.timers.at(t)
		if int(x.place) != i+1 || m.messages.at(x.message).timer != t || i > 0 && m.expiries.less(m, i, (i-1)/2) {
			return fmt.Errorf("timer %d at place %d of the heap: %+v", t, i, *x)
		}
	}
	for _, a := range m.byInc {
		for seq := range numbers(a) {
			mi := m.find(a, seq)
			if mi == 0 || a.dying || m.messages.at(mi).timer == 0 || m.timers.at(m.messages.at(mi).timer).place != 0 {
				continue
			}
			held := false
			for _, s := range append([]*subscription{a.queue}, a.subs...) {
				if di := m.deliveryOf(s, mi); di != 0 && (m.deliveries.at(di).link != 0 || s.dying) || s.dying {
					held = true
				}
			}
			if !held {
				return fmt.Errorf("message %x of %q waits and never expires", seq, a.name)
			}
		}
	}
	return nil
}
