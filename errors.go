package oncemq

import (
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/engine"
)

// What calls of this package end with, besides a context's error and *Error.
var (
	// ErrRolledBack: the transaction took no effect and never will.
	ErrRolledBack = errors.New("oncemq: rolled back")
	// ErrForeign: a sender, delivery or receipt of another session was used.
	ErrForeign = client.ErrForeign
	// ErrOutcomeUnknown: the commit or send was handed to a connection and no answer came before the
	// context ended. It may have taken effect or not: ask Client.Outcome or Session.Resend.
	ErrOutcomeUnknown = client.ErrUnknown
	// ErrExpired: the broker no longer knows the session that this belonged to, so that it can't say (C5).
	ErrExpired = client.ErrExpired
	// ErrDeliveryLost: the delivery is no longer ours; the message went elsewhere or will come again (C6).
	ErrDeliveryLost = client.ErrDeliveryLost
	// ErrTxDone: the transaction has ended already.
	ErrTxDone = client.ErrTxDone
	// ErrClosed: the client, session, sender or receiver was closed.
	ErrClosed = client.ErrClosed
	// ErrSettled: the delivery was settled before.
	ErrSettled = client.ErrSettled
	// ErrCredentials: the broker doesn't know the user, or the password or certificate isn't the user's.
	ErrCredentials = errors.New("oncemq: the credentials were refused")
	// ErrTooManyUnknown: the session holds 1,000 transactions of unknown outcome (C2): resolve some with Client.Outcome.
	ErrTooManyUnknown = client.ErrTooManyUnknown
)

// Error is a "no" of the broker: to a connection, an attach, a send.
type Error struct {
	// Condition is the AMQP error condition, such as amqp:not-found.
	Condition string
	// Description says what happened, to what, what to do next.
	Description string

	cause error // what it was found in, or nil
}

// Error gives the condition and the description.
func (e *Error) Error() string {
	if e.Description == "" {
		return "oncemq: refused: " + e.Condition
	}
	return fmt.Sprintf("oncemq: refused: %s: %s", e.Condition, e.Description)
}

// Unwrap tells errors.Is what came of the refusal, such as ErrClosed for what was under way on a client that was refused.
func (e *Error) Unwrap() error { return e.cause }

// TxError says how a transaction ended that did not commit. It Is ErrRolledBack or ErrOutcomeUnknown by its Outcome, and Err.
type TxError struct {
	// ID is the transaction's, for Client.Outcome, now or in another process.
	ID TxID
	// Outcome is RolledBack or Unknown; Committed from Rollback, where the transaction had been committed before (C10).
	Outcome Outcome
	// Err is why, or nil: a context's error, *Error, ErrExpired, ErrDeliveryLost, ….
	Err error
}

// Error names the transaction, its outcome and why.
func (e *TxError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("oncemq: transaction %s: %s", e.ID, e.Outcome)
	}
	return fmt.Sprintf("oncemq: transaction %s: %s: %v", e.ID, e.Outcome, e.Err)
}

// Unwrap is Err.
func (e *TxError) Unwrap() error { return e.Err }

// Is tells errors.Is about ErrRolledBack and ErrOutcomeUnknown.
func (e *TxError) Is(target error) bool {
	return target == ErrRolledBack && e.Outcome == RolledBack || target == ErrOutcomeUnknown && e.Outcome == Unknown
}

// SendError is a plain send whose outcome is unknown. It Is ErrOutcomeUnknown, and Err.
type SendError struct {
	// Receipt is for Session.Resend or Receipt.Wait.
	Receipt *Receipt
	// Err is why no answer came: a context's error, ErrExpired, ….
	Err error
}

// Error says what is unknown and why.
func (e *SendError) Error() string {
	return fmt.Sprintf("oncemq: send: outcome unknown: %v", e.Err)
}

// Unwrap is Err.
func (e *SendError) Unwrap() error { return e.Err }

// Is tells errors.Is about ErrOutcomeUnknown.
func (e *SendError) Is(target error) bool { return target == ErrOutcomeUnknown }

// public is an error of the core's as the application sees it.
func public(err error) error {
	if err == nil {
		return nil // what follows allocates
	}
	var refused *engine.SASLError
	if errors.As(err, &refused) && refused.Code == amqp.SASLCodeAuth && !errors.Is(err, ErrCredentials) {
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	var known *Error
	var no *amqp.Error
	if errors.As(err, &no) && !errors.As(err, &known) {
		return &Error{Condition: string(no.Condition), Description: no.Description, cause: err}
	}
	return err
}
