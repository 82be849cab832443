package engine

import (
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Errors of operations: the caller asked for what the protocol's state doesn't permit. Nothing was queued.
var (
	ErrClosed        = errors.New("oncemq: the connection is closed or closing: open a new one")
	ErrNotOpen       = errors.New("oncemq: the connection is not open yet: send Open first")
	ErrEnded         = errors.New("oncemq: the session has ended: begin a new one")
	ErrNotBegun      = errors.New("oncemq: the session is not begun yet: wait for the peer's Begin")
	ErrDetached      = errors.New("oncemq: the link is detached: attach it anew")
	ErrNotAttached   = errors.New("oncemq: the link is not attached yet: wait for the peer's Attach")
	ErrNoCredit      = errors.New("oncemq: the link has no credit: wait for the event Credit")
	ErrUnsettledFull = errors.New("oncemq: the link has as many unsettled deliveries as permitted: wait for settlements")
	ErrRole          = errors.New("oncemq: that operation belongs to the link's other end")
	ErrTag           = errors.New("oncemq: a delivery-tag has at most 32 bytes")
	ErrTooLarge      = errors.New("oncemq: the message exceeds the peer's max-message-size")
	ErrFrameTooLarge = errors.New("oncemq: the frame exceeds the peer's max-frame-size")
	ErrNoChannel     = errors.New("oncemq: all channels that the peer permits are in use: end a session")
	ErrNoHandle      = errors.New("oncemq: all handles that the peer permits are in use: detach a link")
	ErrLinkName      = errors.New("oncemq: the session has a link of that name and role: detach it or choose another name")
	ErrHeader        = errors.New("oncemq: the peer sent another protocol header; ours was returned: close the socket")
	ErrIdle          = errors.New("oncemq: the peer was silent longer than the idle time-out")
)

// Scope is what an Error kills.
type Scope uint8

// The scopes, from the smallest.
const (
	ScopeLink Scope = iota
	ScopeSession
	ScopeConnection
)

// String is "link", "session" or "connection".
func (s Scope) String() string {
	switch s {
	case ScopeLink:
		return "link"
	case ScopeSession:
		return "session"
	case ScopeConnection:
	}
	return "connection"
}

// Error is a protocol error: it ended a link, a session or the connection, by the peer's will or by ours.
type Error struct {
	// Scope is what ended.
	Scope Scope
	// Remote: the peer said so; otherwise this engine found the peer at fault and has queued the frame that says it.
	Remote bool
	// AMQP is the condition, description and info as on the wire. A peer's Detach, End or Close without an error makes no Error.
	AMQP amqp.Error

	cause error
}

// Error names the scope, who raised it, the condition and the description.
func (e *Error) Error() string {
	who := "local"
	if e.Remote {
		who = "peer"
	}
	return fmt.Sprintf("oncemq: %s error (%s): %s: %q", e.Scope, who, e.AMQP.Condition, e.AMQP.Description)
}

// Unwrap is ErrIdle for the connection error of an idle time-out, ErrHeader for a wrong protocol header, else nil.
func (e *Error) Unwrap() error { return e.cause }

// idleDescription is what Close says on an idle time-out, in the words that Qpid JMS uses.
const idleDescription = "local-idle-timeout expired"
