package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	coder "github.com/coder/websocket"
)

// Subprotocol is the name that both sides must agree on.
const Subprotocol = "amqp"

const (
	// maxRead bounds what one Read waits for: the library fills what it is given, or has a whole message, before it returns.
	maxRead = 16 << 10
	// maxMessage bounds the messages that are written, in bytes: some clients refuse larger ones than 32 or 64 KiB.
	maxMessage = 32 << 10
)

// ErrHandshake is wrapped by refusals of a handshake, on either side.
var ErrHandshake = errors.New("oncemq: WebSocket handshake")

// ErrText ends a connection whose peer sent a text message.
var ErrText = errors.New("oncemq: a WebSocket message that isn't binary")

// Conn is one end. Read by one goroutine and Write by another may run at once; deadlines, Close and CloseWrite may be called from
// any goroutine.
type Conn struct {
	net.Conn              // the socket: addresses, deadlines, Close, which says nothing to the peer
	ws        *coder.Conn // over the socket
	message   io.Reader   // of which Read gives the next bytes; nil: none is begun
	readError error
}

func newConn(socket net.Conn, ws *coder.Conn) *Conn {
	ws.SetReadLimit(-1) // of a message; nothing holds a whole one
	return &Conn{Conn: socket, ws: ws}
}

// Read gives bytes of binary messages. The peer's proper close of the WebSocket is io.EOF, the socket's end io.ErrUnexpectedEOF. An error is for good.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for c.readError == nil {
		if c.message == nil {
			if c.readError = c.next(); c.readError != nil {
				break
			}
		}
		n, err := c.message.Read(p[:min(len(p), maxRead)])
		if errors.Is(err, io.EOF) { // of the message; where it is the socket's, the next message tells
			c.message, err = nil, nil
		}
		c.readError = err
		if n > 0 {
			return n, nil
		}
	}
	return 0, c.readError
}

// next begins the next message.
func (c *Conn) next() error {
	kind, r, err := c.ws.Reader(context.Background())
	if status := coder.CloseStatus(err); status == coder.StatusNormalClosure || status == coder.StatusGoingAway || status == coder.StatusNoStatusRcvd {
		return io.EOF
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF // of the socket
	}
	if err != nil {
		return err
	}
	if kind != coder.MessageBinary {
		_ = c.SetDeadline(time.Now().Add(time.Second)) // of saying so
		_ = c.ws.Close(coder.StatusUnsupportedData, "AMQP goes in binary messages")
		return ErrText
	}
	c.message = r
	return nil
}

// Write sends b in one or more binary messages.
func (c *Conn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		piece := b[n:min(len(b), n+maxMessage)]
		if err = c.ws.Write(context.Background(), coder.MessageBinary, piece); err == nil {
			n += len(piece)
		}
	}
	return n, err
}

// CloseWrite says that nothing more comes, by a close frame, waits for the peer's as long as the socket's deadlines permit, 10 s at
// most, and closes the socket. What comes meanwhile is dropped.
func (c *Conn) CloseWrite() error {
	if err := c.ws.Close(coder.StatusNormalClosure, ""); err != nil {
		return fmt.Errorf("closing the WebSocket: %w", err)
	}
	return nil
}
