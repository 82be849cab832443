package store

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// bufferBytes is how much the write buffer takes, about, before it is written to Pebble.
const bufferBytes = 1 << 20

// buffer holds the changes that were applied last, before they go to Pebble in one batch: of a key that changes with
// every entry only the last value gets there, and of a message that comes and goes nothing. Not safe for concurrent use.
type buffer struct {
	places  map[string]int // of the living changes, by key
	changes []change
	arena   arena
	order   []*change  // of write
	ranges  []keyRange // deleted: of what is in Pebble or in a buffer before this one; what is in changes came later
}

// keyRange are the keys from <= key < to.
type keyRange struct{ from, to []byte }

// change is the last that happened to a key. The zero change is one that was taken back.
type change struct {
	key     string
	value   []byte // in the arena
	deleted bool
	fresh   bool // the key is not in Pebble
	living  bool
}

func newBuffer() *buffer { return &buffer{places: make(map[string]int)} }

func (b *buffer) put(key, value []byte, fresh bool) {
	at, ok := b.places[string(key)]
	if !ok {
		at = b.add(key, fresh)
	}
	c := &b.changes[at]
	c.deleted = false
	if len(value) > cap(c.value) {
		c.value = b.arena.alloc(len(value))
	}
	c.value = c.value[:len(value)]
	copy(c.value, value)
}

func (b *buffer) remove(key []byte) {
	at, ok := b.places[string(key)]
	if !ok {
		at = b.add(key, false)
	}
	if b.changes[at].fresh {
		delete(b.places, string(key))
		b.changes[at] = change{}
		return
	}
	b.changes[at].value, b.changes[at].deleted = nil, true
}

// removeRange deletes all keys from <= key < to. Both are kept in a copy.
func (b *buffer) removeRange(from, to []byte) {
	for i := range b.changes {
		if c := &b.changes[i]; c.living && c.key >= string(from) && c.key < string(to) {
			delete(b.places, c.key)
			*c = change{}
		}
	}
	// A job deletes a long range piece by piece, in either direction.
	for i := len(b.ranges) - 1; i >= max(0, len(b.ranges)-rangesLookedAt); i-- {
		switch r := &b.ranges[i]; {
		case bytes.Equal(r.to, from):
			r.to = append(r.to[:0], to...)
			return
		case bytes.Equal(r.from, to):
			r.from = append(r.from[:0], from...)
			return
		}
	}
	b.arena.used += len(from) + len(to) + changeBytes
	b.ranges = append(b.ranges, keyRange{bytes.Clone(from), bytes.Clone(to)})
}

// rangesLookedAt is how many of the last ranges are looked at for one that the next one continues.
const rangesLookedAt = 4

func (b *buffer) add(key []byte, fresh bool) int {
	at := len(b.changes)
	b.changes = append(b.changes, change{key: string(key), fresh: fresh, living: true})
	b.places[b.changes[at].key] = at
	b.arena.used += len(key) + changeBytes
	return at
}

// changeBytes is what a change costs beside its key and value, about.
const changeBytes = 128

// get finds what is known here of a key: its value, or that it is deleted; known is false where Pebble has the answer.
// value is borrowed until the next change.
func (b *buffer) get(key []byte) (value []byte, exists, known bool) {
	at, known := b.places[string(key)]
	if !known {
		for i := range b.ranges {
			if r := &b.ranges[i]; bytes.Compare(key, r.from) >= 0 && bytes.Compare(key, r.to) < 0 {
				return nil, false, true
			}
		}
		return nil, false, false
	}
	c := &b.changes[at]
	return c.value, !c.deleted, true
}

// full says that the buffer is to be written.
func (b *buffer) full() bool { return b.arena.used >= bufferBytes }

// write adds everything to a batch, in the order of keys, which is what a memtable takes fastest. The buffer can be read meanwhile.
func (b *buffer) write(to *pebble.Batch) error {
	b.order = b.order[:0]
	for i := range b.changes {
		if b.changes[i].living {
			b.order = append(b.order, &b.changes[i])
		}
	}
	for i := range b.ranges { // first: what they deleted of this buffer is gone already
		if err := to.DeleteRange(b.ranges[i].from, b.ranges[i].to, nil); err != nil {
			return err
		}
	}
	slices.SortFunc(b.order, func(x, y *change) int { return strings.Compare(x.key, y.key) })
	for _, c := range b.order {
		var err error
		if c.deleted {
			err = to.Delete([]byte(c.key), nil)
		} else {
			err = to.Set([]byte(c.key), c.value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reset empties the buffer.
func (b *buffer) reset() {
	clear(b.places)
	clear(b.changes)
	clear(b.order)
	clear(b.ranges)
	b.changes, b.order, b.ranges = b.changes[:0], b.order[:0], b.ranges[:0]
	b.arena.reset()
	if cap(b.changes)+cap(b.ranges) > 1<<16 { // grown by something rare
		*b = *newBuffer()
	}
}

// arenaChunk is the size of an arena's pieces in bytes; a larger value has a piece of its own.
const arenaChunk = 64 << 10

// arena gives out pieces of memory that are all taken back at once.
type arena struct {
	chunks [][]byte
	at     int // chunks[:at] are used up, but for the room in chunks[at-1]
	room   []byte
	used   int // bytes given out since reset, and what its owner adds
}

func (a *arena) alloc(n int) []byte {
	a.used += n
	if n > arenaChunk/4 {
		return make([]byte, n)
	}
	if n > len(a.room) {
		if a.at == len(a.chunks) {
			a.chunks = append(a.chunks, make([]byte, arenaChunk))
		}
		a.room = a.chunks[a.at]
		a.at++
	}
	piece := a.room[:n:n]
	a.room = a.room[n:]
	return piece
}

func (a *arena) reset() { a.at, a.room, a.used = 0, nil, 0 }
