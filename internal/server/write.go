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
		deadline := time.Now().Add(c.s.cfg.WriteTimeout)
		_ = c.nc.SetWriteDeadline(deadline)
		_, err := c.nc.Write(p.b[p.done:])
		c.written <- writeEnd{spare: p.b[:0], err: err}
	}
}
