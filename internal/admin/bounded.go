package admin

import (
	"net"
	"sync"
)

// bounded is a listener that hangs up on who comes when there is no room: idle callers
// must not take the descriptors that the log needs.
type bounded struct {
	net.Listener
	room chan struct{} // holds one value for each connection
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.room <- struct{}{}:
			return &counted{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
		default:
			c.Close()
		}
	}
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
