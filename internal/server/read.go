package server

import (
	"io"

	"github.com/oncemq/oncemq/internal/amqp"
)

// The sizes of a connection's read buffer. It grows while frames don't fit or the socket fills it.
const (
	readStart = 4 << 10
	readBusy  = 64 << 10
	readMax   = amqp.DefaultMaxFrameSize
)

// read moves bytes from the socket to the loop, one chunk at a time: the frontend aliases it until it says how much it has
// consumed. rest came with the SASL layer's bytes.
func (c *conn) read(rest []byte) {
	defer c.recovered("reader", func() { c.end(io.ErrUnexpectedEOF) })
	buf := make([]byte, max(readStart, len(rest)))
	n := copy(buf, rest)
	fresh := n > 0 // there are bytes that the loop hasn't seen
	for {
		if fresh {
			c.input <- chunk{b: buf[:n]}
			eaten := <-c.eaten
			if eaten < 0 {
				return
			}
			full := n == len(buf)
			n = copy(buf, buf[eaten:n])
			if full && (len(buf) < readBusy || n > 0 && eaten == 0 && len(buf) < readMax) {
				buf = append(make([]byte, 0, 2*len(buf)), buf[:n]...)
				buf = buf[:cap(buf)]
			} else if n == len(buf) {
				// A whole frame always fits: the engine refuses larger ones by their first bytes.
				c.end(io.ErrShortBuffer)
				return
			}
		}
		k, err := c.nc.Read(buf[n:])
		n += k
		fresh = k > 0
		if err != nil {
			if fresh {
				c.input <- chunk{b: buf[:n]}
				if <-c.eaten < 0 {
					return
				}
			}
			c.end(err)
			return
		}
	}
}

// end tells the loop that nothing more comes.
func (c *conn) end(err error) { c.input <- chunk{err: err} }
