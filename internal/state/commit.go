package state

import (
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// checkCommit looks first for the outcome record, then at the number of operations,
// then at the operations [2.1]. What it finds stands in the plan: the standing, and
// the reason why an undecided transaction can't commit.
func (m *Machine) checkCommit(c *command.Commit, p *plan) verdict {
	p.standing = undecided
	if !c.Tx.IsZero() {
		if v := m.checkTagged(c.Tx, c.Named, &c.Known, p); v != act {
			return v
		}
	}
	if p.standing == undecided {
		p.reason = m.checkOperations(c, p)
	}
	return act
}

// checkTagged finds a tagged transaction's standing and who may decide it.
func (m *Machine) checkTagged(tx command.TxID, named bool, known *command.Known, p *plan) verdict {
	p.standing = m.stand(tx, p)
	s := p.session
	switch {
	case p.standing == noStanding:
		return refuse
	case p.standing == expired && s == nil:
	case named != s.token:
		return p.refuse(refusal(condNotAllowed, "session %s: a token's transactions are named through $oncemq.tx, a session's are declared", s.id))
	case !named && s.conn != p.conn && p.standing == undecided:
		return p.refuse(refusal(condNotAllowed, "session %s isn't open on this connection; resume it first", s.id))
	case p.standing == undecided && !s.token && s.full(known):
		return p.refuse(refusal(condLimit, "session %s has %d outcomes that nobody has acknowledged", s.id, maxOutcomes))
	}
	return act
}

// checkOperations is why the transaction can't commit, "" where it can.
func (m *Machine) checkOperations(c *command.Commit, p *plan) string {
	if c.Operations >= 0 && c.Operations != int64(c.Counted) && !mutant.On(mutant.OperationCount) {
		return command.ReasonIncomplete
	}
	if len(c.Sends)+len(c.Settles) > command.MaxTxOperations {
		return command.ReasonTooLarge
	}
	total := 0
	for i := range c.Sends {
		total += len(c.Sends[i].Message)
	}
	if total > command.MaxTxBytes {
		return command.ReasonTooLarge
	}
	if !m.allHeld(p.conn, c.Settles) {
		return command.ReasonDeliveryLost
	}
	for i := range c.Sends {
		s := &c.Sends[i]
		if _, no := m.target(s.Target, s.Address, len(s.Message)); no != nil {
			return command.ReasonRefused
		}
	}
	if len(c.Sends) > 0 && m.noRoom() != nil {
		return command.ReasonLimit
	}
	return ""
}

// allHeld says that each settlement names another delivery that its link holds.
func (m *Machine) allHeld(c *conn, settles []command.TxSettle) bool {
	n := 0
	for ; n < len(settles); n++ {
		di := m.held(c.links[settles[n].Link], settles[n].Ref)
		if di == 0 || m.deliveries.at(di).flags&deliveryMarked != 0 {
			break
		}
		m.deliveries.at(di).flags |= deliveryMarked
	}
	for i := range n {
		di := m.held(c.links[settles[i].Link], settles[i].Ref)
		m.deliveries.at(di).flags &^= deliveryMarked
	}
	return n == len(settles)
}

// changeCommit decides: all or nothing.
func (m *Machine) changeCommit(c *command.Commit, p *plan) {
	outcome, reason := p.verdictOf(c.Named)
	s := p.session
	if p.standing == undecided {
		outcome, reason = command.TxCommitted, p.reason
		if reason != "" {
			outcome = command.TxRolledBack
		}
		m.count(outcome)
		if s != nil {
			m.decide(s, c.Tx.Number(), outcome, reason)
		}
	}
	if s != nil {
		m.noteUse(s, c.Named, c.Tx.Number(), &c.Known)
	}
	switch {
	case outcome != command.TxCommitted:
		m.giveSettled(p.conn, c.Settles, reason, p.firstTime(c.Named))
	case p.standing == undecided:
		m.carryOut(c, p)
	}
	m.tellDecided(p.conn, c.Request, c.Tx, outcome, reason)
}

// verdictOf is the answer for a transaction that isn't undecided. A named one is
// never given the first result: it is other work (wire.md).
func (p *plan) verdictOf(named bool) (command.TxOutcome, string) {
	switch p.standing {
	case decided:
		if named {
			return command.TxRolledBack, command.ReasonReused
		}
		return p.outcome.outcome, p.session.reasonOf(p.outcome)
	case expired:
		if named && p.session != nil {
			return command.TxRolledBack, command.ReasonReused
		}
		return command.TxExpired, ""
	case overEnded:
		return command.TxRolledBack, command.ReasonSessionEnded
	case undecided, noStanding:
	}
	return 0, ""
}

// carryOut applies the operations of a transaction that commits.
func (m *Machine) carryOut(c *command.Commit, p *plan) {
	for i := range c.Settles {
		s := &c.Settles[i]
		l := p.conn.links[s.Link]
		m.settle(l, m.held(l, s.Ref), &s.Disposition)
		m.steps++
	}
	for i := range c.Sends {
		if mutant.On(mutant.HalfCommit) && i > 0 && i == len(c.Sends)-1 {
			break
		}
		s := &c.Sends[i]
		a := m.byInc[s.Target]
		if s.Target == 0 {
			a = m.byName[s.Address]
		}
		m.store(a, s.Message, p.conn)
	}
}

// giveSettled returns what a rolled-back transaction had settled: where the receiver
// has settled it or its link has ended, to its place; else it stays with the link, its
// attempt counted (AMQP 4.4.2, C8), unless this is a repeat. A rollback for want of room isn't the message's failure: on full disks
// consumers try again and again, and what they try is no poison (C13, [8.5]).
func (m *Machine) giveSettled(c *conn, settles []command.TxSettle, reason string, first bool) {
	g := giveFailed
	if reason == command.ReasonLimit {
		g = giveCounted
	}
	for i := range settles {
		s := &settles[i]
		l := c.links[s.Link]
		di := m.held(l, s.Ref)
		m.steps++
		switch {
		case di == 0, mutant.On(mutant.RollbackKeeps):
		case s.Settled || l.ended:
			m.giveBack(l, di, g)
		case first:
			m.charge(m.deliveries.at(di), g)
			m.markDelivery(di)
		}
	}
}

// firstTime says that the decision doesn't repeat one that was made before (C2). What
// comes under a token's number that was used is other work.
func (p *plan) firstTime(named bool) bool { return p.standing == undecided || named }

// noteUse takes the client's acknowledgements, or a token's by use.
func (m *Machine) noteUse(s *session, named bool, number uint64, known *command.Known) {
	switch {
	case s.ended:
	case named:
		m.useToken(s, number)
	default:
		m.acknowledge(s, known)
	}
}

func (m *Machine) count(outcome command.TxOutcome) {
	if outcome == command.TxCommitted {
		m.counters.Committed++
	} else {
		m.counters.RolledBack++
	}
}

func (m *Machine) tellDecided(c *conn, request uint64, tx command.TxID, outcome command.TxOutcome, reason string) {
	e := m.tell(c, command.EffectDecided)
	e.Request, e.Tx, e.Outcome, e.Reason, e.Civil = request, tx, outcome, reason, m.civil.now
}

func (m *Machine) checkRollback(c *command.Rollback, p *plan) verdict {
	p.standing = undecided
	if c.Tx.IsZero() {
		return act
	}
	return m.checkTagged(c.Tx, c.Named, &c.Known, p)
}

// changeRollback records the rollback, unless there is a record: then that is the
// answer (C10).
func (m *Machine) changeRollback(c *command.Rollback, p *plan) {
	outcome, reason := p.verdictOf(c.Named)
	s := p.session
	if p.standing == undecided {
		outcome, reason = command.TxRolledBack, c.Reason
		if reason == "" {
			reason = command.ReasonClient
		}
		m.count(outcome)
		if s != nil {
			m.decide(s, c.Tx.Number(), outcome, reason)
		}
	}
	if s != nil {
		m.noteUse(s, c.Named, c.Tx.Number(), &c.Known)
	}
	if outcome != command.TxCommitted {
		m.giveSettled(p.conn, c.Settles, reason, p.firstTime(c.Named))
	}
	if c.Request != 0 {
		m.tellDecided(p.conn, c.Request, c.Tx, outcome, cut(reason, 1024))
	}
}
