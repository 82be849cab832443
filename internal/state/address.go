package state

import (
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
)

// An address is a sequence of messages [4.9]. A message is stored once, under its number in the sequence; numbers are
// never used twice within an incarnation. Who reads the address has a subscription, and a queue is an address with one.
type address struct {
	object
	slot  uint32
	inc   command.Incarnation
	name  string
	place object // the second record: lanes and the queue's position
	// lanes are the numbers of the next message of each lane in use, in the order in which they are handed out. The usual lane is always there.
	lanes []uint64
	depth uint64 // messages in memory, those of an unfinished purge included
	bytes uint64
	// dying: deleted; a job takes the messages away. Nobody can reach it any more.
	dying bool
	dead  bool // its name makes it a dead-letter queue
	topic bool
	// queue is a queue's only subscription; a topic's has no links and hands out nothing: it is there for what concerns the address as a whole.
	queue *subscription
	topicAddress
	all []*link // of all its subscriptions, those that have ended and still hold something too, by id
	// temporary is set for a temporary queue that isn't dying.
	temporary *temporary
	// head and tail remember the chunks found last.
	head, tail chunkMark
}

// message is what memory knows of a message; its bytes are on disk alone. No
// pointers [5.1].
type message struct {
	seq      uint64
	address  uint32 // slot
	size     uint32 // bytes, and flags in the upper bits
	delivery uint32 // of the queue's subscription; with several: the first of a list
	fresh    uint32 // place in dirty.created + 1 while this entry created it
	head     uint32 // first cell, 0: it has none
	timer    uint32 // in Machine.timers, 0: it never expires
}

const (
	sizeMask    = 1<<28 - 1
	flagOverlay = 1 << 31 // an overlay is in Machine.overlays
	flagMoved   = 1 << 30 // a dead letter: its origin is in Machine.moved
	flagDelayed = 1 << 29 // it is still to arrive
)

// chunk is a piece of an address's sequence: the messages whose number, but for the
// lowest bits, is the same. It goes when it is empty.
type chunk struct {
	used    uint32
	message [chunkSize]uint32
}

const (
	chunkBits = 6
	chunkSize = 1 << chunkBits
)

type chunkKey struct {
	address uint32
	no      uint64
}

type chunkMark struct {
	no    uint64
	index uint32
}

// origin is where a dead letter's bytes are.
type origin struct {
	inc command.Incarnation
	seq uint64
	// shared: it was a topic's, so that others may have it too.
	shared bool
}

// DeadLetterPrefix begins the names of dead-letter queues.
const DeadLetterPrefix = "DLQ."

const maxName = 255

