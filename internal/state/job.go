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
		l.queue.sub.returning--
		m.touch(l.queue)
		m.dropLink(l)
	}
	for len(m.working) > 0 && m.steps-before < budget {
		if !m.clean(m.working[0], before+budget) {
			break
		}
		m.working = slices.Delete(m.working, 0, 1)
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
func (m *Machine) clean(q *queue, limit int) bool {
	s := &q.sub
	for !q.dying && len(s.doomed) > 0 {
		if m.steps >= limit {
			return false
		}
		mi := m.find(q, s.doomed.pop())
		m.dropDelivery(q, m.messages.at(mi).delivery)
		m.drop(q, mi, false)
	}
	for q.dying && q.depth > 0 {
		if m.steps >= limit {
			m.markPlace(q)
			return false
		}
		m.cleanNewest(q)
	}
	for !q.dying && s.purgeFrom < s.purgeTo {
		if m.steps >= limit {
			m.markPlace(q)
			return false
		}
		seq := s.purgeFrom
		mi := m.find(q, seq)
		s.purgeFrom++
		if mi == 0 || m.messages.at(mi).delivery != 0 { // somebody has it, or it came back since
			m.steps++
			continue
		}
		m.drop(q, mi, false)
	}
	s.purgeFrom, s.purgeTo = 0, 0
	m.markPlace(q)
	if q.dying {
		m.forgetQueue(q)
	}
	return true
}

// cleanNewest drops the newest message of a deleted queue, or passes over numbers that
// have none. From the new end: there the messages are, behind however many are gone.
func (m *Machine) cleanNewest(q *queue) {
	s := &q.sub
	seq := s.purgeTo - 1
	mi := m.find(q, seq)
	switch {
	case mi != 0:
		s.purgeTo = seq
		if di := m.messages.at(mi).delivery; di != 0 {
			m.dropDelivery(q, di)
		}
		m.drop(q, mi, false)
		return
	case m.chunk(q, seq>>chunkBits) != 0:
		s.purgeTo = seq
		return
	}
	// An empty chunk costs one look, and so do its neighbours: several make a step.
	m.steps++
	for no, n := seq>>chunkBits, 0; n < chunkSize && m.chunk(q, no) == 0; n++ {
		s.purgeTo = max(no<<chunkBits, 1)
		if no == 0 {
			break
		}
		no--
	}
}

// forgetQueue forgets a deleted queue whose messages are gone.
func (m *Machine) forgetQueue(q *queue) {
	if q.depth != 0 {
		panic("state: a deleted queue still has messages")
	}
	q.gone = true
	delete(m.byInc, q.inc)
	m.queues[q.slot] = nil
	m.freeQueue = append(m.freeQueue, q.slot)
	m.markQueue(q)
	m.markPlace(q)
}
