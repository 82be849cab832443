package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Close sends Close (before it Open with amqp:connection-establishment-failed, if none was sent), e may be nil. Nothing is
// sent afterwards and waiting transfers are dropped unwritten. It begins a close, which the event Closed ends, or answers
// the peer's; where nothing is due it does nothing.
func (c *Conn) Close(e *amqp.Error) error {
	if c.closeOut {
		return nil
	}
	if !c.headerOut { // nothing can be said yet
		c.closeOut, c.closeIn = true, true
		return nil
	}
	c.sendClose(e)
	c.dropWaiting()
	return nil
}

func (c *Conn) sendClose(e *amqp.Error) {
	if !c.openOut {
		o := amqp.NewOpen("")
		o.Properties = amqp.Map{{Key: amqp.PropConnectionEstablishmentFail, Value: true}}
		c.sendOpen(o)
	}
	c.appendFault(0, e, func(e *amqp.Error) amqp.Performative { return &amqp.Close{Error: e} })
	c.closeOut = true
}

// peerClose takes the peer's Close. Everything is over with it, but for our answer.
func (c *Conn) peerClose(p *amqp.Close) {
	c.closeIn = true
	c.over(remoteError(ScopeConnection, p.Error))
}

// remoteError is the Error of what a peer said, nil for nil.
func remoteError(scope Scope, e *amqp.Error) *Error {
	if e == nil {
		return nil
	}
	return &Error{Scope: scope, Remote: true, AMQP: *e}
}

// dropWaiting lets go of every delivery that is not sent yet.
func (c *Conn) dropWaiting() {
	for _, s := range c.byLocal {
		if s != nil {
			s.dropWaiting()
		}
	}
}
