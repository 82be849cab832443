package oncemq

import "context"

// OnFailover says what becomes of a session's open transaction when its connection is lost.
type OnFailover uint8

// The ways.
const (
	// Resume replays the transaction on the next node under the same id; deliveries stay reserved (C6).
	Resume OnFailover = iota
	// Rollback rolls it back: its next use returns ErrRolledBack, and what was consumed comes again, redelivered (S1–S3).
	Rollback
)

// SessionOptions are a session's; nil or zero for the defaults.
type SessionOptions struct {
	// OnFailover is Resume or Rollback.
	OnFailover OnFailover
}

// Session is one ordered conversation with the broker, for one goroutine at a time. It survives the loss of its node.
type Session struct{}

// OpenSession opens a session. It waits until a node has it in its log.
func (c *Client) OpenSession(ctx context.Context, opts *SessionOptions) (*Session, error) {
	panic("skeleton")
}

// Begin begins a transaction. It sends nothing by itself and waits only for the session to be resumed after a
// failover. Several may be open at once. ErrTooManyUnknown: see there.
func (s *Session) Begin(ctx context.Context) (*Tx, error) { panic("skeleton") }

// InTx begins a transaction, calls fn, and commits on nil; on an error or panic it rolls back and returns or raises that. It never calls fn again.
func (s *Session) InTx(ctx context.Context, fn func(tx *Tx) error) error { panic("skeleton") }

// Resend repeats a send under its number and returns its first outcome (C9): nil, or the same refusal. A send that is known not to be
// stored, because it was never written, is sent under a new number. The receipt must be of this session.
func (s *Session) Resend(ctx context.Context, r *Receipt) error { panic("skeleton") }

// Close ends the session: open transactions are rolled back, links closed, what is unsettled returns to its queue.
func (s *Session) Close(ctx context.Context) error { panic("skeleton") }
