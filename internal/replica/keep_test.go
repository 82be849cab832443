package replica

import (
	"log/slog"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// keptLog is a log of 1,000 entries of 10 bytes, of which the first are cut.
type keptLog struct {
	Log
	first uint64
}

func (l *keptLog) FirstIndex() uint64          { return l.first }
func (l *keptLog) SizeBytes() int64            { return 10 * int64(1001-l.first) }
func (l *keptLog) Suffix(bytes int64) uint64   { return max(l.first, 1001-uint64(bytes/10)) }
func (l *keptLog) Append(a store.Append) error { panic(a) }

// keptState is a state that has flushed some of what it has applied.
type keptState struct {
	State
	applied, durable uint64
}

func (s *keptState) AppliedIndex() uint64          { return s.applied }
func (s *keptState) DurableIndex() (uint64, error) { return s.durable, nil }
func (s *keptState) Flush() error                  { s.durable = s.applied; return nil }

// TestKeep: where the log is cut, by what every node has, what is flushed, how long it is, and which checkpoint is offered.
func TestKeep(t *testing.T) {
	const retain, hold = 3000, 2000 // 300 entries, and 200
	for _, c := range []struct {
		what                            string
		first, everyone, durable, offer uint64
		want                            uint64 // 0: not cut
		dropped                         bool   // the offer
	}{
		{what: "all have all", first: 1, everyone: 1000, durable: 900, want: 901},
		{what: "one is behind, within what is kept", first: 701, everyone: 800, durable: 1000, want: 800},
		{what: "one is far behind", first: 1, everyone: 100, durable: 1000, want: 701},
		{what: "one is far behind, and little is flushed", first: 1, everyone: 100, durable: 400, want: 401},
		{what: "a checkpoint is being fetched", first: 501, everyone: 100, durable: 1000, offer: 599, want: 600},
		{what: "it was installed, and the node isn't there yet", first: 501, everyone: 610, durable: 1000, offer: 599, want: 610},
		{what: "it holds too much", first: 1, everyone: 100, durable: 1000, offer: 599, want: 701},
		{what: "all are past it", first: 501, everyone: 800, durable: 1000, offer: 599, want: 800, dropped: true},
	} {
		log, state := &keptLog{first: c.first}, &keptState{applied: 1000, durable: c.durable}
		s := newSteps(Options{Limits: Limits{RetainBytes: retain, HoldBytes: hold, LogFlushBytes: 1 << 20, OfferFor: time.Minute}}, time.Now(), func([]byte) {})
		s.log, s.state, s.logger = log, state, slog.New(slog.DiscardHandler)
		s.offers.log, s.offers.drop = log, func(Offer) {}
		s.offers.make = func() (Offer, error) { return Offer{}, nil }
		s.offers.marks = unmarked
		if c.offer > 0 {
			s.offers.made.Store(&Offer{Index: c.offer})
		}
		s.everyone.Store(c.everyone)
		if err := s.keep(time.Second); err != nil {
			t.Fatal(err)
		}
		var got uint64
		for _, job := range s.appends.take(nil) {
			got = job.cut
		}
		if got != c.want || (s.offers.made.Load() == nil) != (c.offer == 0 || c.dropped) {
			t.Errorf("%s: cut at %d, want %d; offered %v", c.what, got, c.want, s.offers.made.Load())
		}
	}
}

// TestReclaim: the end of a purge has the state flushed, for its disk space; one after the other not each at once.
func TestReclaim(t *testing.T) {
	log, state := &keptLog{first: 1}, &keptState{applied: 1000, durable: 900}
	s := newSteps(Options{Limits: Limits{RetainBytes: 1 << 20, LogFlushBytes: 1 << 20, OfferFor: time.Minute}}, time.Now(), func([]byte) {})
	s.log, s.state, s.logger = log, state, slog.New(slog.DiscardHandler)
	s.offers.log, s.offers.drop, s.offers.marks = log, func(Offer) {}, unmarked
	now := time.Second
	keep := func(pass time.Duration, applied, durable uint64, when string) {
		t.Helper()
		now, state.applied = now+pass, applied
		if err := s.keep(now); err != nil || state.durable != durable {
			t.Fatalf("%s: flushed up to %d, %v; want %d", when, state.durable, err, durable)
		}
	}
	keep(time.Second, 1000, 900, "no job")
	s.jobEnded.Store(true)
	keep(time.Second, 1001, 1001, "a job has ended")
	keep(time.Minute, 1002, 1001, "nothing since")
	s.jobEnded.Store(true)
	keep(time.Second, 1003, 1003, "another, a minute later")
	s.jobEnded.Store(true)
	keep(time.Second, 1004, 1003, "one more, at once")
	keep(reclaimEvery, 1004, 1004, "when it is time")
}

// TestOfferExpires: a checkpoint that nobody wants goes after a while, and not while a node goes on behind it.
func TestOfferExpires(t *testing.T) {
	s := offers{log: &keptLog{first: 1}, drop: func(Offer) {}, make: func() (Offer, error) { return Offer{Index: 5}, nil }}
	if o := s.offered(); o != nil {
		t.Fatalf("offered %+v before it was made", o)
	}
	now := time.Second
	step := func(pass time.Duration, everyone uint64) bool {
		t.Helper()
		now += pass
		if err := s.step(now, 0, slog.Default()); err != nil {
			t.Fatal(err)
		}
		s.expire(now, time.Minute, everyone, 100, false)
		return s.made.Load() != nil
	}
	s.wake = make(chan struct{}, 1)
	if !step(0, 1) || s.offered() == nil {
		t.Fatal("not made")
	}
	for i, c := range []struct {
		pass     time.Duration
		everyone uint64
		offered  bool
	}{{50 * time.Second, 1, true}, {50 * time.Second, 1, true}, {50 * time.Second, 7, true}, {50 * time.Second, 8, true}, {59 * time.Second, 8, true}, {2 * time.Second, 8, false}} {
		if got := step(c.pass, c.everyone); got != c.offered {
			t.Errorf("step %d: offered %v", i, got)
		}
	}
}
