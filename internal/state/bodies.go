package state

import (
	"bytes"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/oncemq/oncemq/internal/command"
)

// maxWrong bounds the faults that CheckBodies describes; more are counted.
const maxWrong = 20

// BodyReport is what CheckBodies found.
type BodyReport struct {
	// Bodies is how many there are, Bytes their lengths together.
	Bodies, Bytes uint64
	// Orphans is how many belong to no message: they take room and harm nothing.
	Orphans uint64
	// Wrong are messages without their body, or with one of another length, in words: at most 20 of Faults.
	Wrong  []string
	Faults uint64
}

func (r *BodyReport) wrong(format string, args ...any) {
	if r.Faults++; r.Faults <= maxWrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	}
}

// Cursor yields the keys and values of a range in ascending order; both are borrowed until the following call.
type Cursor func() (key, value []byte, ok bool)

// KeyReader reads what a state consists of: for tools.
type KeyReader interface {
	// Range is a cursor over from <= key < to; close ends it. What can't be read ends the cursor, and close says why.
	Range(from, to []byte) (next Cursor, end func() error)
	// Get appends a key's value to dst; ok is false where there is no such key.
	Get(key, dst []byte) (value []byte, ok bool, err error)
}

// CheckBodies sees that every message of a state has its body, of the length that it says, and counts the bodies that belong to none. Load
// reads none of them. It walks over messages, dead letters and bodies side by side, in the order of their keys, and keeps none of
// them in memory. The state isn't changed meanwhile. An error is of reading.
func CheckBodies(group uint16, from KeyReader) (r BodyReport, err error) {
	w := bodyWalk{group: group, from: from, out: &r}
	bodyFrom, bodyTo := BodyRange(group)
	messages, end1 := from.Range(appendKey(nil, group, keyMessage), appendKey(nil, group, keyMessage+1))
	moved, end2 := from.Range(appendKey(nil, group, keyMoved), appendKey(nil, group, keyMoved+1))
	bodies, end3 := from.Range(bodyFrom, bodyTo)
	w.moved.next, w.bodies.next = moved, bodies
	err = w.run(messages)
	for _, end := range []func() error{end1, end2, end3} {
		if e := end(); err == nil {
			err = e
		}
	}
	return r, err
}

// side is one of the cursors that are walked side by side. Its place is a key without group and kind: incarnation and number.
type side struct {
	next  Cursor
	begun bool
	ok    bool
	place []byte
	value []byte
}

func (s *side) step() {
	var key []byte
	key, s.value, s.ok = s.next()
	s.begun, s.place = true, key[min(len(key), keyHead):]
}

// keyHead is the length of group and kind.
const keyHead = 3

// places are a set of places that is only compared and counted.
type places struct{ count, sum uint64 }

func (p *places) add(place []byte) {
	p.count++
	p.sum += xxhash.Sum64(place) // in whatever order
}

// bodyWalk is a check under way.
type bodyWalk struct {
	group         uint16
	from          KeyReader
	out           *BodyReport
	moved, bodies side
	spare         places // bodies that are no message's of that place
	claimed       places // those that dead letters name, and no message of that place
	claims        map[string]struct{}
	buf, key      []byte
}

func (w *bodyWalk) run(messages Cursor) error {
	for key, value, ok := messages(); ok; key, value, ok = messages() {
		place := key[min(len(key), keyHead):]
		f := fields{b: value}
		size := f.uint()
		f.int()                             // when it expires
		f.int()                             // when it is due
		size -= min(size, uint64(len(f.b))) // of the body
		for !w.moved.begun || w.moved.ok && bytes.Compare(w.moved.place, place) < 0 {
			w.moved.step()
		}
		if w.moved.ok && bytes.Equal(w.moved.place, place) {
			if err := w.deadLetter(place, size); err != nil {
				return err
			}
			continue
		}
		w.pass(place)
		switch {
		case !w.bodies.ok || !bytes.Equal(w.bodies.place, place):
			w.out.wrong("%s has no body", placeText(place))
		default:
			w.length(place, size, uint64(len(w.bodies.value)))
			w.count()
			w.bodies.step()
		}
	}
	w.pass(nil)
	switch {
	case w.spare == w.claimed:
	case w.spare.count > w.claimed.count:
		w.out.Orphans = w.spare.count - w.claimed.count
	default:
		w.out.wrong("dead letters name %d bodies, and %d are there that are no other message's", w.claimed.count, w.spare.count)
	}
	return nil
}

// pass goes on to the body of a place, or behind all; what is passed over has no message at its place.
func (w *bodyWalk) pass(place []byte) {
	if !w.bodies.begun {
		w.bodies.step()
	}
	for w.bodies.ok && (place == nil || bytes.Compare(w.bodies.place, place) < 0) {
		w.spare.add(w.bodies.place)
		w.count()
		w.bodies.step()
	}
}

func (w *bodyWalk) count() {
	w.out.Bodies++
	w.out.Bytes += uint64(len(w.bodies.value))
}

// deadLetter looks for the body of one, where it was first.
func (w *bodyWalk) deadLetter(place []byte, size uint64) (err error) {
	if len(w.moved.value) != len(place)+1 {
		w.out.wrong("%s says in %d bytes where its body is, instead of in %d", placeText(place), len(w.moved.value), len(place)+1)
		return nil
	}
	at, shared := w.moved.value[:len(place)], w.moved.value[len(place)]&1 != 0
	w.key = append(appendKey(w.key[:0], w.group, keyBody), at...)
	var ok bool
	if w.buf, ok, err = w.from.Get(w.key, w.buf[:0]); err != nil {
		return err
	}
	if !ok {
		w.out.wrong("%s has no body: it should be that of %s", placeText(place), placeText(at))
		return nil
	}
	w.length(place, size, uint64(len(w.buf)))
	if !shared {
		w.claimed.add(at)
		return nil
	}
	return w.claim(at)
}

// claim notes a topic's body that dead letters name: those of its subscriptions share it, also with the message while that is there.
func (w *bodyWalk) claim(place []byte) error {
	if _, again := w.claims[string(place)]; again {
		return nil
	}
	if w.claims == nil {
		w.claims = make(map[string]struct{})
	}
	w.claims[string(place)] = struct{}{}
	w.key = append(appendKey(w.key[:0], w.group, keyMessage), place...)
	_, stands, err := w.from.Get(w.key, nil)
	if err == nil && !stands {
		w.claimed.add(place)
	}
	return err
}

func (w *bodyWalk) length(place []byte, want, got uint64) {
	if got != want {
		w.out.wrong("%s has a body of %d bytes, and should have %d", placeText(place), got, want)
	}
}

// placeText names a message.
func placeText(place []byte) string {
	f := fields{b: place}
	inc, number := command.Incarnation(f.be64()), f.be64()
	return fmt.Sprintf("message %d of the queue with the incarnation %d", number, inc)
}
