package state

import (
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
)

// A queue is an address, which is a sequence of messages, with one subscription
// [4.9]. A message is stored once, under its number in the sequence; numbers are
// never used twice within an incarnation.
type queue struct {
	object
	slot  uint32
	inc   command.Incarnation
	name  string
	place object // the second record: next and the subscription's position
	next  uint64 // number of the next message, 1 and up
	depth uint64 // messages in memory, those of an unfinished purge included
	bytes uint64
	// dying: deleted; a job takes the messages away. Nobody can reach it any more.
	dying bool
	dead  bool // its name makes it a dead-letter queue
	// touched: stands in Machine.touched.
	touched bool
	sub     subscription
	// head and tail remember the chunks found last.
	head, tail chunkMark
}

// A subscription is a cursor and the set of what was handed out before it: each
// message below the cursor has a delivery, held by a link or given back, or is gone.
// Exception: those of an unfinished purge have none.
type subscription struct {
	cursor uint64 // number of the first message never handed out
	// returned are the numbers of messages given back; they go out before the cursor,
	// in their place (C11).
	returned seqHeap
	// picky are those given back that some link must not get [3.9], ascending.
	picky []pickyMessage
	// doomed are those given back before a purge, whose job is under way: a heap of each purge, the oldest first.
	doomed   []doomedHeap
	purgeGen uint32 // rises with each purge; older given-back ones are doomed
	// purgeFrom and purgeTo are the range that the purge job has still to look through:
	// messages in it without a delivery go.
	purgeFrom, purgeTo uint64
	links              []*link // not ended, attached or in grace, by id
	ready              []*link // of those, the ones with an allowance, by id
	turn               uint64  // id of the link that got the last message
	inFlight           uint64
	returning          int // links whose return job is under way: nothing is handed out (C11)
}

// doomedHeap is what a purge found given back: a purge takes the heap as it is, however much there is to do of the one before [4.2].
type doomedHeap struct {
	gen     uint32 // the subscription's purgeGen before it
	numbers seqHeap
}

// pickyMessage is a message that waits and that some link must not get: a copy of its
// delivery's exclusions, so that passing over it looks nothing up.
type pickyMessage struct {
	seq  uint64
	wish exclusions
}

func (p pickyMessage) compare(seq uint64) int { return compare(p.seq, seq) }

// message is what memory knows of a message; its bytes are on disk alone. No
// pointers [5.1].
type message struct {
	seq      uint64
	queue    uint32 // slot
	size     uint32 // bytes, and flags in the upper bits
	delivery uint32 // of the queue's subscription; with several: the first of a list
	fresh    uint32 // place in dirty.created + 1 while this entry created it
}

const (
	sizeMask    = 1<<28 - 1
	flagOverlay = 1 << 31 // an overlay is in Machine.overlays
	flagMoved   = 1 << 30 // a dead letter: its origin is in Machine.moved
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
	queue uint32
	no    uint64
}

type chunkMark struct {
	no    uint64
	index uint32
}

