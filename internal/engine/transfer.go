package engine

import "github.com/oncemq/oncemq/internal/amqp"

// peerTransfer takes a Transfer: the session's window, then the link's delivery.
func (s *Session) peerTransfer(p *amqp.Transfer, payload []byte) {
	if s.window == 0 {
		s.fail(amqp.ErrCondWindowViolation, "a transfer beyond the incoming window")
		return
	}
	s.window--
	s.nextIncomingID++
	l := s.byPeer[p.Handle]
	if l == nil {
		s.fail(amqp.ErrCondUnattachedHandle, "transfer on a handle that is not attached")
		return
	}
	if !l.detachOut {
		l.peerTransfer(p, payload)
	}
	if s.window <= s.windowMax/2 && !s.reopening {
		s.reopening = true
		s.conn.reopening = append(s.conn.reopening, s)
	}
}

// reopen opens the incoming windows that were half used up. It is done when output is taken and not before, so that a peer
// can't pass a window that it was never told of, and stops when we can't write.
func (c *Conn) reopen() {
	for _, s := range c.reopening {
		s.reopening = false
		if s.ready() {
			s.window = s.windowMax
			c.append(s.channel, s.flow())
		}
	}
	c.reopening = c.reopening[:0]
}

// peerTransfer takes a transfer on an attached link.
func (l *Link) peerTransfer(p *amqp.Transfer, payload []byte) {
	if l.role != amqp.RoleReceiver {
		l.fail(amqp.ErrCondNotAllowed, "a transfer from a receiver")
		return
	}
	d := l.partial
	if d == nil {
		if d = l.receive(p); d == nil {
			return
		}
	} else if !l.continues(d, p) {
		return
	}
	if p.State != nil {
		if !sameState(l.lastState, p.State) {
			l.lastState = amqp.CloneState(p.State)
		}
		d.State = l.lastState
	}
	if p.Settled.V {
		d.Settled = true
	}
	if p.Aborted {
		l.aborted(d)
		return
	}
	if uint64(len(l.buf))+uint64(len(payload)) > l.maxReceive {
		l.fail(amqp.ErrCondMessageSizeExceeded, "a message larger than max-message-size")
		return
	}
	if p.More {
		l.partial = d
		l.gather(payload)
		return
	}
	d.Payload = payload
	if l.partial != nil {
		l.gather(payload)
		d.Payload, d.Owned = l.buf, true
		l.dropPartial()
	}
	if !l.detachOut { // gather may have refused
		l.complete(d)
	}
}

// receive begins a delivery; nil if it was refused.
func (l *Link) receive(p *amqp.Transfer) *Delivery {
	s := l.session
	d := &Delivery{Link: l, ID: p.DeliveryID.V, Format: p.MessageFormat.V, Resume: p.Resume, Second: l.second}
	if p.ReceiverSettleMode.Set {
		d.Second = p.ReceiverSettleMode.V == amqp.ReceiverSettleSecond
	}
	switch {
	case l.allow == 0:
		l.fail(amqp.ErrCondTransferLimitExceeded, "a delivery beyond the link's credit")
		return nil
	case !p.DeliveryID.Set:
		l.fail(amqp.ErrCondInvalidField, "a delivery without delivery-id")
		return nil
	case s.anyDelivery && int32(p.DeliveryID.V-s.lastDeliveryID) <= 0:
		s.fail(amqp.ErrCondInvalidField, "a delivery-id that is not above the last one")
		return nil
	case p.DeliveryTag == nil && !p.Settled.V:
		l.fail(amqp.ErrCondInvalidField, "an unsettled delivery without delivery-tag")
		return nil
	case d.Second && !l.second:
		l.fail(amqp.ErrCondInvalidField, "a delivery that is to be settled second, on a link that settles first")
		return nil
	case !d.setTag(p.DeliveryTag):
		l.fail(amqp.ErrCondInvalidField, "a delivery-tag of more than 32 bytes")
		return nil
	}
	s.lastDeliveryID, s.anyDelivery = d.ID, true
	l.allow--
	l.credit -= min(l.credit, 1)
	l.deliveryCount++
	return d
}

// continues checks a further frame against the delivery that it belongs to.
func (l *Link) continues(d *Delivery, p *amqp.Transfer) bool {
	switch {
	case p.DeliveryID.Set && p.DeliveryID.V != d.ID:
		l.fail(amqp.ErrCondInvalidField, "a further transfer with another delivery-id, before the delivery was complete")
	case p.DeliveryTag != nil && string(p.DeliveryTag) != string(d.Tag()):
		l.fail(amqp.ErrCondInvalidField, "a further transfer with another delivery-tag")
	case p.MessageFormat.Set && p.MessageFormat.V != d.Format:
		l.fail(amqp.ErrCondInvalidField, "a further transfer with another message-format")
	default:
		return true
	}
	return false
}

// gather keeps a part of a delivery's payload.
func (l *Link) gather(payload []byte) {
	c := l.session.conn
	if c.partialBytes+uint64(len(payload)) > c.cfg.MaxPartialBytes {
		l.fail(amqp.ErrCondResourceLimitExceeded, "too many bytes in unfinished deliveries")
		return
	}
	l.buf = append(l.buf, payload...)
	c.partialBytes += uint64(len(payload))
}

// aborted forgets a delivery that the peer took back.
func (l *Link) aborted(d *Delivery) {
	l.dropPartial()
	ev := l.session.conn.emit(Aborted)
	ev.Session, ev.Link = l.session, l
	if d.Resume {
		ev.Delivery = d
	}
	l.usedUp()
}

// complete hands a whole delivery to the user.
func (l *Link) complete(d *Delivery) {
	if !d.Settled {
		if _, taken := l.tags[d.tag]; taken {
			l.fail(amqp.ErrCondNotAllowed, "a delivery-tag of a delivery that is not settled yet")
			return
		}
		if l.unsettled >= l.session.conn.cfg.MaxUnsettled {
			l.fail(amqp.ErrCondResourceLimitExceeded, "too many unsettled deliveries")
			return
		}
		if l.tags == nil {
			l.tags = make(map[tagKey]struct{})
		}
		l.tags[d.tag] = struct{}{}
		l.list(d)
	}
	ev := l.session.conn.emit(Received)
	ev.Session, ev.Link, ev.Delivery = l.session, l, d
	l.usedUp()
}

// usedUp ends a drain whose credit the sender has used up: some senders say nothing more then.
func (l *Link) usedUp() {
	if l.drain && l.credit == 0 && l.drainFrom > 0 {
		l.drain = false
		ev := l.session.conn.emit(Drained)
		ev.Session, ev.Link = l.session, l
	}
}
