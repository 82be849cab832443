package bench

import (
	"slices"
	"time"
)

// Result is one measured run.
type Result struct {
	Name   string  `json:"name"`
	PerS   float64 `json:"per_s"`
	P50    int64   `json:"p50_us"`
	P99    int64   `json:"p99_us"`
	Errors int     `json:"errors"`
}

// samples collects the latencies of one goroutine. The zero value is ready.
type samples struct {
	took   []time.Duration
	errors int
}

func (s *samples) add(d time.Duration) { s.took = append(s.took, d) }

// result sums up the samples of all goroutines over the time that was measured.
func result(name string, all []*samples, over time.Duration) Result {
	r := Result{Name: name}
	var took []time.Duration
	for _, s := range all {
		took = append(took, s.took...)
		r.Errors += s.errors
	}
	if len(took) == 0 || over <= 0 {
		return r
	}
	slices.Sort(took)
	r.PerS = float64(len(took)) / over.Seconds()
	r.P50 = took[len(took)/2].Microseconds()
	r.P99 = took[len(took)*99/100].Microseconds()
	return r
}
