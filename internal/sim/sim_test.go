package sim

import (
	"bytes"
	"flag"
	"runtime"
	"testing"
	"time"
)

// TestRealDisksEnd: a world with real disks leaves no goroutine behind.
func TestRealDisksEnd(t *testing.T) {
	Run(Config{Seed: 7})
	before := runtime.NumGoroutine()
	for seed := uint64(17); seed < 57; seed += 10 {
		if r := Run(Config{Seed: seed}); r.Coverage["real disk"] == 0 {
			t.Fatalf("seed %d has no real disk", seed)
		}
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before four worlds, %d after", before, runtime.NumGoroutine())
		}
	}
}

var same = flag.Int("same", 10, "how many seeds TestSameSeedSameBytes runs twice")

// TestSameSeedSameBytes: a seed gives the same transcript and the same bytes on all wires each time.
func TestSameSeedSameBytes(t *testing.T) {
	seeds := []uint64{17, 27} // with real disks
	for seed := range uint64(*same) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
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
