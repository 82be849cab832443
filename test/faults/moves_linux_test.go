package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

// flags adds to nodes' command lines what stands in a file for each of them, when they
// start.
type flags struct{ dir string }

// wrap is an Options.Wrap. Of two flags of one name the last counts.
func (f flags) wrap(node int) []string {
	return []string{"sh", "-c", `file=$0; if [ -s "$file" ]; then exec "$@" $(cat "$file"); fi; exec "$@"`, f.file(node)}
}

func (f flags) file(node int) string { return filepath.Join(f.dir, fmt.Sprint("flags", node)) }

// Row 35: every node in turn gets another address. It is started there and knows where
// the others are; they learn its address when they are started anew, one by one.
func TestRow35PeersMove(t *testing.T) {
	Long(t)
	extra := flags{t.TempDir()}
	w := New(t, Options{Wrap: extra.wrap})
	w.Run(func() {
		fresh, err := localcluster.FreeAddrs(nodes)
		if err != nil {
			t.Fatal(err)
		}
		for i, moved := range w.Nodes {
			old := moved.Peer
			moved.Peer = fresh[i]
			w.Note("node %d moves to %s", moved.ID, moved.Peer)
			for _, n := range append([]*cluster.Node{moved}, w.Others(moved)...) {
				w.Kill(n)
				if err := os.WriteFile(extra.file(n.ID), []byte("--peers "+w.peersFlag()), 0o600); err != nil {
					t.Fatal(err)
				}
				n.Start()
				w.Commits(50, 2*failover)
			}
			for _, n := range w.Nodes {
				n.WaitReady()
			}
			if listens(old) || !listens(moved.Peer) {
				t.Fatalf("node %d is still at %s, not at %s", moved.ID, old, moved.Peer)
			}
		}
		for _, n := range w.Others(w.Leader()) {
			w.CatchesUp(n, w.Leader(), failover)
		}
	})
}

func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// peersFlag is the value of --peers as the nodes' addresses are now.
func (w *World) peersFlag() string {
	var list []string
	for _, n := range w.Nodes {
		list = append(list, fmt.Sprintf("%d=%s", n.ID, n.Peer))
	}
	return strings.Join(list, ",")
}
