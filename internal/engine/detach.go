package engine

import "github.com/oncemq/oncemq/internal/amqp"

// maxLingering bounds a session's links that are detached without closed and have unsettled deliveries.
const maxLingering = 1024

// Detach detaches the link or answers the peer's Detach; e may be nil, an error goes with closed. An Attach that was not
// answered yet is refused first. Waiting transfers are dropped unwritten. With closed the link's unsettled deliveries
// are forgotten: late dispositions mean nothing. Where nothing is due it does nothing.
func (l *Link) Detach(closed bool, e *amqp.Error) error {
	s := l.session
	if s.over() {
		return ErrEnded
	}
	if !s.beginOut {
		return ErrNotBegun
	}
	if l.detachOut {
		return nil
	}
	l.sendDetach(closed || e != nil, e)
	return nil
}

func (l *Link) sendDetach(closed bool, e *amqp.Error) {
	s := l.session
	if !s.beginOut {
		b := amqp.Begin{RemoteChannel: amqp.Some(s.peerChannel)}
		s.sendBegin(&b)
	}
	if !l.attachOut {
		l.sendRefusal()
	}
	s.conn.appendFault(s.channel, e, func(e *amqp.Error) amqp.Performative {
		return &amqp.Detach{Handle: l.handle, Closed: closed, Error: e}
	})
	l.detachOut = true
	l.down(closed)
}

// peerDetach takes the peer's Detach. Its handle is free at once, ours when both Detaches are out.
func (s *Session) peerDetach(p *amqp.Detach) {
	l := s.byPeer[p.Handle]
	if l == nil {
		s.fail(amqp.ErrCondUnattachedHandle, "detach on a handle that is not attached")
		return
	}
	delete(s.byPeer, p.Handle)
	l.detachIn = true
	closed := p.Closed || p.Error != nil
	left := l.left(closed)
	l.down(closed)
	l.tell(remoteError(ScopeLink, p.Error), closed, left)
}

// down is what either Detach does to the link.
func (l *Link) down(closed bool) {
	l.dropWaiting()
	l.dropPartial()
	l.drain, l.drainDone, l.credit = false, false, 0
	s := l.session
	if l.detachIn && l.detachOut {
		s.handles[l.handle] = nil
		s.lingering++
	}
	l.closed = l.closed || closed
	if l.closed {
		l.Forget()
	}
	s.tidy(l)
	if s.lingering > maxLingering && !s.over() {
		s.fail(amqp.ErrCondResourceLimitExceeded, "too many detached links with unsettled deliveries")
	}
}

// tidy drops a link that is detached both ways and holds nothing any more from the session's list.
func (s *Session) tidy(l *Link) {
	if !l.detachIn || !l.detachOut || l.unsettled > 0 {
		return
	}
	for i, x := range s.links {
		if x == l {
			s.links = append(s.links[:i], s.links[i+1:]...)
			s.lingering--
			return
		}
	}
}

// dropPartial lets go of what came of an unfinished delivery.
func (l *Link) dropPartial() {
	l.session.conn.partialBytes -= uint64(len(l.buf))
	l.partial, l.buf = nil, nil
}
