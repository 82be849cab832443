package engine

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Open sends our Open; it answers the peer's or precedes it. MaxFrameSize, ChannelMax, IdleTimeout and an empty ContainerID are filled in
// from the Config. What Held kept back may be handed to Input now.
func (c *Conn) Open(o amqp.Open) error {
	if c.closeOut {
		return ErrClosed
	}
	if c.openOut {
		return nil
	}
	c.sendOpen(&o)
	return nil
}

func (c *Conn) sendOpen(o *amqp.Open) {
	if o.ContainerID == "" {
		o.ContainerID = c.cfg.ContainerID
	}
	o.MaxFrameSize, o.ChannelMax = c.cfg.MaxFrameSize, c.cfg.ChannelMax
	if c.cfg.IdleTimeout > 0 {
		o.IdleTimeout = amqp.Some(uint32(max(c.cfg.IdleTimeout.Milliseconds()/2, 1)))
	}
	c.openOut = true
	c.append(0, o)
}

// peerOpen takes the peer's Open. Before ours is sent a refusal needs an Open of its own, which fail makes.
func (c *Conn) peerOpen(o *amqp.Open) {
	c.openIn = o
	if o.MaxFrameSize < amqp.MinMaxFrameSize {
		c.fail(amqp.ErrCondInvalidField, "max-frame-size is below 512")
		return
	}
	if idle := time.Duration(o.IdleTimeout.V) * time.Millisecond; o.IdleTimeout.Set && idle > 0 {
		if idle < minIdleTimeout {
			c.fail(amqp.ErrCondInvalidField, "idle-time-out is below 20 ms, which can't be served")
			return
		}
		c.peerIdle = idle
	}
	c.maxOut = min(o.MaxFrameSize, c.cfg.MaxFrameSize)
	c.peerChannelMax = o.ChannelMax
	c.setLimit(c.cfg.MaxFrameSize)
	c.emit(Opened).Open = o
}
