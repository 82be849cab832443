package faults

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s=%q: a whole number is wanted", name, text)
	}
	return n
}

// Row 104: combinations of faults, as the seed says. ONCEMQ_SOAK_MINUTES is how long,
// ONCEMQ_SEED which; `make soak MINUTES=30` sets them.
func TestRow104Nemesis(t *testing.T) {
	Long(t)
	minutes, seed := setting(t, "ONCEMQ_SOAK_MINUTES", 1), setting(t, "ONCEMQ_SEED", 1)
	// A round may keep a majority away for 15 s, and on a machine with other work all
	// nodes take that long again to be back.
	o := Options{Proxies: true, Rate: 150, Patience: 2 * time.Minute, Flags: scrubbed}
	if _, err := exec.LookPath("mkfs.ext4"); err == nil && os.Getenv(private) != "" {
		o.Disks = NewLoopDisk
	}
	w := New(t, o)
	t.Logf("seed %d; again: make soak MINUTES=%d SEED=%d", seed, minutes, seed)
	x := w.NewNemesis(seed)
	begun := time.Now()
	res := w.Run(func() {
		for end := begun.Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
			w.Note("round %d", x.rounds()+1)
			x.Round()
		}
	})
	t.Logf("seed %d\n%s", seed, x.Table(res.Committed, time.Since(begun)))
	for _, h := range x.happen {
		if x.played[h.name] == 0 && x.rounds() >= len(x.happen) {
			t.Errorf("%s never happened in %d rounds", h.name, x.rounds())
		}
	}
}
