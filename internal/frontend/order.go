package frontend

import (
	"bytes"
	"maps"
	"slices"
)

// What a connection does for several of its links or transactions goes into the log and onto the wire: in order of their
// numbers, since Go's order of a map is another one each time, and a run of the simulator has to be the same twice.

// inOrder is a map's values by rising number.
func inOrder[V any](m map[uint32]V) []V {
	list := make([]V, 0, len(m))
	for _, n := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[n])
	}
	return list
}

// txsInOrder is the connection's transactions by rising id.
func (c *Conn) txsInOrder() []*tx {
	return slices.SortedFunc(maps.Values(c.txs), func(a, b *tx) int { return bytes.Compare(a.id[:], b.id[:]) })
}
