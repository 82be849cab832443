package sim

import (
	"bytes"
	"flag"
	"testing"
)

var same = flag.Int("same", 10, "how many seeds TestSameSeedSameBytes runs twice")

// TestSameSeedSameBytes: a seed gives the same transcript and the same bytes on all wires each time.
func TestSameSeedSameBytes(t *testing.T) {
	for seed := range uint64(*same) {
		var a, b bytes.Buffer
		x := Run(Config{Seed: seed, Trace: &a})
		y := Run(Config{Seed: seed, Trace: &b})
		if x.Sum != y.Sum || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("seed %d: %x and %x:\n%s", seed, x.Sum, y.Sum, firstDifference(a.Bytes(), b.Bytes()))
		}
		if z := Run(Config{Seed: seed + 1_000_000}); z.Sum == x.Sum {
			t.Fatalf("seeds %d and %d are the same world", seed, seed+1_000_000)
		}
	}
}

func firstDifference(a, b []byte) string {
	la, lb := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range la {
		if i >= len(lb) || !bytes.Equal(la[i], lb[i]) {
			return string(la[i]) + "\n" + string(lb[min(i, len(lb)-1)])
		}
	}
	return "the lines are the same: the bytes on the wires differ"
}
