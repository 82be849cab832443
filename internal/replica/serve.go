package replica

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Propose queues a record body (encoded commands of one connection, or of none) and owns
// it from then on. Records of one node are applied in the order proposed, but for bodies
// above command.MaxPlain, which travel in parts while records of other connections pass.
// It never blocks. false: the node has no epoch now.
func (s *steps) Propose(body []byte) bool { return s.propose(body, nil) }

func (s *steps) propose(body []byte, done func(error)) bool {
	if !s.home.propose(body, done) {
		return false
	}
	s.events.kick()
	return true
}

// Backlog is the bytes proposed and not yet applied here. Above 8 MiB, give senders no
// credit [8.6].
func (s *steps) Backlog() int { return s.home.backlog() }

// Barrier calls done once, soon, on the apply goroutine, never on the caller's stack:
// true when this replica has applied, and its Mailbox been given, everything that was
// committed before the call (ReadIndex); false where no majority answered within 5 s.
// done must not block. Once the node has ended, done isn't called.
func (s *steps) Barrier(done func(ok bool)) { s.events.put(event{kind: evBarrier, done: done}) }

// LeaseUntil is the moment up to which deliveries may be written [3.8], with a monotonic
// reading: 1.0 s after the sending of the last successful barrier, which behind a gap
// counts once all is applied that was committed before it. The zero time: no lease.
// Barriers renew it every 300 ms while WantLease is set.
func (s *steps) LeaseUntil() time.Time {
	if mutant.On(mutant.AlwaysLease) {
		return s.began.Add(1000 * time.Hour)
	}
	if until := s.lease.Load(); until != 0 {
		return s.began.Add(time.Duration(until))
	}
	return time.Time{}
}

// WantLease says whether the lease is to be kept up: set it while clients are connected,
// so that an idle node costs nothing.
func (s *steps) WantLease(want bool) { s.events.put(event{kind: evLease, refused: !want}) }

// Lag is how long ago the oldest entry that isn't applied here was known to be committed
// [3.5]; 0 for a node that keeps up.
func (s *steps) Lag() time.Duration { return time.Duration(s.lagNanos.Load()) }

// Lagging reports a Lag above 2 s: the node is not ready, and its home withdraws
// allowances.
func (s *steps) Lagging() bool { return s.Lag() > notReadyLag }

// Message appends the stored message's bytes to dst, all sections as they came.
// command.ErrNoMessage when it is gone. One that can't be read ends the node, or lets it begin anew.
func (s *steps) Message(dst []byte, inc command.Incarnation, message uint64) ([]byte, error) {
	body, ok, err := state.ReadMessage(dst, group, inc, message, func(key, dst []byte) ([]byte, bool, error) {
		return s.state.Get(key, dst)
	})
	switch {
	case err == nil && !ok:
		err = command.ErrNoMessage
	case errors.Is(err, store.ErrCorrupt):
		s.lose(err)
	}
	return body, err
}
