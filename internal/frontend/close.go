package frontend

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// onClosed ends the connection because the client closed it, was silent, or broke the protocol.
func (c *Conn) onClosed(err *engine.Error) {
	switch {
	case err == nil || err.Remote:
		cause := command.EndClosed
		if err != nil {
			cause = command.EndFailed
		}
		c.end(cause)
		_ = c.eng.Close(nil)
		c.finish()
	case errors.Is(err, engine.ErrIdle):
		c.end(command.EndSilent)
		c.finish()
	default:
		c.end(command.EndReset)
		c.finish()
	}
}

// onConnEnded: somebody else has ended the connection (take-over, NodeDown).
func (c *Conn) onConnEnded(e *command.Effect) {
	c.ended = true
	err := amqp.Error{Condition: amqp.ErrCondConnectionForced, Description: "the connection was ended"}
	if e.Refusal != nil {
		err = amqpError(e.Refusal)
	}
	c.over(&err)
}

// force ends the connection for reasons of this node's: Close(amqp:connection:forced), which makes clients move. A zero
// cause proposes no end.
func (c *Conn) force(reason string, cause command.EndCause) {
	if c.phase == phaseOver {
		return
	}
	if cause != 0 {
		c.end(cause)
	}
	c.over(&amqp.Error{Condition: amqp.ErrCondConnectionForced, Description: reason})
}

// finish is the end of all understanding; transactions hold no memory of the node's any more.
func (c *Conn) finish() {
	c.phase = phaseOver
	for _, k := range inOrder(c.consumers) {
		if k.cursor != nil {
			c.endBrowser(k)
		}
	}
	c.node.txHeld.Add(-c.txHeld)
	c.txHeld = 0
}

// over queues Close; from now on there is only output.
func (c *Conn) over(err *amqp.Error) {
	c.finish()
	_ = c.eng.Close(err)
}

// end puts the connection's end into the log, with what was never written (C8).
func (c *Conn) end(cause command.EndCause) {
	if c.ended {
		return
	}
	if c.id != 0 {
		c.reportWritten()
		c.gather(&command.ConnEnd{Conn: c.id, Cause: cause, Links: c.unwritten()})
	}
	c.ended = true
	// propose would take a refusal for a loss of the epoch, and there is nothing left to lose.
	if body := c.batch; len(body) > 0 {
		c.batch = nil
		c.log.Propose(body)
	}
}

// unwritten lists what the client can't have seen, for every consumer: what it doesn't name is unknown to the state.
func (c *Conn) unwritten() []command.LinkUnwritten {
	var links []command.LinkUnwritten
	for _, k := range inOrder(c.consumers) {
		if k.inState() {
			links = append(links, command.LinkUnwritten{Link: k.num, Received: k.received, Unwritten: k.unwritten(nil)})
		}
	}
	return links
}

// Stop begins a graceful end: discharges in flight are answered, then Close(amqp:connection:forced) is queued. A second
// call waits for nothing.
func (c *Conn) Stop(reason string, now time.Time) {
	c.now = now
	if c.stopping != "" || c.deciding == 0 {
		c.leave(reason)
		return
	}
	c.stopping = reason
}

// Move is Stop for a connection that other nodes are to take: a client that follows amqp:connection:redirect is told one of them.
func (c *Conn) Move(reason string, now time.Time) {
	c.moving = true
	c.Stop(reason, now)
}

// leave queues the Close of Stop and Move. A client that isn't known to follow a redirect would take it for an error that is final, where
// amqp:connection:forced has it connect again.
func (c *Conn) leave(reason string) {
	var servers []Server
	if c.moving && c.quirks.followsRedirect && c.phase == phaseOpen {
		servers = c.others()
	}
	if len(servers) == 0 {
		c.force(reason, command.EndForced)
		return
	}
	to := servers[c.opts.Local%uint64(len(servers))]
	c.end(command.EndForced)
	c.over(&amqp.Error{
		Condition: amqp.ErrCondConnectionRedirect, Description: reason,
		Info: amqp.Map{{Key: amqp.InfoNetworkHost, Value: to.Host}, {Key: amqp.InfoPort, Value: to.Port}},
	})
}

// Lost tells that the socket is gone, and why; the connection's end is proposed with what was not written.
func (c *Conn) Lost(cause command.EndCause, now time.Time) {
	c.now = now
	c.end(cause)
	c.finish()
}

// GiveUp ends a connection that is so broken, by a panic, that Lost has failed too: nothing is known of what was written.
func (c *Conn) GiveUp() {
	c.finish()
	c.ended = true
	if c.id != 0 {
		c.log.Propose(command.Append(nil, &command.ConnEnd{Conn: c.id, Cause: command.EndForced}))
	}
}

// EndEpoch tells that the node's epoch has ended: Close(amqp:connection:forced) without a ConnEnd, which the end of the
// epoch has done.
func (c *Conn) EndEpoch(reason string, now time.Time) {
	c.now = now
	c.ended = true
	c.force(reason, 0)
}
