package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Attach begins to attach a link: Role, Name, termini, settle modes, Unsettled and the like are the caller's; Handle,
// InitialDeliveryCount and, for a receiver where it is zero, MaxMessageSize are filled in. The event LinkAttached tells the
// peer's answer. A receiver may SetCredit at once.
func (s *Session) Attach(a amqp.Attach) (*Link, error) {
	if s.over() {
		return nil, ErrEnded
	}
	if !s.beginOut {
		return nil, ErrNotBegun
	}
	for _, l := range s.links {
		if l.name == a.Name && l.role == a.Role && !l.Detached() {
			return nil, ErrLinkName
		}
	}
	l := s.newLink(a.Name, a.Role)
	if l == nil {
		return nil, ErrNoHandle
	}
	l.local = true
	if err := l.sendAttach(&a); err != nil {
		s.handles[l.handle] = nil
		s.links = s.links[:len(s.links)-1]
		return nil, err
	}
	if s.attaching == nil {
		s.attaching = make(map[linkName]*Link)
	}
	s.attaching[linkName{a.Name, a.Role}] = l
	return l, nil
}

// newLink puts a link on the lowest handle that is free, nil if none is.
func (s *Session) newLink(name string, role amqp.Role) *Link {
	handle := len(s.handles)
	for i, l := range s.handles {
		if l == nil {
			handle = i
			break
		}
	}
	if uint64(handle) > uint64(s.peerHandleMax) || uint64(handle) > 2*uint64(s.conn.cfg.HandleMax)+1 {
		return nil
	}
	l := &Link{session: s, name: name, role: role, handle: uint32(handle), maxReceive: s.conn.cfg.MaxMessageSize}
	if role == amqp.RoleSender {
		l.initialCount = s.conn.cfg.InitialDeliveryCount
		l.deliveryCount = l.initialCount
	}
	if handle == len(s.handles) {
		s.handles = append(s.handles, l)
	} else {
		s.handles[handle] = l
	}
	s.links = append(s.links, l)
	return l
}

// Accept answers the peer's Attach; Name, Role, Handle, InitialDeliveryCount are filled in. The peer's settle modes and termini
// are not echoed by themselves: a holds them as they are to be.
func (l *Link) Accept(a amqp.Attach) error {
	switch {
	case l.session.over():
		return ErrEnded
	case !l.session.beginOut:
		return ErrNotBegun
	case l.detachOut:
		return ErrDetached
	}
	if l.attachOut {
		return nil
	}
	a.Name, a.Role = l.name, l.role
	return l.sendAttach(&a)
}

// Refuse answers the peer's Attach with a null terminus and at once Detach(closed, e), the only form that clients
// understand (2.6.3; checklist 25). Where an answer was given before, only the Detach is sent.
func (l *Link) Refuse(e amqp.Error) error { return l.Detach(true, &e) }

// sendRefusal is an Attach whose own terminus is null; the peer's is echoed.
func (l *Link) sendRefusal() {
	a := amqp.NewAttach(l.name, l.role)
	if p := l.attachIn; l.role == amqp.RoleSender {
		a.Target = p.Target
	} else {
		a.Source = p.Source
	}
	if l.sendAttach(a) != nil { // a source with a huge filter, say
		a.Source, a.Target = nil, nil
		_ = l.sendAttach(a)
	}
}

func (l *Link) sendAttach(a *amqp.Attach) error {
	a.Handle = l.handle
	if l.role == amqp.RoleSender {
		a.InitialDeliveryCount = amqp.Some(l.initialCount)
		l.hasTerminus = a.Target != nil || a.Coordinator != nil
		l.mode = a.SenderSettleMode
	} else {
		if a.MaxMessageSize == 0 {
			a.MaxMessageSize = l.session.conn.cfg.MaxMessageSize
		}
		l.maxReceive = a.MaxMessageSize
		l.hasTerminus = a.Source != nil
		l.second = a.ReceiverSettleMode == amqp.ReceiverSettleSecond
	}
	if !l.session.conn.appendWhole(l.session.channel, a) {
		return ErrFrameTooLarge
	}
	l.attachOut = true
	return nil
}

// peerAttach takes the peer's Attach: the answer to one of ours, or a link of its own. A name that is attached already makes
// another Link: to detach the older as stolen is the user's decision (checklist 35).
func (s *Session) peerAttach(p *amqp.Attach) {
	if p.Handle > s.conn.cfg.HandleMax {
		s.conn.fail(amqp.ErrCondFramingError, "a handle above handle-max")
		return
	}
	if s.byPeer[p.Handle] != nil {
		s.fail(amqp.ErrCondHandleInUse, "attach on a handle in use")
		return
	}
	key := linkName{p.Name, !p.Role}
	l := s.attaching[key]
	if l != nil {
		delete(s.attaching, key)
	} else if l = s.newLink(p.Name, !p.Role); l == nil {
		s.fail(amqp.ErrCondResourceLimitExceeded, "too many links")
		return
	}
	if s.byPeer == nil {
		s.byPeer = make(map[uint32]*Link)
	}
	s.byPeer[p.Handle] = l
	l.attachIn, l.peerHandle = p, p.Handle
	refused := l.local && l.hasTerminus
	if l.role == amqp.RoleSender {
		l.maxSend = p.MaxMessageSize
		l.second = p.ReceiverSettleMode == amqp.ReceiverSettleSecond
		refused = refused && p.Target == nil && p.Coordinator == nil
	} else {
		l.deliveryCount = p.InitialDeliveryCount.Or(0)
		refused = refused && p.Source == nil
	}
	if l.detachOut { // detached before it was answered: the peer's Detach follows
		return
	}
	ev := s.conn.emit(LinkAttached)
	ev.Session, ev.Link, ev.Attach, ev.Refused = s, l, p, refused
}
