package server

import (
	"context"
	"time"
)

const (
	// paceStep is the most time between two connections that are told to end.
	paceStep = 50 * time.Millisecond
	// awayFor is how long after a Shed those that come back are turned away.
	awayFor = 5 * time.Second
)

// Drain lets no connection in from now on, and tells all to end, with amqp:connection:redirect who follows that and with
// amqp:connection:forced the others, evenly over a time, so that other nodes don't get them all at once; discharges in flight are answered first. It returns nil when all are gone, or ctx's error: the node stays closed
// then too. Revive opens it again.
func (s *Server) Drain(ctx context.Context, over time.Duration) error {
	s.mu.Lock()
	s.drained = true
	n := s.sockets
	s.mu.Unlock()
	if err := s.end(ctx, n, over, "this node is drained: connect to another node"); err != nil {
		return err
	}
	return s.gone(ctx, func() bool { return s.sockets == 0 })
}

// Bar lets no connection in from now on, as Drain does, and ends none yet.
func (s *Server) Bar() {
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
}

// Revive lets connections in again.
func (s *Server) Revive() {
	s.mu.Lock()
	s.drained = false
	s.mu.Unlock()
}

// Drained says whether Drain was called, and no Revive since.
func (s *Server) Drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// Shed tells n connections to end, as Drain does, and turns away as many that come within the next seconds: a client whose list
// of addresses begins with this node would else be back at once. It returns when all have been told.
func (s *Server) Shed(ctx context.Context, n int, over time.Duration) error {
	s.mu.Lock()
	n = min(n, s.sockets)
	s.away, s.awayUntil = n, time.Now().Add(over+awayFor)
	s.mu.Unlock()
	return s.end(ctx, n, over, "this node has more connections than others: connect to another node")
}

// turnedAway reports that a new connection has to go elsewhere. s.mu is held.
func (s *Server) turnedAway() bool {
	if s.drained {
		return true
	}
	if s.away == 0 || time.Now().After(s.awayUntil) {
		return false
	}
	s.away--
	return true
}

// end tells n connections to end, one after the other.
func (s *Server) end(ctx context.Context, n int, over time.Duration, reason string) error {
	if n == 0 {
		return nil
	}
	tick := time.NewTicker(max(min(over/time.Duration(n), paceStep), time.Microsecond))
	defer tick.Stop()
	for range n {
		if !s.endOne(reason) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// endOne tells a connection that wasn't told yet to end; false: there is none.
func (s *Server) endOne(reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all { // in no order: no client is chosen for its age
		if c.told {
			continue
		}
		c.told = true
		if c.local == 0 { // in its SASL layer: nothing to lose
			c.cancel()
			_ = c.socket.Close()
			return true
		}
		c.mail.stop(reason, true)
		// A discharge that gets no answer must not hold the connection for ever.
		time.AfterFunc(s.cfg.StopTimeout, func() { c.mail.stop(reason, true) })
		return true
	}
	return false
}

// gone waits for a condition under s.mu.
func (s *Server) gone(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		done := ok()
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