// validName says whether a queue may have that name: 1–255 bytes of UTF-8 without
// control characters, not reserved. A dead-letter queue's name may be longer by its
// prefix.
func validName(name string) bool {
	limit := maxName
	if len(name) > len(DeadLetterPrefix) && name[:len(DeadLetterPrefix)] == DeadLetterPrefix {
		limit += len(DeadLetterPrefix)
	}
	if name == "" || len(name) > limit || name[0] == '$' || reservedName(name) || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

// routing is what the address is.
func (a *address) routing() command.Routing {
	if a.topic {
		return command.Multicast
	}
	return command.Anycast
}

// isDead says that a name is a dead-letter queue's.
func isDead(name string) bool {
	return len(name) > len(DeadLetterPrefix) && name[:len(DeadLetterPrefix)] == DeadLetterPrefix
}

func (a *address) info() QueueInfo {
	s := a.queue
	if a.topic {
		q := QueueInfo{Name: a.name, Incarnation: a.inc, Topic: true, Depth: a.depth, Bytes: a.bytes, Subscriptions: a.living}
		for _, s := range a.subs {
			q.InFlight += s.inFlight
			q.Links += s.attached()
		}
		return q
	}
	return QueueInfo{
		Name: a.name, Incarnation: a.inc,
		Depth: s.waiting() + s.inFlight + s.delayed, InFlight: s.inFlight, Delayed: s.delayed, Bytes: a.bytes, Links: s.attached(),
	}
}

// addAddress makes the address of a new incarnation, with its queue. The name is free.
func (m *Machine) addAddress(inc command.Incarnation, name string, routing command.Routing) *address {
	a := &address{inc: inc, name: name, topic: routing == command.Multicast, lanes: []uint64{1}}
	a.queue = &subscription{id: uint64(inc), address: a, lanes: []lane{{cursor: 1}}}
	m.placeAddress(a)
	m.byName[name] = a
	m.markAddress(a)
	m.markPlace(a)
	return a
}

// placeAddress gives a a slot.
func (m *Machine) placeAddress(a *address) {
	a.dead = isDead(a.name)
	if n := len(m.freeAddress); n > 0 {
		a.slot = m.freeAddress[n-1]
		m.freeAddress = m.freeAddress[:n-1]
		m.addresses[a.slot] = a
	} else {
		a.slot = uint32(len(m.addresses))
		m.addresses = append(m.addresses, a)
	}
	m.byInc[a.inc] = a
}

// find is the slab index of a message of a, or 0.
func (m *Machine) find(a *address, seq uint64) uint32 {
	c := m.chunk(a, seq>>chunkBits)
	if c == 0 {
		return 0
	}
	return m.chunks.at(c).message[seq&(chunkSize-1)]
}

func (m *Machine) chunk(a *address, no uint64) uint32 {
	if a.tail.index != 0 && a.tail.no == no {
		return a.tail.index
	}
	if a.head.index != 0 && a.head.no == no {
		return a.head.index
	}
	c := m.chunkAt[chunkKey{a.slot, no}]
	if c != 0 {
		a.head = chunkMark{no, c}
	}
	return c
}

// place puts a message into its address's sequence.
func (m *Machine) putMessage(a *address, seq uint64, size uint32) uint32 {
	i := m.messages.alloc()
	*m.messages.at(i) = message{seq: seq, address: a.slot, size: size}
	no := seq >> chunkBits
	c := m.chunk(a, no)
	if c == 0 {
		c = m.chunks.alloc()
		m.chunkAt[chunkKey{a.slot, no}] = c
		a.tail = chunkMark{no, c}
	}
	p := m.chunks.at(c)
	p.used++
	p.message[seq&(chunkSize-1)] = i
	a.depth++
	a.bytes += uint64(size & sizeMask)
	return i
}

// store appends a message to a; from sent it.
func (m *Machine) store(a *address, payload []byte, from *conn) {
	if a.topic && a.living == 0 {
		m.steps++
		return // nobody subscribes
	}
	head := splitHead(payload)
	at := m.laneOf(a, head.priority())
	i := m.putMessage(a, a.lanes[at], uint32(len(payload)))
	m.messages.at(i).head = m.keepHead(payload[:head.size])
	m.setTimer(i, head.expiryOf(m.civil.now), 0)
	a.lanes[at]++
	m.markPlace(a)
	m.markCreated(i, payload)
	m.steps++
	due := head.dueAt(m.civil.now)
	switch {
	case a.topic && !m.publish(a, i, from):
	case due > 0:
		m.delay(a, i, due)
	}
	if !a.topic {
		m.touch(a.queue)
	}
}

// drop takes a message out of a: consumed, purged, deleted or moved. Its body stays where a dead letter has it. Its delivery is gone already.
func (m *Machine) drop(a *address, i uint32) {
	p := m.messages.at(i)
	if p.fresh == 0 {
		m.deleteMessageKey(keyMessage, a.inc, p.seq)
		if p.size&flagMoved == 0 && m.holders[origin{a.inc, p.seq, a.topic}] == 0 {
			m.deleteMessageKey(keyBody, a.inc, p.seq)
		}
	}
	m.dropExtras(a, i)
	m.forgetMessage(a, i)
}

// dropExtras deletes what a message has on disk beside what every message has, and its overlay and origin.
func (m *Machine) dropExtras(a *address, i uint32) {
	p := m.messages.at(i)
	if p.fresh != 0 {
		m.dirty.created[p.fresh-1].gone = true
	}
	if p.size&flagMoved != 0 {
		from := m.moved[i]
		if p.fresh == 0 {
			m.deleteMessageKey(keyMoved, a.inc, p.seq)
		}
		m.forgetOrigin(i)
		if m.holders[from] == 0 && !m.stands(from) {
			m.deleteMessageKey(keyBody, from.inc, from.seq)
		}
	}
	if p.size&flagOverlay != 0 {
		if p.fresh == 0 {
			m.deleteMessageKey(keyOverlay, a.inc, p.seq)
		}
		m.forgetOverlay(i)
	}
}

// forgetMessage takes a message out of memory.
func (m *Machine) forgetMessage(a *address, i uint32) {
	p := m.messages.at(i)
	if p.delivery != 0 {
		panic("state: a message with a delivery can't be dropped")
	}
	m.steps++
	no := p.seq >> chunkBits
	c := m.chunk(a, no)
	k := m.chunks.at(c)
	k.message[p.seq&(chunkSize-1)] = 0
	m.forgetHead(p)
	m.forgetTimer(p)
	a.depth--
	a.bytes -= uint64(p.size & sizeMask)
	if k.used--; k.used == 0 {
		m.freeChunk(a, no, c)
	}
	m.messages.release(i)
}

func (m *Machine) freeChunk(a *address, no uint64, c uint32) {
	delete(m.chunkAt, chunkKey{a.slot, no})
	m.chunks.release(c)
	if a.head.index == c {
		a.head = chunkMark{}
	}
	if a.tail.index == c {
		a.tail = chunkMark{}
	}
}
