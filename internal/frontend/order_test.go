package frontend

import (
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// What goes into the log for several links or transactions stands in their order, not in a map's.
func TestInOrder(t *testing.T) {
	links, c := map[uint32]uint32{}, &Conn{txs: map[command.TxID]*tx{}}
	for n := range uint32(100) {
		links[n] = n
		x := &tx{}
		x.id[3] = byte(n)
		c.txs[x.id] = x
	}
	if got := inOrder(links); !slices.IsSorted(got) || len(got) != 100 {
		t.Errorf("links %v", got)
	}
	for i, x := range c.txsInOrder() {
		if x.id[3] != byte(i) {
			t.Fatalf("transaction %d stands at place %d", x.id[3], i)
		}
	}
}
