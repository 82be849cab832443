package state

import (
	"fmt"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// lastPlace is the highest place in an entry whose command may open something that
// gets its identity from it; those above are for queues that no command asked for.
const lastPlace = command.MaxPlace - 1024

// verdict is a check's result.
type verdict uint8

const (
	ignore verdict = iota // nothing happens: an ended connection, nothing to do
	refuse                // plan.refusal is the answer; nothing changes
	act                   // the change comes, and can't fail
)

// plan carries what a check has found to the change.
type plan struct {
	conn   *conn
	link   *link
	filter *filter // of a link that opens
	// subscription is what it reads, replace one that goes for it.
	subscription, replace *subscription
	sender                *sender
	address               *address
	session               *session
	clash                 *conn // whose container-id a newcomer wants
	standing              standing
	outcome               outcomeRecord
	reason                string      // why a transaction can't commit
	repeat                bool        // a send's number has an outcome
	resent                bool        // a send's id is one that was stored
	sum                   idSum       // of that id, where there is an attachment
	attachment            *attachment // of a link with a resend window
	refusal               *command.Refusal
}

func (p *plan) refuse(r *command.Refusal) verdict {
	p.refusal = r
	return refuse
}

// Apply applies the entry at index: changes go to out, effects are appended to
// effects and returned. The entry's bytes may be kept in effects' payloads until the
// effects are dropped. Indexes rise. An error means that the node must stop; the
// machine is unusable then. A panic means the same (a broken invariant).
func (m *Machine) Apply(index uint64, entry []byte, out Changes, effects []command.Effect) ([]command.Effect, error) {
	h, records, err := command.DecodeEntry(entry)
	if err != nil {
		return effects, fmt.Errorf("entry %d: %w", index, err)
	}
	m.beginEntry(index, out, effects)
	m.civil.stamp(h)
	m.running = max(m.running, h.Running)
	m.runTimers()
	for len(records) > 0 {
		if m.record, records, err = command.DecodeRecord(records); err != nil {
			return m.effects, fmt.Errorf("entry %d: %w", index, err)
		}
		if err = m.applyRecord(); err != nil {
			return m.effects, fmt.Errorf("entry %d, node %d, record %d: %w", index, m.record.Node, m.record.Number, err)
		}
	}
	return m.endEntry(), nil
}

// beginEntry readies the machine for an entry.
func (m *Machine) beginEntry(index uint64, out Changes, effects []command.Effect) {
	m.index, m.place, m.steps, m.ticked = index, -1, 0, false
	m.effects, m.applied, m.out = effects, m.applied[:0], out
}

// endEntry does what ends an entry: jobs, hand-outs, and the keys and values.
func (m *Machine) endEntry() []command.Effect {
	budget := max(m.maxSteps-m.steps, m.leastSteps)
	jobs := budget
	if !m.ticked {
		// Entries that bring something are many at once, and each would wait for a share of the job done behind each of the others.
		// Of ticks there is one at a time, and another as soon as that is applied.
		jobs = m.leastSteps
	}
	budget -= m.runJobs(jobs * 4 / 5)
	m.handOutAll(budget)
	m.flush()
	m.reckonRoom()
	effects := append(m.effects, m.applied...)
	m.effects, m.out, m.record = nil, nil, command.Record{}
	return effects
}

// applyRecord checks a record's epoch and number [1.1, 1.2] and applies its commands.
func (m *Machine) applyRecord() error {
	if m.record.Node != 0 && !m.inSequence() {
		return nil
	}
	m.decoder.Reset(m.record.Body)
	for c := m.decoder.Next(); c != nil; c = m.decoder.Next() {
		if part, ok := c.(*command.Part); ok {
			if err := m.applyPart(part); err != nil {
				return err
			}
			continue
		}
		if m.execute(c); m.fault != nil {
			return m.fault
		}
	}
	return m.decoder.Err()
}

// inSequence says whether the record is its node's next one, and notes what the node
// is to be told.
func (m *Machine) inSequence() bool {
	n := m.nodes[m.record.Node]
	former := n != nil && n.epoch != m.record.Epoch
	if n == nil || n.epoch == 0 || former && !mutant.On(mutant.AnyEpoch) {
		return false
	}
	if mutant.On(mutant.LastNumber) || former {
		n.last = max(n.last, m.record.Number-1)
	}
	switch {
	case m.record.Number > n.last+1:
		m.tellNode(n, command.EffectExpected, n.last+1)
		return false
	case m.record.Number <= n.last:
		return false
	}
	n.last++
	m.markNode(n)
	m.tellNode(n, command.EffectApplied, n.last)
	return true
}

// tellNode notes what ends the entry's effects, one of a kind for each node.
func (m *Machine) tellNode(n *node, kind command.EffectKind, number uint64) {
	for i := range m.applied {
		if e := &m.applied[i]; e.Node == n.id && e.Kind == kind && e.Epoch == n.epoch {
			e.Number = number
			return
		}
	}
	m.applied = append(m.applied, command.Effect{Kind: kind, Node: n.id, Epoch: n.epoch, Number: number})
}

// execute checks a command and carries it out.
func (m *Machine) execute(c command.Command) {
	m.place++
	m.steps++
	if m.fault = m.checkLevel(c); m.fault != nil {
		return
	}
	m.plan = plan{}
	p := &m.plan
	switch m.guardedCheck(c, p) {
	case refuse:
		m.refuse(c, p)
	case act:
		m.change(c, p)
	case ignore:
	}
}

// guardedCheck makes a panic of a check a refusal, equal on all nodes [4.4].
func (m *Machine) guardedCheck(c command.Command, p *plan) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			v = p.refuse(&command.Refusal{
				Condition:   condInternal,
				Description: "the broker has a fault in checking this request; nothing was changed; please report it",
			})
		}
	}()
	return m.check(c, p)
}

// tell appends an effect for a connection and returns it to be filled in.
func (m *Machine) tell(c *conn, kind command.EffectKind) *command.Effect {
	m.effects = append(m.effects, command.Effect{Kind: kind, Node: c.node, Epoch: c.epoch, Local: c.local})
	return &m.effects[len(m.effects)-1]
}

// tellAsker is tell for commands that the node itself may give.
func (m *Machine) tellAsker(c *conn, kind command.EffectKind) *command.Effect {
	if c != nil {
		return m.tell(c, kind)
	}
	m.effects = append(m.effects, command.Effect{Kind: kind, Node: m.record.Node, Epoch: m.record.Epoch})
	return &m.effects[len(m.effects)-1]
}
