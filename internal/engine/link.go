package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Link is one attachment of a link: a further Attach of the same name, after Detach or to steal it, makes another Link.
type Link struct {
	// Data is the user's, untouched by the engine.
	Data any

	session *Session
}

// Attach begins to attach a link: Role, Name, termini, settle modes, Unsettled and the like are the caller's; Handle,
// InitialDeliveryCount and, where zero, MaxMessageSize are filled in. The event LinkAttached tells the peer's answer. A receiver may
// SetCredit at once.
func (s *Session) Attach(a amqp.Attach) (*Link, error) { panic("skeleton") }

// Accept answers the peer's Attach; Name, Role, Handle, InitialDeliveryCount are filled in. The peer's settle modes and termini
// are not echoed by themselves: a holds them as they are to be.
func (l *Link) Accept(a amqp.Attach) error { panic("skeleton") }

// Refuse answers the peer's Attach with a null terminus and at once Detach(closed, e), the only form that clients
// understand (2.6.3; checklist 25).
func (l *Link) Refuse(e amqp.Error) error { panic("skeleton") }

// Detach detaches the link or answers the peer's Detach; e may be nil, an error goes with closed. Waiting transfers are dropped
// unwritten. With closed the link's unsettled deliveries are forgotten: late dispositions mean nothing.
func (l *Link) Detach(closed bool, e *amqp.Error) error { panic("skeleton") }

// Forget drops the link's unsettled deliveries from the session's table without a word to the peer: late dispositions mean
// nothing. For a link that was detached without closed and will not be asked for again.
func (l *Link) Forget() { panic("skeleton") }

// Session is the link's session.
func (l *Link) Session() *Session { panic("skeleton") }

// Name is the link's name.
func (l *Link) Name() string { panic("skeleton") }

// Role is our role.
func (l *Link) Role() amqp.Role { panic("skeleton") }

// Local says that this end attached first.
func (l *Link) Local() bool { panic("skeleton") }

// Attached says that Attach went both ways and Detach neither.
func (l *Link) Attached() bool { panic("skeleton") }

// Detached says that Detach went both ways, or the session is over: nothing more is due.
func (l *Link) Detached() bool { panic("skeleton") }

// Remote is the peer's Attach, nil until it has come.
func (l *Link) Remote() *amqp.Attach { panic("skeleton") }

// Credit is, for a sender, how many sends are permitted now (those that wait are taken off); for a receiver, how much
// of what was granted the peer has not used.
func (l *Link) Credit() uint32 { panic("skeleton") }

// Unsettled is how many unsettled deliveries the link has in the session's table.
func (l *Link) Unsettled() int { panic("skeleton") }

// EachUnsettled calls f for the link's unsettled deliveries in order of their ids until it gives false. f may settle
// the delivery that it is given.
func (l *Link) EachUnsettled(f func(*Delivery) bool) { panic("skeleton") }

// SetCredit grants the sender n deliveries from now on, in place of what was granted before, and sends the Flow. With drain the
// sender is to use the credit up or give it back: the event Drained follows. Receivers only.
func (l *Link) SetCredit(n uint32, drain bool) error { panic("skeleton") }

// Partial says that a delivery has begun to arrive on the link and is not complete, and in which state its frames so far were
// sent: a coordinator must not discharge a transaction that it belongs to (4.4.3; checklist 97).
func (l *Link) Partial() (state amqp.DeliveryState, ok bool) { panic("skeleton") }

// Drain of the receiver is pending: Drained is due.
func (l *Link) Draining() bool { panic("skeleton") }

// Drained ends the drain that the receiver asked for: once the sends that wait have begun, the remaining credit is given
// back with Flow(drain). Where no drain is pending (any more) it does nothing. Senders only.
func (l *Link) Drained() { panic("skeleton") }
