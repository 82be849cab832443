package state

import (
	"slices"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// outcomeRecord is a decided transaction of a session. No pointers [5.1].
type outcomeRecord struct {
	number  uint64
	civil   int64 // when it was decided
	outcome command.TxOutcome
	reason  uint8 // place in reasonCodes + 1; 0: none; reasonOther: in session.reasons
	stored  bool
}

// reasonCodes are stored: only append.
var reasonCodes = []string{
	command.ReasonClient, command.ReasonIncomplete, command.ReasonTimeout, command.ReasonTooLarge, command.ReasonDeliveryLost,
	command.ReasonRefused, command.ReasonResolved, command.ReasonSessionEnded, command.ReasonReused, command.ReasonLimit,
}

const reasonOther = 255

// maxOutcomes bounds a session's records: 1,000 unknown ones and as many above "known
// through" (C2).
const maxOutcomes = 2 * command.MaxUnknown

// standing is what state knows of a transaction before it is asked to do anything
// (C5).
type standing uint8

const (
	undecided  standing = 1 + iota
	decided             // plan.outcome is its record
	expired             // forgotten, or never of this history
	overEnded           // undecided, of a session that has ended: it can't happen any more
	noStanding          // plan.refusal says why
)

// stand finds out. tagged transactions only.
func (m *Machine) stand(tx command.TxID, p *plan) standing {
	id := tx.Session()
	s := m.sessions[id]
	if s == nil || id.History() != m.history || id.Group() != m.group {
		return expired
	}
	if p.conn != nil && s.principal != p.conn.client.key.principal {
		p.refusal = refusal(condUnauthorized, "session %s belongs to another user", id)
		return noStanding
	}
	n := tx.Number()
	if n == 0 {
		p.refusal = refusal(condInvalid, "transactions are numbered from 1")
		return noStanding
	}
	p.session = s
	if at, found := s.findOutcome(n); found && !mutant.On(mutant.OutcomeLookup) {
		p.outcome = s.outcomes[at]
		return decided
	}
	if n <= s.through {
		if _, kept := slices.BinarySearch(s.unknown, n); !kept {
			return expired
		}
	}
	if s.ended {
		return overEnded
	}
	return undecided
}

func (s *session) findOutcome(n uint64) (int, bool) {
	return slices.BinarySearchFunc(s.outcomes, n, func(r outcomeRecord, n uint64) int { return compare(r.number, n) })
}

func (s *session) reasonOf(r outcomeRecord) string {
	switch {
	case r.reason == 0:
		return ""
	case r.reason == reasonOther:
		return s.reasons[r.number]
	}
	return reasonCodes[r.reason-1]
}

// decide records an outcome. There is none yet.
func (m *Machine) decide(s *session, n uint64, outcome command.TxOutcome, reason string) outcomeRecord {
	r := outcomeRecord{number: n, civil: m.civil.now, outcome: outcome}
	if reason != "" {
		if r.reason = uint8(slices.Index(reasonCodes, reason) + 1); r.reason == 0 {
			r.reason = reasonOther
			if s.reasons == nil {
				s.reasons = make(map[uint64]string)
			}
			s.reasons[n] = cut(reason, 1024)
		}
	}
	at, found := s.findOutcome(n)
	switch {
	case found && mutant.On(mutant.OutcomeLookup):
		return s.outcomes[at]
	case found:
		panic("state: a transaction is decided twice")
	case mutant.On(mutant.OutcomeUndecided) && reason == command.ReasonResolved:
		return r
	}
	s.outcomes = slices.Insert(s.outcomes, at, r)
	m.kept += s.outcomeBytes(&r)
	if n > s.last {
		s.last = n
		m.markProgress(s)
	}
	m.dirty.outcomes = append(m.dirty.outcomes, outcomeAt{s, n})
	m.steps++
	return r
}

// cut is at most limit bytes of s, whole runes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// acknowledge forgets what the client knows (C2). "Through" never goes back, and what
// was once forgotten doesn't become unknown again.
func (m *Machine) acknowledge(s *session, k *command.Known) {
	if k.Through < s.through || k.Through == 0 {
		return
	}
	unknown := m.scratch[:0]
	for _, n := range k.Unknown {
		if n > k.Through || len(unknown) > 0 && n <= unknown[len(unknown)-1] || n == 0 {
			continue
		}
		if n <= s.through {
			if _, kept := slices.BinarySearch(s.unknown, n); !kept {
				continue
			}
		}
		unknown = append(unknown, n)
	}
	m.scratch = unknown
	if len(unknown) > command.MaxUnknown { // the oldest are given up
		unknown = unknown[len(unknown)-command.MaxUnknown:]
	}
	if k.Through == s.through && slices.Equal(unknown, s.unknown) {
		return
	}
	s.through = k.Through
	s.unknown = append(s.unknown[:0], unknown...)
	m.markProgress(s)
	m.prune(s)
}

// prune drops the records that are acknowledged.
func (m *Machine) prune(s *session) {
	keep := s.outcomes[:0]
	for i := range s.outcomes {
		r := &s.outcomes[i]
		if r.number <= s.through {
			if _, kept := slices.BinarySearch(s.unknown, r.number); !kept {
				m.deleteOutcome(s, r)
				continue
			}
		}
		keep = append(keep, *r)
	}
	s.outcomes = keep
}

func (m *Machine) deleteOutcome(s *session, r *outcomeRecord) {
	if r.stored {
		m.deleteOutcomeKey(s.id, r.number)
	}
	m.kept -= s.outcomeBytes(r)
	delete(s.reasons, r.number)
	m.steps++
}

// full says that s has all the outcomes that it may keep, and that k acknowledges none.
func (s *session) full(k *command.Known) bool {
	if len(s.outcomes) < maxOutcomes {
		return false
	}
	return k.Through < s.through || !slices.ContainsFunc(s.outcomes, func(r outcomeRecord) bool {
		return r.number <= k.Through && !slices.Contains(k.Unknown, r.number)
	})
}

// keepNewest drops what a token has above its 1,000 newest outcomes (C2).
func (m *Machine) keepNewest(s *session) {
	if n := len(s.outcomes) - command.MaxUnknown; n > 0 {
		m.acknowledge(s, &command.Known{Through: s.outcomes[n-1].number})
	}
}

// useToken is what naming a transaction by a token's number does: n−1,000 and below
// are acknowledged, and the token lives 24 h more (C2).
func (m *Machine) useToken(s *session, n uint64) {
	m.setRetain(s, m.civil.kept()+retention)
	if n > command.MaxUnknown {
		m.acknowledge(s, &command.Known{Through: n - command.MaxUnknown})
	}
	m.keepNewest(s)
}

func (m *Machine) checkOutcome(c *command.Outcome, p *plan) verdict {
	p.standing = m.stand(c.Tx, p)
	if p.standing == noStanding {
		return refuse
	}
	if p.standing == undecided && c.Decide && !p.session.token && len(p.session.outcomes) >= maxOutcomes {
		return p.refuse(refusal(condLimit, "session %s has %d outcomes that nobody has acknowledged", p.session.id, maxOutcomes))
	}
	return act
}

func (m *Machine) changeOutcome(c *command.Outcome, p *plan) {
	e := command.Effect{Tx: c.Tx, Request: c.Request}
	switch p.standing {
	case decided:
		e.Outcome, e.Reason, e.Civil = p.outcome.outcome, p.session.reasonOf(p.outcome), p.outcome.civil
	case expired:
		e.Outcome = command.TxExpired
	case overEnded:
		e.Outcome, e.Reason = command.TxRolledBack, command.ReasonSessionEnded
	case undecided:
		if !c.Decide {
			e.Outcome = command.TxOpen
			break
		}
		r := m.decide(p.session, c.Tx.Number(), command.TxRolledBack, command.ReasonResolved)
		if p.session.token {
			m.keepNewest(p.session)
		}
		m.counters.RolledBack++
		e.Outcome, e.Reason, e.Civil = r.outcome, command.ReasonResolved, r.civil
	case noStanding:
	}
	t := m.tellAsker(p.conn, command.EffectOutcome)
	t.Tx, t.Request, t.Outcome, t.Reason, t.Civil = e.Tx, e.Request, e.Outcome, e.Reason, e.Civil
}
