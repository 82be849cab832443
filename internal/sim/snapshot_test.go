package sim

import (
	"flag"
	"strings"
	"testing"
)

var snapshots = flag.Int("snapshots", 60, "how many seeds TestSnapshots runs")

// TestSnapshots: worlds whose logs are so short that whoever is away for a moment needs a checkpoint; what everybody is
// promised holds all the same.
func TestSnapshots(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(*snapshots) {
		r := Run(Config{Seed: seed, Nodes: 3, Retain: 600, Liveness: seed%3 == 0})
		for what, n := range r.Coverage {
			if strings.Contains(what, "checkpoint") {
				counts[what] += n
			}
		}
		for _, v := range r.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
	t.Log(counts)
	for _, what := range []string{"checkpoint", "checkpoint installed", "crash before a checkpoint was installed", "checkpoint gone"} {
		if counts[what] == 0 {
			t.Errorf("no world had a %q", what)
		}
	}
}
