package websocket

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	coder "github.com/coder/websocket"
)

const (
	// maxRequest bounds a handshake's request, in bytes: nobody is known yet who sends it.
	maxRequest = 8 << 10
	// buffered is the size of a connection's buffers, in bytes.
	buffered = 4 << 10
)

// Accept answers a client's handshake on a socket, whose deadlines bound it. origins are hosts, with a port where it isn't the
// scheme's own, or patterns such as *.example.org, whose web pages may connect, besides pages of the host that was asked for. An error
// was told to the client, and wraps ErrHandshake: close the socket then. It belongs to the Conn otherwise.
func Accept(socket net.Conn, origins []string) (*Conn, error) {
	limited := &io.LimitedReader{R: socket, N: maxRequest}
	in := bufio.NewReaderSize(limited, buffered)
	w := &answer{socket: socket, in: in, header: http.Header{}}
	r, err := http.ReadRequest(in)
	switch {
	case err != nil && limited.N <= 0:
		w.refuse(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the request is larger than %d bytes", maxRequest))
		return nil, fmt.Errorf("%w: the request is too large", ErrHandshake)
	case err != nil:
		w.refuse(http.StatusBadRequest, "this port speaks AMQP over WebSocket alone")
		return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	case !offers(r):
		w.refuse(http.StatusBadRequest, "the WebSocket subprotocol \""+Subprotocol+"\" is wanted")
		return nil, fmt.Errorf("%w: the client doesn't offer the subprotocol %q", ErrHandshake, Subprotocol)
	}
	ws, err := coder.Accept(w, r, &coder.AcceptOptions{Subprotocols: []string{Subprotocol}, OriginPatterns: origins, CompressionMode: coder.CompressionDisabled})
	if err != nil {
		w.send()
		return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return newConn(socket, ws), nil
}

// offers says whether a client names our subprotocol. A request that asks for no WebSocket at all is the library's to refuse.
func offers(r *http.Request) bool {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range bytes.SplitSeq([]byte(line), []byte{','}) {
			if string(bytes.TrimSpace(name)) == Subprotocol {
				return true
			}
		}
	}
	return r.Header.Get("Upgrade") == ""
}

// answer is the http.ResponseWriter and http.Hijacker of one request. A server of net/http would have connections, goroutines and
// deadlines of its own, past those that all of a node's sockets have.
type answer struct {
	socket net.Conn
	in     *bufio.Reader
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter; nothing is sent before Hijack or send.
func (w *answer) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }

// Hijack implements http.Hijacker: it sends the 101, and hands the socket over.
func (w *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	out := bufio.NewWriterSize(w.socket, buffered)
	_, _ = fmt.Fprintf(out, "HTTP/1.1 %d %s\r\n", w.status, http.StatusText(w.status))
	_ = w.header.Write(out)
	_, _ = out.WriteString("\r\n")
	if err := out.Flush(); err != nil {
		return nil, nil, err
	}
	return w.socket, bufio.NewReadWriter(w.in, out), nil
}

// refuse sends an answer of ours.
func (w *answer) refuse(status int, text string) {
	http.Error(w, text, status)
	w.send()
}

// send sends what was gathered; its errors would change nothing.
func (w *answer) send() {
	w.header.Set("Connection", "close")
	w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", w.status, http.StatusText(w.status))
	_ = w.header.Write(&b)
	_, _ = b.WriteString("\r\n")
	_, _ = b.Write(w.body.Bytes())
	_, _ = w.socket.Write(b.Bytes())
}
