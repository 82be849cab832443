package state

import "slices"

// runJobs goes on with what is larger than an entry [4.2] for at most budget steps:
// sessions of an earlier history, links that have ended, then deletions and purges. It returns the steps taken.
func (m *Machine) runJobs(budget int) int {
	before := m.steps
	m.forgetFormer(before + budget)
	for len(m.ending) > 0 && m.steps-before < budget {
		l := m.ending[0]
		m.giveAll(l, before+budget)
		if l.held > 0 {
			break
		}
		m.ending = slices.Delete(m.ending, 0, 1)
		l.sub.returning--
		m.touch(l.sub)
		m.dropLink(l)
	}
	for len(m.working) > 0 && m.steps-before < budget {
		s := m.working[0]
		if !m.clean(s, before+budget) {
			break
		}
		m.working = slices.DeleteFunc(m.working, func(x *subscription) bool { return x == s })
	}
	return m.steps - before
}

// giveAll returns what an ended link holds, oldest first, until m.steps reaches limit.
func (m *Machine) giveAll(l *link, limit int) {
	for l.first != 0 && m.steps < limit {
		di := l.first
		if l.presettled {
			if l.ending == ruleHomeLost {
				m.counters.LostPresettled++
			}
			m.consume(l, di)
			continue
		}
		g := giveSeen
		switch l.ending {
		case ruleConnLost:
			g = giveCounted
			if !l.charged {
				g = giveFailed
				l.charged = true
				m.markLink(l)
			}
		case ruleHomeLost, ruleForced:
			g = giveCounted
		case ruleClosed:
		}
		m.giveBack(l, di, g)
	}
}

// clean goes on with a purge or a deletion and reports whether it is done.
func (m *Machine) clean(s *subscription, limit int) bool {
	a := s.address
	for !s.over() && len(s.doomed) > 0 {
		di, ok := m.doomed(s, &s.doomed[0])
		if !ok {
			s.doomed = slices.Delete(s.doomed, 0, 1)
			continue
		}
		if m.steps >= limit {
			return false
		}
		s.doomed[0].numbers.pop()
		mi := m.deliveries.at(di).message
		m.dropDelivery(s, di)
		m.finish(s, mi)
	}
	if s.slot != 0 && !s.dying {
		return true // the rest is its cursor's
	}
	done := m.cleanRange(s, limit)
	m.markPosition(s)
	if !done {
		return false
	}
	for i := range s.lanes {
		s.lanes[i].from, s.lanes[i].to = 0, 0
	}
	switch {
	case a.dying:
		m.forgetAddress(a)
	case s.dying:
		m.forgetSubscription(s)
	}
	return true
}

// doomed is the delivery of the first message of what a purge found given back; false: none is left. Old entries, which links with selectors had taken, go: they
// aren't steps, since a restart doesn't have them.
func (m *Machine) doomed(s *subscription, heap *doomedHeap) (di uint32, ok bool) {
	for {
		seq, ok := heap.numbers.top()
		if !ok {
			return 0, false
		}
		if di = m.givenBack(s, seq, heap.gen); di != 0 {
			return di, true
		}
		heap.numbers.pop()
	}
}

// cleanRange goes on with the ranges of numbers that are purged, from their old ends, or those of a deleted queue, from their new ends:
// there the messages are, behind however many are gone. It reports whether nothing is left.
func (m *Machine) cleanRange(s *subscription, limit int) bool {
	for at := range s.lanes {
		if !m.cleanLane(s, &s.lanes[at], limit) {
			return false
		}
	}
	return true
}

// cleanLane is cleanRange for one lane.
func (m *Machine) cleanLane(s *subscription, ln *lane, limit int) bool {
	a := s.address
	r := run{address: a}
	defer m.endRun(&r)
	for {
		switch {
		case a.dying && a.depth == 0, s.dying && s.left == 0, ln.from >= ln.to:
			return true
		case m.steps >= limit:
			return false
		}
		seq := ln.from
		if s.over() {
			seq = ln.to - 1
		}
		n := uint64(1)
		switch mi := m.find(a, seq); {
		case mi == 0:
			n = m.passEmpty(s, ln, &r, seq)
		case s.slot != 0:
			m.cleanFor(s, ln, mi)
		default:
			m.cleanMessage(s, &r, mi)
		}
		if s.over() {
			ln.to -= n
		} else {
			ln.from += n
		}
	}
}

