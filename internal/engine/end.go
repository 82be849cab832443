package engine

import "github.com/oncemq/oncemq/internal/amqp"

// End ends the session, or answers the peer's End; e may be nil. Where the Begin was not answered yet, it is. Waiting
// transfers are dropped unwritten, the links are over, late frames of the peer are ignored. Where nothing is due it
// does nothing.
func (s *Session) End(e *amqp.Error) error {
	if s.conn.ended() {
		return ErrClosed
	}
	if !s.endOut {
		s.sendEnd(e)
	}
	return nil
}

func (s *Session) sendEnd(e *amqp.Error) {
	if !s.beginOut {
		b := amqp.Begin{RemoteChannel: amqp.Some(s.peerChannel)}
		s.sendBegin(&b)
	}
	s.conn.appendFault(s.channel, e, func(e *amqp.Error) amqp.Performative { return &amqp.End{Error: e} })
	s.endOut = true
	s.retire()
	s.release()
}

// peerEnd takes the peer's End: the answer to ours, or the end of everything on the session but for our answer. The
// peer's channel is free at once, ours when both Ends are out.
func (s *Session) peerEnd(p *amqp.End) {
	s.endIn = true
	s.conn.byPeer[s.peerChannel] = nil
	s.retire()
	s.tell(remoteError(ScopeSession, p.Error))
	s.release()
}

// release frees our channel once End went both ways.
func (s *Session) release() {
	if s.endIn && s.endOut {
		s.conn.byLocal[s.channel] = nil
	}
}
