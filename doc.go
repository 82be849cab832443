// Package oncemq is the Go client of the OncemQ broker: sessions, senders,
// receivers, and transactions whose outcome can be learned after any failure.
//
// A [Client] holds one connection at a time to one node of the cluster and moves to
// another when that node is lost or falls silent. Sessions, senders, receivers and an
// open [Tx] survive the move: links are attached anew with what is unsettled, the
// operations of an open transaction are replayed under the same [TxID] (contract C6), and a commit
// that was under way is asked for again, so that its caller gets the truth (C4):
// nil, [ErrRolledBack], or, only where no node with a majority behind it could be
// reached before the context ended, [ErrOutcomeUnknown].
//
//	c, err := oncemq.Dial(ctx, "amqp://mq1:5672,mq2:5672,mq3:5672", nil)
//	s, err := c.OpenSession(ctx, nil)
//	out, err := s.NewSender(ctx, "receipts", nil)
//	in, err := s.NewReceiver(ctx, "orders", nil)
//	d, err := in.Receive(ctx)
//	err = s.InTx(ctx, func(tx *oncemq.Tx) error {
//		if err := tx.Accept(d); err != nil {
//			return err
//		}
//		return tx.Send(ctx, out, oncemq.NewMessage([]byte("done")))
//	})
//
// # Rules
//
//   - Every call ends with its context. A call without a deadline that waits for a commit, a send
//     or a settlement waits at most 30 s; Receive waits as long as its context.
//   - The end of a context cancels the wait, not the work: what stays behind is said at
//     each method. A timeout is never reported as "rolled back".
//   - A Client is safe for concurrent use. A Session with all that belongs to it is one
//     ordered conversation, used by one goroutine at a time; SendAsync and
//     [Receipt.Wait] may be used from any.
//   - The client's protocol decisions stand in internal/client, a step machine without
//     goroutines; this package only drives it. Outside modules: the SCRAM library.
//
// Not here yet: XA (Prepare, CommitPrepared, RollbackPrepared, ListPrepared), topics and selectors.
package oncemq
