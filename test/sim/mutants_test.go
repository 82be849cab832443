//go:build mutants

package sim_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/sim"
)

var (
	budget = flag.Int("budget", 2000, "how many seeds a mutant may survive in TestMutants")
	only   = flag.String("mutant", "", "the only mutant of TestMutants")
)

// TestMutants: every fault that is built in on purpose is found within a budget of seeds, and without any the same seeds are clean.
func TestMutants(t *testing.T) {
	defer mutant.Set("")
	if at, what, found := hunt(*budget / 10); found {
		t.Fatalf("seed %d fails without any mutant: %s", at, what)
	}
	for _, m := range mutant.All() {
		if *only != "" && string(m) != *only {
			continue
		}
		mutant.Set(m)
		at, what, found := hunt(*budget)
		if !found {
			t.Errorf("%-32s survived %d seeds", m, *budget)
			continue
		}
		t.Logf("%-32s caught after %4d seeds: %s", m, at, what)
	}
}

// hunt runs seeds from 1 on, on two worlds at a time, until one fails.
func hunt(seeds int) (at int, what string, found bool) {
	var next, over atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for over.Load() == 0 {
				seed := int(next.Add(1))
				if seed > seeds {
					return
				}
				bad := fault(uint64(seed))
				if bad == "" {
					continue
				}
				mu.Lock()
				if !found || seed < at {
					at, what, found = seed, bad, true
				}
				mu.Unlock()
				over.Store(1)
			}
		})
	}
	wg.Wait()
	return at, what, found
}

// fault is the first line of what a seed's world has against it, "" for nothing. A panic of the product is a find as well.
func fault(seed uint64) (bad string) {
	defer func() {
		if r := recover(); r != nil {
			bad = fmt.Sprintf("panic: %v", r)
		}
	}()
	r := sim.Run(sim.Config{Seed: seed, Liveness: seed%4 == 0})
	if len(r.Violations) == 0 {
		return ""
	}
	bad, _, _ = strings.Cut(r.Violations[0], "\n")
	return bad[:min(len(bad), 160)]
}
