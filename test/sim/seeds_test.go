package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	faults   int
	steps    int
	time     time.Duration // of the worlds
	coverage map[string]int
	failed   []uint64
}

func (x *tally) add(r *sim.Result, seed uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seeds++
	x.ops += r.Ops
	x.faults += r.Faults
	x.steps += r.Steps
	x.time += r.Time
	for k, n := range r.Coverage {
		x.coverage[k] += n
	}
	if len(r.Violations) > 0 {
		x.failed = append(x.failed, seed)
	}
}

// report is how fast it was, and what a seed is.
func (x *tally) report(took time.Duration) string {
	n, s := float64(max(x.seeds, 1)), took.Seconds()
	return fmt.Sprintf("%d seeds in %v: %.1f seeds/s, %.0f simulated s/s; a seed has %.0f operations, %.1f faults, %.0f events, %.0f s",
		x.seeds, took.Round(time.Millisecond), n/s, x.time.Seconds()/s, float64(x.ops)/n, float64(x.faults)/n, float64(x.steps)/n, x.time.Seconds()/n)
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
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // worlds are small and many
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
	t.Log(all.report(time.Since(began)))
	explain(t, all)
}

// found are seeds that have found a fault once (docs/faults.md).
var found = []uint64{2519, 15765, 22324, 24566, 25047, 30326, 32756, 35508, 37093, 39157, 50839, 53012, 54420, 55239, 57997, 9565, 72055, 82229, 207104}

// TestSeedsThatFound runs those again.
func TestSeedsThatFound(t *testing.T) {
	for _, seed := range found {
		for _, v := range sim.Run(configOf(seed)).Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
}

// explain tells how to replay a failure, and what happened in all worlds (K15).
func explain(t *testing.T, all *tally) {
	if len(all.failed) > 0 {
		f := shrink(configOf(slices.Min(all.failed)))
		t.Logf("%s; the end of its transcript:\n%s", f.what, f.end(60))
		t.Logf("replay: %s", f.command)
		if path, err := f.keep(filepath.Join("testdata", "failed")); err != nil {
			t.Logf("its transcript isn't kept: %v", err)
		} else {
			t.Logf("its transcript: %s", path)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all.coverage)) {
		t.Logf("%8d %s", all.coverage[k], k)
	}
	if n := undecided.Load(); n > 0 {
		t.Logf("%8d histories without a verdict of K7 within %v", n, judgeTime)
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
	"client died", "answer lost", "client away for too long", "client left a silent node", "commit", "rollback", "redelivery", "outcome unknown", "plain commit unknown", "plain send said again",
	"real disk", "disk checked", "disk fails for ever", "disk full", "append without room", "disk hangs", "disk lies", "power lost within a write", "bit flipped",
	"unsynced data lost", "torn tail cut", "forgotten data found out", "wrong bit found out",
	"digests compared at rest", "K7 history", "queue: create", "queue: delete", "queue: purge", "queue: read", "queue: send", "queue: no answer",
	"link of a deleted queue", "deleted queue added up", "send to a deleted queue", "message deleted or purged", "outcome decided by an asker", "peek",
	"peek at an open transaction",
	"died behind an answer", "flapping node", "stood still with a hand-out", "consumer stopped", "poll", "delivery lost",
	"noise from a client", "frames of a client spoiled",
	"members change", "node joined", "node removed", "node replaced", "node lost for good", "members told to go", "learner", "joint configuration",
	"removed node told so", "removed node ended", "checkpoint installed", "transfer of leadership asked for", "step-down", "node drained",
	"civil time set", "finalize refused",
	"ordeal: an old leader is asked", "ordeal: wrecked again",
}
