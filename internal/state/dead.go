package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
)

// Reasons of dead letters, as their stories tell.
const (
	// deadTemporary is the dead-letter queue of all temporary queues.
	deadTemporary = DeadLetterPrefix + "temp-queue"

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
	if a.temporary != nil {
		name = deadTemporary // one for all: none is left behind for each queue that has gone
	}
	to := m.byName[name]
	if to == nil {
		to = m.addAddress(m.madeIncarnation(), name, command.Anycast)
	}
	from, ok := m.moved[d.message]
	if !ok {
		from = origin{a.inc, p.seq, a.topic}
	}
	overlay := mergeOverlay(m.overlays[d.message], m.story(s, &d, reason))
	m.headBuf = m.head(m.headBuf[:0], d.message)
	m.counters.DeadLettered++

	at := m.laneOf(to, priorityOf(p.seq))
	i := m.putMessage(to, to.lanes[at], p.size&sizeMask|flagMoved|flagOverlay)
	m.messages.at(i).head = m.keepHead(m.headBuf)
	to.lanes[at]++
	m.keepOrigin(i, from)
	m.dropDelivery(s, di)
	m.finish(s, d.message)
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
	m.holders[from]++
}

// stands says that a message is where its body is: a topic's may be, while one of its subscriptions has made a dead letter of it.
func (m *Machine) stands(at origin) bool {
	a := m.byInc[at.inc]
	return a != nil && m.find(a, at.seq) != 0
}

// forgetOrigin is for a dead letter that goes.
func (m *Machine) forgetOrigin(i uint32) {
	from := m.moved[i]
	delete(m.moved, i)
	if m.holders[from]--; m.holders[from] == 0 {
		delete(m.holders, from)
	}
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
func (m *Machine) story(s *subscription, d *delivery, reason string) []byte {
	var b []byte
	b = appendSymbol(b, "x-opt-oncemq-dead-reason")
	b = appendText(b, reason)
	b = appendSymbol(b, "x-opt-oncemq-dead-queue")
	b = appendText(b, s.fullName())
	b = appendSymbol(b, "x-opt-oncemq-dead-count")
	b = binary.BigEndian.AppendUint32(append(b, 0x70), d.count)
	b = appendSymbol(b, "x-opt-oncemq-dead-failures")
	b = binary.BigEndian.AppendUint32(append(b, 0x70), d.failures)
	b = appendSymbol(b, "x-opt-oncemq-dead-at")
	b = binary.BigEndian.AppendUint64(append(b, 0x83), uint64(m.civil.now))
	return wrapMap(b, 10)
}
