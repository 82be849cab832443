package oncemq

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/client"
)

// Outcome answers "did it happen?".
type Outcome uint8

// The outcomes. There is no fourth, and Unknown is never reported as one of the others.
const (
	Unknown Outcome = iota
	Committed
	RolledBack
)

// String is "unknown", "committed" or "rolled back".
func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled back"
	default:
		return "unknown"
	}
}

// OutcomeOf reads the outcome from what Commit, InTx, or Send returned: nil is Committed, a *TxError has its own, any other error is Unknown.
func OutcomeOf(err error) Outcome {
	var tx *TxError
	switch {
	case err == nil:
		return Committed
	case errors.As(err, &tx):
		return tx.Outcome
	}
	return Unknown
}

// TxID is a transaction's identity for ever (C1): session (16 bytes) and number (8 bytes, big-endian). It is made by
// the client before anything of the transaction is sent, and may be stored by the application to ask for the outcome later, from any process.
type TxID [24]byte

// Number is the transaction's number within its session, 1 and up.
func (id TxID) Number() uint64 { return binary.BigEndian.Uint64(id[16:]) }

// IsZero says that id names no transaction.
func (id TxID) IsZero() bool { return id == TxID{} }

// String is the session in 32 hex digits, a slash, and the number in decimal.
func (id TxID) String() string {
	return hex.EncodeToString(id[:16]) + "/" + strconv.FormatUint(id.Number(), 10)
}

// ParseTxID reads what TxID.String wrote.
func ParseTxID(s string) (TxID, error) {
	var id TxID
	session, number, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || len(session) != 32 || err != nil || n == 0 {
		return TxID{}, fmt.Errorf("oncemq: %.80q is no transaction id: want 32 hex digits, a slash and a number", s)
	}
	if _, err := hex.Decode(id[:16], []byte(session)); err != nil {
		return TxID{}, fmt.Errorf("oncemq: %.80q is no transaction id: %w", s, err)
	}
	binary.BigEndian.PutUint64(id[16:], n)
	return id, nil
}

// TxState is where a transaction stands, as Peek sees it.
type TxState uint8

// The states.
const (
	// TxOpen: undecided.
	TxOpen TxState = iota + 1
	// TxPrepared: prepared, decided only by its owner.
	TxPrepared
	// TxCommitted and TxRolledBack: decided, for ever.
	TxCommitted
	TxRolledBack
	// TxExpired: its record is no longer kept, so that nobody can say (C5).
	TxExpired
)

// String names the state as the broker does.
func (s TxState) String() string {
	switch s {
	case TxOpen:
		return "open"
	case TxPrepared:
		return "prepared"
	case TxCommitted:
		return "committed"
	case TxRolledBack:
		return "rolled-back"
	case TxExpired:
		return "expired"
	}
	return "unknown"
}

// TxStatus is what Peek saw.
type TxStatus struct {
	// State is where the transaction stands.
	State TxState
	// Reason is why it was rolled back; empty where there is none.
	Reason string
	// DecidedAt is the broker's time of the decision; zero where undecided.
	DecidedAt time.Time
}

// Outcome learns how transaction id ended, on whatever node the client is connected to. An undecided one is decided first: rolled
// back, so that a late commit can't apply (C3). It needs the session's principal. ErrExpired where the broker no longer knows; any other error leaves the
// question open. It works for transactions of other sessions and processes.
//
// The answer comes over a queue of this client's own, "reply." and its ClientID, which is created with the first question and stays: a process that
// asks should have a ClientID that it keeps.
func (c *Client) Outcome(ctx context.Context, id TxID) (Outcome, error) {
	st, err := c.ask(ctx, id, true)
	switch {
	case err != nil:
		return Unknown, err
	case st.State == TxCommitted:
		return Committed, nil
	case st.State == TxRolledBack:
		return RolledBack, nil
	case st.State == TxExpired:
		return Unknown, &TxError{ID: id, Err: ErrExpired}
	}
	return Unknown, &TxError{ID: id, Err: fmt.Errorf("the transaction is %s", st.State)}
}

// Peek looks at transaction id and decides nothing. Over which queue the answer comes is said at Outcome.
func (c *Client) Peek(ctx context.Context, id TxID) (TxStatus, error) { return c.ask(ctx, id, false) }

func (c *Client) ask(ctx context.Context, id TxID, decide bool) (TxStatus, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	w := newWaiter()
	q := &client.Query{ID: client.TxID(id), Decide: decide}
	q.Data = w
	d := c.d
	d.mu.Lock()
	d.core.Ask(q)
	d.after()
	d.mu.Unlock()
	if err := d.wait(ctx, w); err != nil {
		d.mu.Lock()
		d.core.Forget(q)
		d.mu.Unlock()
		return TxStatus{}, err
	}
	if err := q.Err(); err != nil {
		return TxStatus{}, public(err)
	}
	st := TxStatus{Reason: q.Reason, DecidedAt: q.DecidedAt}
	for s := TxOpen; s <= TxExpired; s++ {
		if s.String() == q.State {
			st.State = s
		}
	}
	return st, nil
}
