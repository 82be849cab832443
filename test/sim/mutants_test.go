//go:build mutants

package sim_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/sim"
)

var (
	budget = flag.Int("budget", 2000, "how many seeds a mutant may survive in TestMutants")
	only   = flag.String("mutant", "", "the only mutants of TestMutants, with commas")
)

// TestMutants: every fault that is built in on purpose is found within a budget of seeds, and without any the same seeds are
// clean. It prints a table of what each took.
func TestMutants(t *testing.T) {
	defer mutant.Set("")
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are small and many
	began := time.Now()
	if at, what, found := hunt(*budget / 10); found {
		t.Fatalf("seed %d fails without any mutant: %s", at, what)
	}
	fmt.Printf(row, "mutant", "rule", "seeds", "s", "caught by") // at once, and not only when all have been hunted
	worlds, count := *budget/10, 0
	for _, m := range mutant.All() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), string(m)) {
			continue
		}
		mutant.Set(m)
		start := time.Now()
		at, what, found := hunt(*budget)
		if !found {
			at, what = *budget, "NOTHING"
			t.Errorf("%s survived %d seeds", m, *budget)
		}
		count, worlds = count+1, worlds+at
		fmt.Printf(row, m, m.Rule(), at, time.Since(start).Round(time.Second/10), what)
	}
	fmt.Printf("%d mutants, %d worlds, %v\n", count, worlds, time.Since(began).Round(time.Second))
}

// row is a line of the table.
const row = "%-32v %-6v %5v %6v  %v\n"

// hunt runs seeds from the first on, on two worlds at a time, until one fails; at counts them from 1.
func hunt(seeds int) (at int, what string, found bool) {
	var next, over atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for over.Load() == 0 {
				n := int(next.Add(1))
				if n > seeds {
					return
				}
				bad := fault(*firstSeed + uint64(n))
				if bad == "" {
					continue
				}
				mu.Lock()
				if !found || n < at {
					at, what, found = n, bad, true
				}
				mu.Unlock()
				over.Store(1)
			}
		})
	}
	wg.Wait()
	return at, what, found
}

// fault is the first line of what a seed's world has against it, "" for nothing.
func fault(seed uint64) string {
	r := sim.Run(configOf(seed))
	if len(r.Violations) == 0 {
		return ""
	}
	bad, _, _ := strings.Cut(r.Violations[0], "\n")
	return bad[:min(len(bad), 130)]
}