// origin is where a dead letter's bytes are.
type origin struct {
	inc command.Incarnation
	seq uint64
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
	if name == "" || len(name) > limit || name[0] == '$' || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

func (q *queue) info() QueueInfo {
	return QueueInfo{
		Name: q.name, Incarnation: q.inc,
		Depth: q.waiting() + q.sub.inFlight, InFlight: q.sub.inFlight, Bytes: q.bytes, Links: q.attached(),
	}
}

// waiting counts the messages that nobody holds, without those of a purge.
func (q *queue) waiting() uint64 {
	return q.next - q.sub.cursor + uint64(len(q.sub.returned)+len(q.sub.picky))
}

func (q *queue) attached() (n int) {
	for _, l := range q.sub.links {
		if l.conn != nil {
			n++
		}
	}
	return n
}

// addQueue makes the queue of a new incarnation. The name is free.
func (m *Machine) addQueue(inc command.Incarnation, name string) *queue {
	q := &queue{inc: inc, name: name, next: 1, sub: subscription{cursor: 1}}
	m.placeQueue(q)
	m.byName[name] = q
	m.markQueue(q)
	m.markPlace(q)
	return q
}

// placeQueue gives q a slot.
func (m *Machine) placeQueue(q *queue) {
	q.dead = len(q.name) > len(DeadLetterPrefix) && q.name[:len(DeadLetterPrefix)] == DeadLetterPrefix
	if n := len(m.freeQueue); n > 0 {
		q.slot = m.freeQueue[n-1]
		m.freeQueue = m.freeQueue[:n-1]
		m.queues[q.slot] = q
	} else {
		q.slot = uint32(len(m.queues))
		m.queues = append(m.queues, q)
	}
	m.byInc[q.inc] = q
}

// find is the slab index of a message of q, or 0.
func (m *Machine) find(q *queue, seq uint64) uint32 {
	c := m.chunk(q, seq>>chunkBits)
	if c == 0 {
		return 0
	}
	return m.chunks.at(c).message[seq&(chunkSize-1)]
}

func (m *Machine) chunk(q *queue, no uint64) uint32 {
	if q.tail.index != 0 && q.tail.no == no {
		return q.tail.index
	}
	if q.head.index != 0 && q.head.no == no {
		return q.head.index
	}
	c := m.chunkAt[chunkKey{q.slot, no}]
	if c != 0 {
		q.head = chunkMark{no, c}
	}
	return c
}

// place puts a message into its queue's sequence.
func (m *Machine) putMessage(q *queue, seq uint64, size uint32) uint32 {
	i := m.messages.alloc()
	*m.messages.at(i) = message{seq: seq, queue: q.slot, size: size}
	no := seq >> chunkBits
	c := m.chunk(q, no)
	if c == 0 {
		c = m.chunks.alloc()
		m.chunkAt[chunkKey{q.slot, no}] = c
		q.tail = chunkMark{no, c}
	}
	p := m.chunks.at(c)
	p.used++
	p.message[seq&(chunkSize-1)] = i
	q.depth++
	q.bytes += uint64(size & sizeMask)
	return i
}

// store appends a message to q.
func (m *Machine) store(q *queue, payload []byte) {
	i := m.putMessage(q, q.next, uint32(len(payload)))
	q.next++
	m.markPlace(q)
	m.markCreated(i, payload)
	m.touch(q)
	m.steps++
}

// drop takes a message out of q: consumed, purged, deleted or moved. keepBody leaves
// its bytes where they are. Its delivery is gone already.
func (m *Machine) drop(q *queue, i uint32, keepBody bool) {
	p := m.messages.at(i)
	if p.fresh == 0 {
		m.deleteMessageKey(keyMessage, q.inc, p.seq)
		if p.size&flagMoved == 0 && !keepBody {
			m.deleteMessageKey(keyBody, q.inc, p.seq)
		}
	}
	m.dropExtras(q, i, keepBody)
	m.forgetMessage(q, i)
}

// dropExtras deletes what a message has on disk beside what every message has, and its overlay and origin.
func (m *Machine) dropExtras(q *queue, i uint32, keepBody bool) {
	p := m.messages.at(i)
	if p.fresh != 0 {
		m.dirty.created[p.fresh-1].gone = true
	}
	if p.size&flagMoved != 0 {
		from := m.moved[i]
		if p.fresh == 0 {
			m.deleteMessageKey(keyMoved, q.inc, p.seq)
		}
		if !keepBody {
			m.deleteMessageKey(keyBody, from.inc, from.seq)
		}
		m.forgetOrigin(i)
	}
	if p.size&flagOverlay != 0 {
		if p.fresh == 0 {
			m.deleteMessageKey(keyOverlay, q.inc, p.seq)
		}
		m.forgetOverlay(i)
	}
}

// forgetMessage takes a message out of memory.
func (m *Machine) forgetMessage(q *queue, i uint32) {
	p := m.messages.at(i)
	if p.delivery != 0 {
		panic("state: a message with a delivery can't be dropped")
	}
	m.steps++
	no := p.seq >> chunkBits
	c := m.chunk(q, no)
	k := m.chunks.at(c)
	k.message[p.seq&(chunkSize-1)] = 0
	q.depth--
	q.bytes -= uint64(p.size & sizeMask)
	if k.used--; k.used == 0 {
		m.freeChunk(q, no, c)
	}
	m.messages.release(i)
}

func (m *Machine) freeChunk(q *queue, no uint64, c uint32) {
	delete(m.chunkAt, chunkKey{q.slot, no})
	m.chunks.release(c)
	if q.head.index == c {
		q.head = chunkMark{}
	}
	if q.tail.index == c {
		q.tail = chunkMark{}
	}
}

// touch makes the end of the entry look whether q has something to hand out.
func (m *Machine) touch(q *queue) {
	if !q.touched && !q.dying {
		q.touched = true
		m.touched = append(m.touched, q)
	}
}
