package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
)

// Reasons of dead letters, as their stories tell.
const (
	reasonLimit         = "redelivery limit"
	reasonRejected      = "rejected"
	reasonUndeliverable = "undeliverable here"
)

// deadLetter moves a message that nobody holds to its queue's dead-letter queue, with
// the story of why, where from and how often (C13). Its bytes stay where they are;
// its delivery ends. s isn't that of a dead-letter queue itself: those keep their messages.
func (m *Machine) deadLetter(s *subscription, di uint32, reason string) {
	d := *m.deliveries.at(di)
	p := *m.messages.at(d.message)
	a := s.address
	if p.fresh != 0 || a.dead {
		panic("state: this message can't be a dead letter")
	}
	name := DeadLetterPrefix + a.name
	to := m.byName[name]
	if to == nil {
		to = m.addQueue(m.madeIncarnation(), name)
	}
	from, ok := m.moved[d.message]
	if !ok {
		from = origin{a.inc, p.seq}
	}
	m.messages.at(d.message).head = 0 // which goes along
	overlay := mergeOverlay(m.overlays[d.message], m.story(a, &d, reason))
	m.dropDelivery(s, di)
	m.drop(a, d.message, true)
	m.counters.DeadLettered++

	at := m.laneOf(to, priorityOf(p.seq))
	i := m.putMessage(to, to.lanes[at], p.size&sizeMask|flagMoved|flagOverlay)
	m.messages.at(i).head = p.head
	to.lanes[at]++
	m.keepOrigin(i, from)
	m.keepOverlay(i, overlay)
	m.markPlace(to)
	m.markCreated(i, nil)
	m.touch(to.queue)
	m.steps++
}

// keepOrigin notes where a dead letter's bytes are.
func (m *Machine) keepOrigin(i uint32, from origin) {
	m.moved[i] = from
	m.apart[bodyChunk{from.inc, from.seq >> chunkBits}]++
}

// forgetOrigin is for a dead letter that goes.
func (m *Machine) forgetOrigin(i uint32) {
	from := m.moved[i]
	delete(m.moved, i)
	at := bodyChunk{from.inc, from.seq >> chunkBits}
	if m.apart[at]--; m.apart[at] == 0 {
		delete(m.apart, at)
	}
}

// bodyChunk names the bodies of a chunk of a queue, which may be deleted already.
type bodyChunk struct {
	inc command.Incarnation
	no  uint64
}

// madeIncarnation is the incarnation of a queue that no command asked for. Places of
// an entry above those of its commands are for these; one entry makes few.
func (m *Machine) madeIncarnation() command.Incarnation {
	for place := command.MaxPlace; place >= 0; place-- {
		inc := command.Incarnation(command.IndexPlace(m.index, place))
		if m.byInc[inc] == nil {
			return inc
		}
	}
	panic("state: an entry makes too many queues")
}

// story is the overlay of a dead letter: an AMQP map of message annotations.
func (m *Machine) story(a *address, d *delivery, reason string) []byte {
	var b []byte
	b = appendSymbol(b, "x-opt-oncemq-dead-reason")
	b = appendText(b, reason)
	b = appendSymbol(b, "x-opt-oncemq-dead-queue")
	b = appendText(b, a.name)
	b = appendSymbol(b, "x-opt-oncemq-dead-count")
	b = binary.BigEndian.AppendUint32(append(b, 0x70), d.count)
	b = appendSymbol(b, "x-opt-oncemq-dead-failures")
	b = binary.BigEndian.AppendUint32(append(b, 0x70), d.failures)
	b = appendSymbol(b, "x-opt-oncemq-dead-at")
	b = binary.BigEndian.AppendUint64(append(b, 0x83), uint64(m.civil.now))
	return wrapMap(b, 10)
}
