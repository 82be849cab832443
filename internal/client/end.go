package client

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// fail ends the session for good.
func (s *Session) fail(err error) {
	if s.over {
		return
	}
	s.over, s.up = true, false
	if s.err == nil {
		s.err = err
	}
	c := s.core
	for _, snd := range s.senders {
		snd.expire(err)
		snd.fail(err)
	}
	for _, tx := range append([]*Tx(nil), s.txs...) {
		tx.expire(err)
	}
	for _, r := range s.receivers {
		r.expire(err)
		r.fail(err)
	}
	c.finish(&s.Opening, err)
	if s.reopening != nil {
		c.finish(s.reopening, err)
	}
	c.finish(&s.Closing, nil)
}

// Close begins to end the session, once what is sent is answered; open transactions are rolled back.
func (s *Session) Close() {
	if s.closing || s.over {
		if s.over {
			s.core.finish(&s.Closing, nil)
		}
		return
	}
	s.closing = true
	for _, tx := range append([]*Tx(nil), s.txs...) {
		if tx.state == txOpen {
			tx.rollback(ErrClosed)
		}
	}
	for _, snd := range s.senders {
		snd.dropWaiting(ErrClosed)
	}
	if s.err == nil {
		s.err = ErrClosed
	}
	if s.on == nil && s.id == (SessionID{}) {
		s.finishClosing() // no node is to open it only to close it again
	}
	s.pump()
	s.core.dropEnded()
}

// endWhenQuiet ends a closing session that waits for no answer any more.
func (s *Session) endWhenQuiet() {
	if !s.closing || !s.up || len(s.txs) > 0 || s.owed() {
		return
	}
	for _, snd := range s.senders {
		if snd.first != nil {
			return
		}
	}
	s.endNow()
}

// endNow sends End: without an error it acknowledges all outcomes, with outcomes-unknown the broker keeps them (C2).
func (s *Session) endNow() {
	if s.on == nil || s.on.Ended() {
		return
	}
	var e *amqp.Error
	if s.known.open() > 0 || len(s.txs) > 0 {
		e = &amqp.Error{Condition: amqp.ErrCondOutcomesUnknown, Description: "the client holds outcomes that no caller has seen"}
	}
	_ = s.on.End(e)
	s.ending = true
}

func (s *Session) finishClosing() {
	s.fail(ErrClosed)
}

// dropEnded forgets sessions that are over.
func (c *Core) dropEnded() {
	over := func(s *Session) bool { return s.over }
	if slices.ContainsFunc(c.sessions, over) {
		c.sessions = slices.DeleteFunc(slices.Clone(c.sessions), over) // who ranges over them goes on undisturbed
	}
}
