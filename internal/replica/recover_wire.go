package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/oncemq/oncemq/internal/peer"
)

// What a node that recovers asks of others, drawn in docs/format/peer.md.
const (
	queryConfirm = 1 // a checkpoint that a leader confirms
)

// The kinds of answers to queryConfirm.
const (
	answerElsewhere = 1 // this node doesn't lead
	answerLater     = 2 // ask again
	answerOffer     = 3
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
