package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// ConnOptions describe a connection that passed its SASL layer.
type ConnOptions struct {
	// Local is the connection's key in the node's table, unique within the epoch, 1 and up.
	Local uint64
	// Principal is the authenticated user.
	Principal string
	// Barrier is called by the log, on any goroutine, when barrier id has ended: it must not block and has to bring both to
	// Conn.BarrierDone on the loop.
	Barrier func(id uint64, ok bool)
}

// Conn is one client connection as the broker understands it. One goroutine owns it.
//
// The order of a loop's turn: Input, Effects, BarrierDone and Tick in any number; then Flush; then TakeOutput where the
// socket is idle; then, where TakeOutput gave bytes, Flush again.
type Conn struct{}

// NewConn begins with the AMQP protocol header; SASL is over.
func (n *Node) NewConn(opts ConnOptions, now time.Time) *Conn { panic("skeleton") }

// Input takes bytes from the client and says how many it consumed; the rest is to be handed in again with more behind it.
// After the answer to Open (see Effects) held bytes must be handed in again.
func (c *Conn) Input(b []byte, now time.Time) (consumed int) { panic("skeleton") }

// Effects takes what applied entries brought for this connection, in order. The slice is only read.
func (c *Conn) Effects(effects []command.Effect, now time.Time) { panic("skeleton") }

// BarrierDone brings the answer of a barrier that was announced through ConnOptions.Barrier.
func (c *Conn) BarrierDone(id uint64, ok bool, now time.Time) { panic("skeleton") }

// Flush proposes the gathered commands as one record.
func (c *Conn) Flush(now time.Time) { panic("skeleton") }

// TakeOutput hands over bytes to be written at once: it checks the lease and moves deliveries to the engine. spare, if it
// has capacity, becomes the next buffer. Nil or empty: nothing to write.
func (c *Conn) TakeOutput(spare []byte, now time.Time) []byte { panic("skeleton") }

// WriteStuck tells since when a write has been waiting for the socket, and that it no longer does (zero time). After 2 s the
// connection's allowances are withdrawn [3.4].
func (c *Conn) WriteStuck(since time.Time) { panic("skeleton") }

// Tick does what is due and says when to call it again (never the zero time).
func (c *Conn) Tick(now time.Time) (next time.Time) { panic("skeleton") }

// Stop begins a graceful end: discharges in flight are answered, then Close(amqp:connection:forced) is queued.
func (c *Conn) Stop(reason string, now time.Time) { panic("skeleton") }

// Lost tells that the socket is gone, and why; the connection's end is proposed with what was not written.
func (c *Conn) Lost(cause command.EndCause, now time.Time) { panic("skeleton") }

// Done says that the connection is over: write what TakeOutput still gives, then close the socket.
func (c *Conn) Done() bool { panic("skeleton") }

// Busy says that the connection's own unapplied bytes are above its bound: don't read more from the socket now.
func (c *Conn) Busy() bool { panic("skeleton") }

// TakeProbe says once that the host is to probe the socket: have a heartbeat written and see within 3 s whether the peer's
// TCP acknowledges it; if not, call Lost(EndSilent) [1.5].
func (c *Conn) TakeProbe() bool { panic("skeleton") }

// EndEpoch tells that the node's epoch has ended: Close(amqp:connection:forced) without a ConnEnd, which the end of the
// epoch has done.
func (c *Conn) EndEpoch(reason string, now time.Time) { panic("skeleton") }
