package demo

import (
	"slices"
	"sync"
	"time"
)

// Millis sums up times in milliseconds.
type Millis struct {
	N      int `json:"n"`
	Min    int `json:"min"`
	Median int `json:"median"`
	Max    int `json:"max"`
}

func millis(took []time.Duration) Millis {
	if len(took) == 0 {
		return Millis{}
	}
	slices.Sort(took)
	ms := func(d time.Duration) int { return int((d + time.Millisecond - 1) / time.Millisecond) }
	return Millis{N: len(took), Min: ms(took[0]), Median: ms(took[len(took)/2]), Max: ms(took[len(took)-1])}
}

// watchKind is the list that a measured time goes to.
type watchKind uint8

const (
	watchFailover watchKind = iota // a killed leader: anybody's commit
	watchHome                      // a killed home: a commit of a worker that lived there
	watchPause                     // a stopped node, likewise
	watchKinds
)

// stopwatch measures from a signal to the first commit that was acknowledged and
// whose discharge was sent after the signal: what an application notices. It is safe
// for concurrent use.
type stopwatch struct {
	mu      sync.Mutex
	running []watch
	took    [watchKinds][]time.Duration
}

// watch is one measurement under way.
type watch struct {
	kind   watchKind
	since  time.Time
	worker int // -1: any
}

// anyWorker stands for a watch that anybody's commit ends.
const anyWorker = -1

// start begins a measurement.
func (s *stopwatch) start(kind watchKind, since time.Time, worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, watch{kind, since, worker})
}

// committed tells of a commit of worker, sent and acknowledged at these moments.
func (s *stopwatch) committed(worker int, sent, acked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(w watch) bool {
		if sent.Before(w.since) || w.worker != anyWorker && w.worker != worker {
			return false
		}
		s.took[w.kind] = append(s.took[w.kind], acked.Sub(w.since))
		return true
	})
}

// times sums up one list. Measurements that never ended count with the time until
// now, so that a client that hangs is seen.
func (s *stopwatch) times(kind watchKind, now time.Time) Millis {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := slices.Clone(s.took[kind])
	for _, w := range s.running {
		if w.kind == kind {
			took = append(took, now.Sub(w.since))
		}
	}
	return millis(took)
}

// last is the newest measurement of a kind, 0 where there is none.
func (s *stopwatch) last(kind watchKind) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.took[kind]); n > 0 {
		return s.took[kind][n-1]
	}
	return 0
}
