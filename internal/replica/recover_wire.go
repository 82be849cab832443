package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// What a node that recovers asks of others, drawn in docs/format/peer.md.
const (
	queryConfirm    = 1 // a checkpoint that a leader confirms
	queryCheckpoint = 2 // one of any node's state, from an entry on
	queryStretch    = 3 // entries before one that the asker has
)

// The kinds of answers.
const (
	answerElsewhere = 1 // this node doesn't lead, or hasn't what is asked for
	answerLater     = 2 // ask again
	answerOffer     = 3 // here it is
)

// confirmQuery asks a leader for a checkpoint with everything that the asker may ever have acknowledged.
type confirmQuery struct {
	// Asking is drawn by the asker, once for each life: what it acknowledged lies before it.
	asking [16]byte
}

func (q *confirmQuery) appendTo(dst []byte) []byte {
	return append(append(dst, queryConfirm), q.asking[:]...)
}

// Confirmation is the answer to a node that asks a leader for a checkpoint.
type Confirmation struct {
	// Offer is the checkpoint; its Index is 0 where there is none yet: ask again.
	Offer Offer
	// Term and Leader are of the leader that has confirmed it; Term is 0 where the asked node doesn't lead. Leader is the one that it
	// knows then, 0 for none.
	Term, Leader uint64
}

func (c *Confirmation) appendTo(dst []byte) []byte {
	switch {
	case c.Term == 0:
		return binary.AppendUvarint(append(dst, answerElsewhere), c.Leader)
	case c.Offer.Index == 0:
		return append(dst, answerLater)
	}
	dst = append(append(dst, answerOffer), c.Offer.ID[:]...)
	for _, v := range []uint64{c.Offer.Node, c.Offer.Index, c.Offer.Term, c.Term, c.Leader} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func decodeConfirmation(b []byte) (c Confirmation, err error) {
	r := queryReader{b: b}
	switch kind := r.byte(); kind {
	case answerElsewhere:
		c.Leader = r.uint()
	case answerLater:
		c.Term = 1 // of some leader
	case answerOffer:
		r.fixed(c.Offer.ID[:])
		c.Offer.Node, c.Offer.Index, c.Offer.Term, c.Term, c.Leader = r.uint(), r.uint(), r.uint(), r.uint(), r.uint()
		r.bad = r.bad || c.Offer.Node == 0 || c.Offer.Index == 0 || c.Offer.Term == 0 || c.Leader == 0 || c.Term < c.Offer.Term
	default:
		r.bad = true
	}
	return c, r.err("confirmation")
}

// appendCheckpointQuery asks for a checkpoint with at least an entry.
func appendCheckpointQuery(dst []byte, least uint64) []byte {
	return binary.AppendUvarint(append(dst, queryCheckpoint), least)
}

// checkpointAnswer is the answer: Offer, if its Index isn't 0; otherwise later, or how far the state goes that the node has.
type checkpointAnswer struct {
	Offer Offer
	Later bool
	// Has is the entry up to which the node's state goes, 0 where it has none that can be used.
	Has uint64
}

func (a *checkpointAnswer) appendTo(dst []byte) []byte {
	switch {
	case a.Offer.Index > 0:
		dst = append(append(dst, answerOffer), a.Offer.ID[:]...)
		for _, v := range []uint64{a.Offer.Node, a.Offer.Index, a.Offer.Term} {
			dst = binary.AppendUvarint(dst, v)
		}
		return dst
	case a.Later:
		return append(dst, answerLater)
	}
	return binary.AppendUvarint(append(dst, answerElsewhere), a.Has)
}

func decodeCheckpointAnswer(b []byte) (a checkpointAnswer, err error) {
	r := queryReader{b: b}
	switch kind := r.byte(); kind {
	case answerElsewhere:
		a.Has = r.uint()
	case answerLater:
		a.Later = true
	case answerOffer:
		r.fixed(a.Offer.ID[:])
		a.Offer.Node, a.Offer.Index, a.Offer.Term = r.uint(), r.uint(), r.uint()
		r.bad = r.bad || a.Offer.Node == 0 || a.Offer.Index == 0 || a.Offer.Term == 0
	default:
		r.bad = true
	}
	return a, r.err("offer of a checkpoint")
}

// appendStretchQuery asks for entries.
func appendStretchQuery(dst []byte, q store.StretchQuery) []byte {
	dst = append(dst, queryStretch)
	for _, v := range []uint64{q.Lowest, q.Last, q.Anchor} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// decodeStretchAnswer reads the answer: ok is false where the node hasn't all of it.
func decodeStretchAnswer(b []byte) (s store.Stretch, ok bool, err error) {
	switch {
	case len(b) == 1 && (b[0] == answerElsewhere || b[0] == answerLater):
		return s, false, nil
	case len(b) > 0 && b[0] == answerOffer:
		s, err = store.DecodeStretch(b[1:])
		return s, err == nil, err
	}
	return s, false, fmt.Errorf("%w: a malformed answer with entries", peer.ErrFrame)
}

// queryReader reads the fields of a question or an answer; the first fault sticks.
type queryReader struct {
	b   []byte
	bad bool
}

func (r *queryReader) byte() byte {
	var b [1]byte
	r.fixed(b[:])
	return b[0]
}

func (r *queryReader) fixed(into []byte) {
	if r.bad || len(r.b) < len(into) {
		r.bad = true
		return
	}
	r.b = r.b[copy(into, r.b):]
}

func (r *queryReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// err is peer.ErrFrame where something was wrong, or is left over.
func (r *queryReader) err(what string) error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("%w: a malformed %s", peer.ErrFrame, what)
	}
	return nil
}
