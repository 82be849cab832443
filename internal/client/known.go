package client

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// maxUnknown is how many outcomes that no caller has seen a session may hold (C2).
const maxUnknown = 1000

// known is what a session acknowledges with its next declare or discharge (C2, [2.3]).
//
// Invariant: through is below every number without an answer, and rises only; unseen holds decided numbers whose definite result no
// caller has seen, rising.
type known struct {
	through uint64
	unseen  []uint64
}

// add: n is decided, and its caller is gone.
func (k *known) add(n uint64) {
	if i, found := slices.BinarySearch(k.unseen, n); !found {
		k.unseen = slices.Insert(k.unseen, i, n)
	}
}

// seen: a caller has the definite result of n.
func (k *known) seen(n uint64) {
	if i, found := slices.BinarySearch(k.unseen, n); found {
		k.unseen = slices.Delete(k.unseen, i, i+1)
	}
}

// open is how many are kept for callers to come.
func (k *known) open() int { return len(k.unseen) }

// raise moves through up to below the lowest undecided number of txs, or to last, and gives what to write.
func (k *known) raise(txs []*Tx, last uint64) (through uint64, unseen []uint64) {
	if len(txs) > 0 {
		last = txs[0].number - 1
	}
	k.through = max(k.through, last)
	i, _ := slices.BinarySearch(k.unseen, k.through+1)
	return k.through, k.unseen[:i]
}

// annotate appends the acknowledgement to message annotations.
func (k *known) annotate(m amqp.Map, txs []*Tx, last uint64) amqp.Map {
	through, unseen := k.raise(txs, last)
	m = append(m, amqp.Pair{Key: amqp.AnnotationKnown, Value: through})
	if len(unseen) > 0 {
		items := make([]any, len(unseen))
		for i, n := range unseen {
			items[i] = n
		}
		m = append(m, amqp.Pair{Key: amqp.AnnotationUnknown, Value: amqp.Array{Type: amqp.TypeUlong, Items: items}})
	}
	return m
}
