package server

import (
	"io"
	"time"
)

// write moves buffers from the loop to the socket, one write each. It ends when output is closed.
func (c *conn) write() {
	defer c.recovered("writer", func() { c.written <- writeEnd{err: io.ErrClosedPipe} })
	for b := range c.output {
		deadline := time.Now().Add(c.s.cfg.WriteTimeout)
		_ = c.nc.SetWriteDeadline(deadline)
		_, err := c.nc.Write(b)
		c.written <- writeEnd{spare: b[:0], err: err}
	}
}
