package demo

import (
	"math/rand/v2"
	"time"
)

// eventKind is what happens to a node.
type eventKind uint8

const (
	killLeader eventKind = iota
	killFollower
	killHome  // of a worker
	pauseNode // SIGSTOP for pauseTime
)

// bag is dealt out whole before it is shuffled anew, so that every stretch of a run
// has events of each kind.
var bag = [...]eventKind{killLeader, killLeader, killLeader, killHome, killHome, killFollower, pauseNode, pauseNode}

// event is one thing that happens, as the seed chose it.
type event struct {
	after time.Duration // from the beginning of the one before
	kind  eventKind
	pick  int // which follower, worker or node: taken modulo their number
}

// schedule is the endless row of events of one seed.
type schedule struct {
	rand     *rand.Rand
	low, max time.Duration
	left     []eventKind
}

func newSchedule(seed uint64, low, high time.Duration) *schedule {
	return &schedule{rand: rand.New(rand.NewPCG(seed, 0x6f6e6365)), low: low, max: high}
}

func (s *schedule) next() event {
	if len(s.left) == 0 {
		s.left = append(s.left, bag[:]...)
		s.rand.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
	}
	e := event{kind: s.left[0], after: s.low, pick: s.rand.IntN(1 << 20)}
	if s.max > s.low {
		e.after += time.Duration(s.rand.Int64N(int64(s.max - s.low)))
	}
	s.left = s.left[1:]
	return e
}
