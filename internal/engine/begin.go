package engine

import "github.com/oncemq/oncemq/internal/amqp"

// outgoingWindow is what we announce: we never hold back a transfer for a window of our own.
const outgoingWindow = 1<<31 - 1

// Begin begins a session. NextOutgoingID, the windows and HandleMax are filled in from the Config where they are zero. The event
// SessionBegun tells the peer's answer; Attach may be called before it.
func (c *Conn) Begin(b amqp.Begin) (*Session, error) {
	if c.ended() {
		return nil, ErrClosed
	}
	if !c.openOut {
		return nil, ErrNotOpen
	}
	channel := len(c.byLocal)
	for i, s := range c.byLocal {
		if s == nil {
			channel = i
			break
		}
	}
	if channel > int(min(c.peerChannelMax, c.cfg.ChannelMax)) {
		return nil, ErrNoChannel
	}
	s := c.newSession(uint16(channel))
	s.local = true
	s.sendBegin(&b)
	return s, nil
}

// newSession puts a session on a free channel of ours.
func (c *Conn) newSession(channel uint16) *Session {
	s := &Session{conn: c, channel: channel, peerHandleMax: amqp.DefaultHandleMax}
	s.initialID = c.cfg.NextOutgoingID
	s.nextOutgoingID, s.nextDeliveryID = s.initialID, s.initialID
	s.windowMax = c.cfg.IncomingWindow
	s.window = s.windowMax
	if int(channel) == len(c.byLocal) {
		c.byLocal = append(c.byLocal, s)
	} else {
		c.byLocal[channel] = s
	}
	return s
}

// Begin answers the peer's Begin; RemoteChannel, NextOutgoingID, and where they are zero the windows and HandleMax are filled in.
// What the peer sent behind its Begin has become events meanwhile.
func (s *Session) Begin(b amqp.Begin) error {
	if s.over() {
		return ErrEnded
	}
	if s.beginOut {
		return nil
	}
	b.RemoteChannel = amqp.Some(s.peerChannel)
	s.sendBegin(&b)
	return nil
}

func (s *Session) sendBegin(b *amqp.Begin) {
	if b.NextOutgoingID != 0 {
		s.initialID = b.NextOutgoingID
		s.nextOutgoingID, s.nextDeliveryID = s.initialID, s.initialID
	}
	b.NextOutgoingID = s.nextOutgoingID
	if b.IncomingWindow == 0 {
		b.IncomingWindow = s.windowMax
	}
	s.windowMax = b.IncomingWindow
	s.window = s.windowMax
	if b.OutgoingWindow == 0 {
		b.OutgoingWindow = outgoingWindow
	}
	if b.HandleMax == 0 || b.HandleMax > s.conn.cfg.HandleMax {
		b.HandleMax = s.conn.cfg.HandleMax
	}
	s.beginOut = true
	s.conn.append(s.channel, b)
}

// peerBegin takes the peer's Begin: the answer to one of ours, or a session of its own.
func (c *Conn) peerBegin(channel uint16, p *amqp.Begin) {
	if channel > c.cfg.ChannelMax {
		c.fail(amqp.ErrCondFramingError, "a channel above channel-max")
		return
	}
	if s := c.peerSession(channel); s != nil {
		if !s.endOut {
			s.fail(amqp.ErrCondIllegalState, "a second begin on the channel")
		}
		return
	}
	var s *Session
	if p.RemoteChannel.Set {
		if int(p.RemoteChannel.V) < len(c.byLocal) {
			s = c.byLocal[p.RemoteChannel.V]
		}
		if s == nil || !s.local || s.beginIn != nil {
			c.fail(amqp.ErrCondInvalidField, "remote-channel answers no begin")
			return
		}
	} else if s = c.peersOwn(); s == nil {
		return
	}
	s.peerChannel, s.beginIn = channel, p
	for len(c.byPeer) <= int(channel) {
		c.byPeer = append(c.byPeer, nil)
	}
	c.byPeer[channel] = s
	s.nextIncomingID = p.NextOutgoingID
	s.peerHandleMax = p.HandleMax
	s.peerWindow = p.IncomingWindow
	if s.endOut { // ended before it was answered: its End follows
		return
	}
	ev := c.emit(SessionBegun)
	ev.Session, ev.Begin = s, p
	s.wake()
}

// peersOwn makes the session for a Begin that answers none of ours. Our channel is the lowest free one; there are as
// many as the peer has, so that only a peer that doesn't wait for our End can exhaust them.
func (c *Conn) peersOwn() *Session {
	for i, s := range c.byLocal {
		if s == nil {
			return c.newSession(uint16(i))
		}
	}
	if len(c.byLocal) > int(c.peerChannelMax) || len(c.byLocal) > 2*int(c.cfg.ChannelMax)+1 {
		c.fail(amqp.ErrCondResourceLimitExceeded, "too many sessions that wait for their end")
		return nil
	}
	return c.newSession(uint16(len(c.byLocal)))
}
