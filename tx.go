package oncemq

import "context"

// Tx is a transaction: its sends and settlements take effect wholly or not at all (C1). For one goroutine at a time.
type Tx struct{}

// ID is the transaction's identity for ever. It may be stored before Commit, to ask for the outcome after a crash.
func (tx *Tx) ID() TxID { panic("skeleton") }

// Send sends m to in the transaction. It is pipelined and waits only for credit; a refusal shows at Commit. m is free again when it returns.
// With an error m is not part of the transaction. ErrTxDone after the end, ErrRolledBack where the transaction was rolled back meanwhile.
func (tx *Tx) Send(ctx context.Context, to *Sender, m *Message) error { panic("skeleton") }

// Accept consumes d when the transaction commits. It never waits.
func (tx *Tx) Accept(d *Delivery) error { panic("skeleton") }

// Reject gives d to the dead letters when the transaction commits.
func (tx *Tx) Reject(d *Delivery, reason string) error { panic("skeleton") }

// Commit ends the transaction. nil: committed. Else a *TxError: RolledBack, where ctx was done already, or anything
// failed before the commit was handed to a socket, or the broker said so; Unknown, where ctx (30 s without a deadline) ended afterwards
// before any node gave the answer. After Unknown, Commit may be called again and then asks for the outcome; so does Rollback. After any other end it
// returns ErrTxDone.
func (tx *Tx) Commit(ctx context.Context) error { panic("skeleton") }

// Rollback ends the transaction without effect; deliveries settled in it come again. ErrTxDone after the end: safe to
// defer. After a Commit that ended Unknown it asks for the outcome first: nil only if it is rolled back, else a *TxError with Outcome Committed or Unknown (C10).
func (tx *Tx) Rollback(ctx context.Context) error { panic("skeleton") }
