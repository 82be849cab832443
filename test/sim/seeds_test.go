package sim_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/sim"
)

var (
	firstSeed = flag.Uint64("seed", 0, "the first seed of TestSeeds; with -seeds 1 its transcript is printed")
	seeds     = flag.Int("seeds", 0, "how many seeds TestSeeds runs; 0: a few")
	skip      = flag.String("skip", "", "the numbers of faults that are left out, with commas, as a shrunk failure names them")
	jobs      = flag.Int("jobs", 0, "how many clients there are at most, as a shrunk failure names it")
)

// configOf is a seed's world; every fourth is in liveness mode.
func configOf(seed uint64) sim.Config {
	cfg := sim.Config{Seed: seed, Liveness: seed%4 == 0, Jobs: *jobs, Judge: judge}
	for _, f := range strings.Split(*skip, ",") {
		if n, err := strconv.Atoi(f); err == nil {
			if cfg.Skip == nil {
				cfg.Skip = map[int]bool{}
			}
			cfg.Skip[n] = true
		}
	}
	return cfg
}

// tally is what many worlds came to.
type tally struct {
	mu       sync.Mutex
	seeds    int
	ops      int
	steps    int
	coverage map[string]int
	failed   []uint64
}

func (x *tally) add(r *sim.Result, seed uint64) (failures int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seeds++
	x.ops += r.Ops
	x.steps += r.Steps
	for k, n := range r.Coverage {
		x.coverage[k] += n
	}
	if len(r.Violations) > 0 {
		x.failed = append(x.failed, seed)
	}
	return len(x.failed)
}

// TestSeeds runs worlds: few by itself, as many as wished by `make sim SEEDS=n`.
func TestSeeds(t *testing.T) {
	if *seeds == 1 {
		cfg := configOf(*firstSeed)
		cfg.Trace = os.Stdout
		for _, v := range sim.Run(cfg).Violations {
			t.Error(v)
		}
		return
	}
	count := *seeds
	if count == 0 {
		count = 40
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are small and many
	began := time.Now()
	all := &tally{coverage: map[string]int{}}
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				r := sim.Run(configOf(seed))
				for _, v := range r.Violations[:min(3, len(r.Violations))] {
					t.Errorf("seed %d: %s", seed, v)
				}
				all.add(r, seed)
			}
		})
	}
	for i := range count {
		all.mu.Lock()
		enough := len(all.failed) >= 10
		all.mu.Unlock()
		if enough {
			break
		}
		next <- *firstSeed + uint64(i)
	}
	close(next)
	wg.Wait()
	explain(t, all)
	took := time.Since(began)
	t.Logf("%d seeds, %d operations, %d events, %v: %.1f seeds/s", all.seeds, all.ops, all.steps,
		took.Round(time.Millisecond), float64(all.seeds)/took.Seconds())
}

// explain tells how to replay a failure, and what happened in all worlds (K15).
func explain(t *testing.T, all *tally) {
	if len(all.failed) > 0 {
		seed := slices.Min(all.failed)
		cfg, r := sim.Shrink(configOf(seed))
		var transcript bytes.Buffer
		cfg.Trace = &transcript
		sim.Run(cfg)
		var left []string
		for i := range r.Planned {
			if cfg.Skip[i] {
				left = append(left, fmt.Sprint(i))
			}
		}
		lines := strings.Split(transcript.String(), "\n")
		t.Logf("seed %d, shrunk to %d faults and %d clients; the end of its transcript:\n%s", seed, r.Faults, r.Clients,
			strings.Join(lines[max(0, len(lines)-60):], "\n"))
		t.Logf("replay: make sim SEEDS=1 SEED=%d JOBS=%d SKIP=%s", seed, cfg.Jobs, strings.Join(left, ","))
	}
	for _, k := range slices.Sorted(maps.Keys(all.coverage)) {
		t.Logf("%8d %s", all.coverage[k], k)
	}
	if all.seeds < 200 {
		return
	}
	for _, k := range mustHappen {
		if all.coverage[k] == 0 {
			t.Errorf("K15: in %d seeds there was no %q", all.seeds, k)
		}
	}
}

// mustHappen is what a run of some hundred seeds has to have seen, or it says little.
var mustHappen = []string{
	"election", "crash", "fault of a disk", "partition", "pause", "clock jump", "epoch ended", "node stream lost", "node frame dropped",
	"node frame duplicated", "node frame overtaken", "node frame corrupted", "socket cut", "socket jammed", "client failover",
	"client died", "answer lost", "client away for too long", "client left a silent node", "commit", "rollback", "redelivery", "outcome unknown", "plain commit unknown",
	"real disk", "disk checked", "disk fails for ever", "disk full", "disk hangs", "disk lies", "power lost within a write", "bit flipped",
	"unsynced data lost", "torn tail cut", "forgotten data found out", "wrong bit found out",
	"digests compared at rest", "K7 history", "queue: create", "queue: delete", "queue: purge", "queue: read", "queue: send", "queue: no answer",
	"link of a deleted queue", "send to a deleted queue", "message deleted or purged", "outcome decided by an asker", "peek",
	"peek at an open transaction",
}
