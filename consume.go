package oncemq

import "context"

// Consume runs n workers until ctx ends. Each has a session and a receiver of its own; per message it begins a transaction, accepts the
// message in it, calls fn, and commits on nil. Where fn returns an error the transaction is rolled back and the message comes again, at most up to the
// redelivery limit (C13). A transaction that was rolled back or whose outcome is unknown is only reported to the Logger: the message comes again if
// it was not consumed. It returns ctx's error, or the first error that no retry can heal, after all workers are gone.
func Consume(ctx context.Context, c *Client, address string, n int, fn func(ctx context.Context, tx *Tx, d *Delivery) error) error {
	panic("skeleton")
}
