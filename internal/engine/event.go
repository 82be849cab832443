package engine

import "github.com/oncemq/oncemq/internal/amqp"

// EventKind says which fields of an Event hold.
type EventKind uint8

// The kinds of events.
const (
	// Opened: the peer's Open is there, in Open. A server answers with Conn.Open.
	Opened EventKind = iota + 1
	// Closed: the connection is over, all sessions and links with it. Err says why; nil: the peer closed without an error.
	// After a peer's Close the user answers with Conn.Close; after our own Close this is the peer's answer.
	Closed
	// SessionBegun: the peer's Begin is there, in Begin. Peer-made sessions (Session.Local false) wait for Session.Begin.
	SessionBegun
	// SessionEnded: the session and its links are over. Err as in Closed. If the peer ended first the user answers with
	// Session.End; Session.Ended says whether an answer is still due.
	SessionEnded
	// LinkAttached: the peer's Attach is there, in Attach (coordinator target and unsettled map included). Links of the
	// peer's making (Link.Local false) wait for Link.Accept or Link.Refuse. Refused: the peer's terminus is null although
	// ours is not, so that its Detach will follow with the reason.
	LinkAttached
	// LinkDetached: the peer's Detach is there, or this engine detached the link for a protocol error (Err not Remote; the
	// Detach is queued and the link over). Closed is the peer's closed flag. If the peer detached first the user answers
	// with Link.Detach; Link.Detached says whether an answer is still due.
	LinkDetached
	// Received: a complete incoming delivery, in Delivery.
	Received
	// Aborted: the peer aborted a partial delivery on Link, which used up one credit. A delivery aborted while being
	// resumed is in Delivery, else that is nil.
	Aborted
	// Disposed: the peer's disposition changed Deliveries, all of one Link: their State and Settled. Deliveries of a link
	// that we send on are our sends, else what we received. Settled ones have left the unsettled table. Repeats of what
	// was known, unknown ids and deliveries of closed links make no event.
	Disposed
	// Credit: the receiver sent a Flow for the sender Link; Link.Credit says how many sends are permitted now. Drain: the
	// receiver waits for Link.Drained. Echo: the receiver asked for a Flow, which the engine has answered (a drain's answer
	// serves as well). Properties are the Flow's.
	Credit
	// Drained: the drain that was asked for by Link.SetCredit is over; the link's credit is 0.
	Drained
	// SenderFlow: the sender sent a Flow for the receiver Link that is no Drained; Available is what it says to have.
	SenderFlow
	// WindowOpened: the peer takes more transfers on Session than before, and it had taken few; Session.Window says how many.
	WindowOpened
)

// Event is something that the peer did. Which fields hold says Kind; the others are zero.
type Event struct {
	// Kind says which event it is.
	Kind EventKind
	// Session and Link are what it happened to (nil above their level).
	Session *Session
	Link    *Link

	// Delivery of Received and Aborted.
	Delivery *Delivery
	// Deliveries of Disposed, in order of their ids; the slice lives until the next Input, the Deliveries for ever. Of LinkDetached
	// with closed: what was unsettled on the link and is forgotten now; that slice is the receiver's.
	Deliveries []*Delivery
	// State (nil: none given) and Settled of Disposed.
	State   amqp.DeliveryState
	Settled bool

	// Err of Closed, SessionEnded and LinkDetached.
	Err *Error
	// Closed of LinkDetached.
	Closed bool
	// Refused of LinkAttached.
	Refused bool

	// Drain and Echo of Credit; Available of SenderFlow; Properties of Credit and SenderFlow.
	Drain      bool
	Echo       bool
	Available  uint32
	Properties amqp.Map

	// Open, Begin and Attach are the peer's performatives; they belong to the event's receiver.
	Open   *amqp.Open
	Begin  *amqp.Begin
	Attach *amqp.Attach
}
