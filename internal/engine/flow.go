package engine

import "github.com/oncemq/oncemq/internal/amqp"

// lowWindow is where a window begins to be worth the event WindowOpened.
const lowWindow = 1024

// maxCredit bounds what we grant, so that RFC 1982 comparisons of delivery-counts hold.
const maxCredit = 1<<31 - 1

// SetCredit grants the sender n deliveries from now on, those under way included, in place of what was granted before, and
// sends the Flow (to top up: Credit() + k). With drain the sender is to use the credit up or give it back: the event Drained follows. Without it a drain under way is called off.
// Receivers only.
func (l *Link) SetCredit(n uint32, drain bool) error {
	switch {
	case l.role != amqp.RoleReceiver:
		return ErrRole
	case l.session.over():
		return ErrEnded
	case !l.attachOut:
		return ErrNotAttached
	case l.gone():
		return ErrDetached
	}
	l.credit = min(n, maxCredit)
	l.allow = max(l.allow, l.credit)
	l.drain, l.drainFrom = drain, l.credit
	l.sendFlow(drain)
	return nil
}

// Draining says that the receiver asked for a drain and Drained is due.
func (l *Link) Draining() bool { return l.role == amqp.RoleSender && l.drain }

// Drained ends the drain that the receiver asked for: once the sends that wait are sent, the remaining credit is given
// back with Flow(drain). Where no drain is pending (any more) it does nothing. Senders only.
func (l *Link) Drained() {
	if l.role != amqp.RoleSender || !l.drain || l.gone() || !l.attachOut {
		return
	}
	l.drainDone = true
	l.finishDrain()
}

// finishDrain answers a drain, unless sends still wait that have the credit to go.
func (l *Link) finishDrain() {
	if !l.drainDone || l.sending != nil || l.waiting > 0 && l.credit > 0 {
		return
	}
	l.deliveryCount += l.credit
	l.credit = 0
	l.sendFlow(true)
	l.drain, l.drainDone = false, false
}

// sendFlow tells the state of the link and of its session.
func (l *Link) sendFlow(drain bool) {
	f := l.session.flow()
	f.Handle = amqp.Some(l.handle)
	if l.role == amqp.RoleSender || l.attachIn != nil {
		f.DeliveryCount = amqp.Some(l.deliveryCount)
	}
	f.LinkCredit = amqp.Some(l.credit)
	f.Drain = drain
	l.session.conn.append(l.session.channel, f)
}

// flow is the session's part of a Flow, in the connection's scratch frame.
func (s *Session) flow() *amqp.Flow {
	f := &s.conn.frame.flow
	*f = amqp.Flow{IncomingWindow: s.window, NextOutgoingID: s.nextOutgoingID, OutgoingWindow: outgoingWindow}
	if s.beginIn != nil {
		f.NextIncomingID = amqp.Some(s.nextIncomingID)
	}
	return f
}

// peerFlow takes a Flow: the session's window, then the link's credit.
func (s *Session) peerFlow(p *amqp.Flow) {
	inFlight := s.nextOutgoingID - p.NextIncomingID.Or(s.initialID)
	if int32(inFlight) < 0 {
		s.fail(amqp.ErrCondInvalidField, "next-incoming-id is above what was sent")
		return
	}
	before := s.Window()
	s.peerWindow = p.IncomingWindow - min(p.IncomingWindow, inFlight)
	if before < lowWindow && s.Window() > before {
		s.conn.emit(WindowOpened).Session = s
	}
	s.nextIncomingID = p.NextOutgoingID
	if !p.Handle.Set {
		if p.Echo && s.ready() {
			s.conn.append(s.channel, s.flow())
		}
		s.wake()
		return
	}
	l := s.byPeer[p.Handle.V]
	if l == nil {
		s.fail(amqp.ErrCondUnattachedHandle, "flow on a handle that is not attached")
		return
	}
	if !l.detachOut {
		if l.role == amqp.RoleSender {
			l.receiverFlow(p)
		} else {
			l.senderFlow(p)
		}
	}
	s.wake()
}

// receiverFlow is a receiver's grant: credit = its delivery-count + link-credit − ours (2.6.7), where our count may be ahead by
// what is in flight.
func (l *Link) receiverFlow(p *amqp.Flow) {
	if p.LinkCredit.Set {
		inFlight := l.deliveryCount - p.DeliveryCount.Or(l.initialCount)
		if int32(inFlight) < 0 { // a count from the future: as good as ours
			inFlight = 0
		}
		l.credit = p.LinkCredit.V - min(p.LinkCredit.V, inFlight)
	}
	l.drain, l.drainDone = p.Drain, false
	l.unpark()
	if p.Echo && !p.Drain && l.attachOut && l.session.ready() {
		l.sendFlow(false) // a drain's answer serves as well; drain is never said before it is over: go-amqp takes it for the end
	}
	ev := l.session.conn.emit(Credit)
	ev.Session, ev.Link, ev.Drain, ev.Echo = l.session, l, p.Drain, p.Echo
	ev.Properties = amqp.CloneMap(p.Properties)
}

// senderFlow is a sender's report; an advanced delivery-count gives credit back.
func (l *Link) senderFlow(p *amqp.Flow) {
	if p.DeliveryCount.Set {
		if given := p.DeliveryCount.V - l.deliveryCount; int32(given) > 0 {
			l.deliveryCount += given
			l.credit -= min(l.credit, given)
			l.allow -= min(l.allow, given)
		}
	}
	kind := SenderFlow
	if l.drain && l.credit == 0 && (p.Drain || l.drainFrom > 0) {
		l.drain = false
		kind = Drained
	}
	if p.Echo && l.attachOut && l.session.ready() {
		l.sendFlow(l.drain)
	}
	ev := l.session.conn.emit(kind)
	ev.Session, ev.Link, ev.Echo, ev.Available = l.session, l, p.Echo, p.Available.V
	ev.Properties = amqp.CloneMap(p.Properties)
}
