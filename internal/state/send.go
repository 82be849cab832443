package state

import (
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// maxMessage is the largest message in bytes (contract.md, Defaults).
const maxMessage = 64 << 20

// target finds where a message goes, or says why it doesn't.
func (m *Machine) target(inc command.Incarnation, address string, size int) (*address, *command.Refusal) {
	if size > maxMessage {
		return nil, refusal(condTooLarge, "a message of %d bytes; the limit is %d", size, maxMessage)
	}
	if inc != 0 {
		if a := m.byInc[inc]; a != nil && !a.dying {
			return a, nil
		}
		return nil, refusal(condDeleted, "the queue that the link was attached to was deleted; attach again")
	}
	if a := m.byName[address]; a != nil {
		return a, nil
	}
	// Kept with a number, so ASCII alone: what else is printable depends on the toolchain [4.3].
	return nil, refusal(condNotFound, "there is no queue %+.300q", address)
}

// checkSend never refuses the command as such where its refusal has to be kept with
// its number [1.6]: the plan carries it into the change.
func (m *Machine) checkSend(c *command.Send, p *plan) verdict {
	if c.Number != 0 {
		if p.sender == nil || p.sender.stream == nil {
			return p.refuse(refusal(condIllegal, "a numbered send on link %d, which isn't a numbered link", c.Link))
		}
		if c.Number <= p.sender.stream.last && !mutant.On(mutant.NumberRepeats) {
			p.repeat = true
			return act
		}
	}
	if p.resent = m.resent(c, p); p.resent {
		return act
	}
	if p.address, p.refusal = m.target(c.Target, c.Address, len(c.Message)); p.refusal == nil {
		p.refusal = m.noRoom()
	}
	if p.refusal != nil && c.Number == 0 {
		return refuse
	}
	return act
}

func (m *Machine) changeSend(c *command.Send, p *plan) {
	no := p.refusal
	switch {
	case p.repeat:
		no = p.sender.stream.outcome(c.Number).Refusal
	case p.resent:
		m.counters.Resent++
	case no == nil:
		m.store(p.address, c.Message, p.conn)
		m.remember(p)
	}
	if c.Number != 0 && !p.repeat {
		st := p.sender.stream
		if no != nil {
			m.refuseSend(st, c.Number, no)
		}
		st.last = c.Number
		m.markStream(st)
	}
	e := m.tell(p.conn, command.EffectSent)
	e.Link, e.Request, e.Number = c.Link, c.Request, c.Number
	e.Refusal = no
}
