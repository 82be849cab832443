package websocket

import (
	"context"
	"fmt"
	"net"
	"net/http"

	coder "github.com/coder/websocket"
)

// maxResponse bounds the headers of a handshake's answer, in bytes.
const maxResponse = 16 << 10

// Connect makes the client's handshake on a connected socket, behind its TLS layer where it has one, until ctx ends. host is who is
// asked, with a port where it isn't the scheme's own; path begins with a slash. On an error, which wraps ErrHandshake, the socket is
// closed. It belongs to the Conn otherwise.
func Connect(ctx context.Context, socket net.Conn, host, path string) (*Conn, error) {
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return socket, nil },
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxResponse,
	}
	asker := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, _, err := coder.Dial(ctx, "ws://"+host+path, &coder.DialOptions{
		HTTPClient: asker, Subprotocols: []string{Subprotocol}, CompressionMode: coder.CompressionDisabled,
	})
	if err == nil && ws.Subprotocol() != Subprotocol {
		_ = ws.CloseNow()
		err = fmt.Errorf("the server doesn't speak the subprotocol %q", Subprotocol)
	}
	if err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("%w with %s: %w", ErrHandshake, host, err)
	}
	return newConn(socket, ws), nil
}
