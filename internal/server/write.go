package server

import (
	"io"
	"time"
)

// pieces is a buffer of which the first done bytes are written.
type pieces struct {
	b    []byte
	done int
}

// write moves buffers from the loop to the socket, one write each, waiting for it. It ends when output is closed.
func (c *conn) write() {
	defer c.recovered("writer", func() { c.written <- writeEnd{err: io.ErrClosedPipe} })
	for p := range c.output {
		c.mayWrite(c.s.cfg.WriteTimeout)
		_, err := c.nc.Write(p.b[p.done:])
		c.written <- writeEnd{spare: p.b[:0], err: err}
	}
}

// mayWrite gives the next write its time, which ends with the linger of a connection that is over.
func (c *conn) mayWrite(d time.Duration) {
	c.lingering.Lock()
	defer c.lingering.Unlock()
	limit := time.Now().Add(d)
	if !c.limit.IsZero() && c.limit.Before(limit) {
		limit = c.limit
	}
	_ = c.nc.SetWriteDeadline(limit)
}

// linger bounds everything that is still to be read or written, a write that is about to begin included.
func (c *conn) linger(d time.Duration) {
	c.lingering.Lock()
	defer c.lingering.Unlock()
	c.limit = time.Now().Add(d)
	_ = c.nc.SetDeadline(c.limit)
}
