package state

import (
	"cmp"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// results are what became of a resumable link's deliveries, kept until the receiver
// has settled them [3.3] and, if it doesn't come, as long as its session.
type results struct {
	object
	id      uint64 // of the link that settled first
	session *session
	name    string
	states  map[resultKey]command.UnsettledState
}

type resultKey struct {
	inc     command.Incarnation
	message uint64
	attempt uint32
}

// maxResults bounds the kept results of a link; a client keeps at most 10,000
// deliveries unsettled (wire.md). What is beyond isn't kept.
const maxResults = 100_000

func (m *Machine) changeSettle(c *command.Settle, p *plan) {
	l := p.link
	var lost []command.DeliveryRef
	for _, ref := range c.Refs {
		m.steps++
		switch di := m.held(l, ref); {
		case di != 0:
			if c.Keep {
				m.keepResult(l, ref, c.Outcome)
			}
			m.settle(l, di, &c.Disposition)
		case !m.sameResult(l, ref, c.Outcome):
			lost = append(lost, ref)
		}
	}
	if c.Request != 0 {
		if len(c.Refs) == 0 && l != nil {
			m.fence(l.sub)
		}
		e := m.tell(p.conn, command.EffectSettled)
		e.Link, e.Request, e.Refs = c.Link, c.Request, lost
	}
}

// fence hands out now what would be at the end of the entry, so that the answer that
// follows comes behind it: a home that asks for nothing but an answer wants to know
// what an allowance brings [4.6].
func (m *Machine) fence(s *subscription) {
	m.steps += m.handOut(s, max(m.maxSteps-m.steps, m.leastSteps/10))
}

// settle applies an outcome to a held delivery.
func (m *Machine) settle(l *link, di uint32, d *command.Disposition) {
	switch d.Outcome {
	case command.Accepted:
		m.consume(l, di)
	case command.Released:
		m.giveBack(l, di, giveSeen) // it was on a wire; no attempt has failed (C8)
	case command.Rejected:
		m.reject(l, di, d.Reason)
	case command.Modified:
		m.modify(l, di, d)
	default:
		panic("state: unknown outcome of a delivery")
	}
}

// reject makes a delivery a dead letter. In a dead-letter queue it goes back to its
// place instead, and not to this link again (C13).
func (m *Machine) reject(l *link, di uint32, reason string) {
	s := l.sub
	if s.address.dead {
		m.exclude(l, di)
		m.giveBack(l, di, giveFailed)
		return
	}
	m.unchain(l, di)
	s.inFlight--
	m.charge(m.deliveries.at(di), giveFailed)
	m.emptied(l)
	if reason == "" {
		reason = reasonRejected
	}
	m.deadLetter(s, di, reason)
}

func (m *Machine) modify(l *link, di uint32, d *command.Disposition) {
	g := giveSeen
	if d.Failed {
		g = giveFailed
	}
	if len(d.Annotations) > 0 && len(d.Annotations) <= maxOverlay {
		mi := m.deliveries.at(di).message
		m.setOverlay(l.sub.address, mi, mergeOverlay(m.overlays[mi], d.Annotations))
	}
	if d.UndeliverableHere && !m.exclude(l, di) { // nine living links have said so
		m.unchain(l, di)
		l.sub.inFlight--
		m.charge(m.deliveries.at(di), g)
		m.emptied(l)
		m.deadLetter(l.sub, di, reasonUndeliverable)
		return
	}
	m.giveBack(l, di, g)
}

// setOverlay sets what is merged over a message's annotations.
func (m *Machine) setOverlay(a *address, mi uint32, overlay []byte) {
	if overlay == nil {
		return
	}
	p := m.messages.at(mi)
	p.size |= flagOverlay
	m.keepOverlay(mi, append([]byte(nil), overlay...))
	m.dirty.overlays = append(m.dirty.overlays, messageAt{a, p.seq})
}

// keepResult keeps what became of a delivery for the client's unsettled map.
func (m *Machine) keepResult(l *link, ref command.DeliveryRef, outcome command.Disposed) {
	s := l.session
	if s == nil {
		return
	}
	r := s.results[l.name]
	if r == nil {
		r = &results{id: l.id, session: s, name: l.name, states: make(map[resultKey]command.UnsettledState)}
		s.results[l.name] = r
		m.results[r.id] = r
		m.markResults(r)
	}
	if len(r.states) >= maxResults {
		return
	}
	key := resultKey{l.sub.address.inc, ref.Message, ref.Attempt}
	if _, again := r.states[key]; !again {
		m.kept += resultCost
	}
	r.states[key] = resultOf(outcome)
	m.dirty.kept = append(m.dirty.kept, resultAt{r, key})
}

func resultOf(outcome command.Disposed) command.UnsettledState {
	if outcome == command.Accepted {
		return command.WasAccepted
	}
	return command.WasReturned
}

// sameResult says that this outcome was applied to the delivery before.
func (m *Machine) sameResult(l *link, ref command.DeliveryRef, outcome command.Disposed) bool {
	if l == nil || l.session == nil {
		return false
	}
	r := l.session.results[l.name]
	return r != nil && r.states[resultKey{l.sub.address.inc, ref.Message, ref.Attempt}] == resultOf(outcome)
}

// sortedResults is sortedKeys for results.
func sortedResults(in map[resultKey]command.UnsettledState) []resultKey {
	keys := make([]resultKey, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b resultKey) int {
		return cmp.Or(cmp.Compare(a.inc, b.inc), cmp.Compare(a.message, b.message), cmp.Compare(a.attempt, b.attempt))
	})
	return keys
}

func (m *Machine) changeForget(c *command.Forget, p *plan) {
	l := p.link
	if l.session == nil || l.session.results[l.name] == nil {
		return
	}
	r := l.session.results[l.name]
	for _, ref := range c.Refs {
		key := resultKey{l.sub.address.inc, ref.Message, ref.Attempt}
		if _, ok := r.states[key]; ok {
			delete(r.states, key)
			m.kept -= resultCost
			m.dirty.kept = append(m.dirty.kept, resultAt{r, key})
			m.steps++
		}
	}
}

// manyKeys is from where on a range is deleted instead of its keys: each range costs
// every later read of the store something, until it is compacted away.
const manyKeys = 1000

// dropResults forgets a link's results.
func (m *Machine) dropResults(r *results) {
	delete(r.session.results, r.name)
	delete(m.results, r.id)
	m.kept -= resultCost * uint64(len(r.states))
	if len(r.states) < manyKeys {
		for _, k := range sortedResults(r.states) {
			m.dirty.gone = appendResultKey(m.dirty.gone, m.group, r.id, k)
			m.deleteKey()
			m.steps++
		}
	} else {
		m.deleteUnder(keyResult, r.id)
	}
	r.gone = true
	m.markResults(r)
	m.steps++
}