// passEmpty is how many numbers from seq on, in the direction of the job, have no message and are passed over as one step: an
// empty chunk costs one look, and so do its neighbours.
func (m *Machine) passEmpty(s *subscription, ln *lane, r *run, seq uint64) uint64 {
	m.steps++
	a := r.address
	n, no := uint64(1), seq>>chunkBits
	for range chunkSize {
		if no<<chunkBits >= ln.to || (no+1)<<chunkBits <= ln.from || m.chunk(a, no) != 0 {
			break
		}
		if m.apart[bodyChunk{a.inc, no}] != 0 {
			m.endRun(r)
		}
		if s.over() {
			n = seq + 1 - max(no<<chunkBits, ln.from)
			if no<<chunkBits <= ln.from {
				break
			}
			no--
		} else {
			n = min((no+1)<<chunkBits, ln.to) - seq
			no++
		}
	}
	return n
}

// cleanMessage drops a message whose number the job has come to.
func (m *Machine) cleanMessage(s *subscription, r *run, mi uint32) {
	a := s.address
	p := m.messages.at(mi)
	if a.topic {
		m.dropDeliveries(a, mi)
	} else if di := m.deliveryOf(s, mi); di != 0 {
		if d := m.deliveries.at(di); !a.dying && (d.flags&deliveryDelayed == 0 || d.gen == s.purgeGen) { // somebody has it, or it came back since
			m.steps++
			m.endRun(r)
			return
		}
		m.dropDelivery(s, di)
	}
	if m.apart[bodyChunk{a.inc, p.seq >> chunkBits}] != 0 { // among its neighbours' bodies is one that has to stay
		m.endRun(r)
		m.drop(a, mi)
		return
	}
	if p.fresh == 0 {
		r.extend(p.seq)
	}
	m.dropExtras(a, mi)
	m.forgetMessage(a, mi)
}

// leastRun is how many messages in a row a range has to delete to be worth it: looking for ranges costs those who read later.
const leastRun = 16

// run is a row of messages that a job has dropped one behind the other, whose keys can go as ranges: between them is no other
// message, and no body that belongs to a dead letter elsewhere.
type run struct {
	address  *address
	low      uint64 // number of the first
	high     uint64 // behind the last
	messages int
	first    [leastRun]uint64 // numbers
}

func (r *run) extend(seq uint64) {
	if r.messages == 0 {
		r.low, r.high = seq, seq
	}
	r.low, r.high = min(r.low, seq), max(r.high, seq+1)
	if r.messages < leastRun {
		r.first[r.messages] = seq
	}
	r.messages++
}

// endRun deletes the keys of a run, and begins another.
func (m *Machine) endRun(r *run) {
	inc := r.address.inc
	if r.messages < leastRun {
		for _, seq := range r.first[:r.messages] {
			m.deleteMessageKey(keyMessage, inc, seq)
			m.deleteMessageKey(keyBody, inc, seq)
		}
	} else {
		for _, kind := range []byte{keyMessage, keyBody} {
			m.deleteRange(appendMessageKey(nil, m.group, kind, inc, r.low), appendMessageKey(nil, m.group, kind, inc, r.high))
		}
	}
	r.messages = 0
}

// forgetAddress forgets a deleted queue whose messages are gone.
func (m *Machine) forgetAddress(a *address) {
	if a.depth != 0 {
		panic("state: a deleted queue still has messages")
	}
	a.gone = true
	delete(m.byInc, a.inc)
	m.addresses[a.slot] = nil
	m.freeAddress = append(m.freeAddress, a.slot)
	for _, s := range slices.Clone(a.subs) {
		m.forgetSubscription(s)
	}
	m.markAddress(a)
	m.markPlace(a)
}
