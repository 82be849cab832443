package websocket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// sockets are the two ends of one TCP connection.
func sockets(t testing.TB) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{client, server} {
		_ = c.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { _ = c.Close() })
	}
	return client, server
}

// pair are the two ends of one WebSocket.
func pair(t testing.TB) (client, server *Conn) {
	t.Helper()
	near, far := sockets(t)
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := Accept(far, nil)
		if err != nil {
			t.Errorf("Accept: %v", err)
		}
		accepted <- c
	}()
	client, err := Connect(t.Context(), near, "mq1:5670", "/")
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

// TestStream: bytes come as they were written, both ways, whatever the sizes of writes and reads; a proper close is their end.
func TestStream(t *testing.T) {
	client, server := pair(t)
	for _, ends := range [][2]*Conn{{client, server}, {server, client}} {
		ends[1].ws.SetReadLimit(maxMessage)
		var want []byte
		for i, n := range []int{1, 0, 8, maxMessage, maxMessage + 1, 300_000} {
			want = append(want, bytes.Repeat([]byte{byte('a' + i)}, n)...)
		}
		failed := make(chan error, 1)
		go func() {
			rest := want
			for _, n := range []int{1, 0, 8, maxMessage, maxMessage + 1, 300_000} {
				if k, err := ends[0].Write(rest[:n]); err != nil || k != n {
					failed <- errors.Join(err, errors.New("a short write"))
					return
				}
				rest = rest[n:]
			}
			failed <- nil
		}()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("other bytes came, %v", err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- client.CloseWrite() }()
	for range 2 {
		if n, err := server.Read(make([]byte, 9)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("behind the close: %d bytes, %v", n, err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestReadsAreBounded: one Read never waits for more than maxRead bytes, or a slow peer with a large message would seem silent.
func TestReadsAreBounded(t *testing.T) {
	client, server := pair(t)
	go func() { _, _ = client.Write(make([]byte, maxMessage)) }()
	if n, err := server.Read(make([]byte, maxMessage)); err != nil || n > maxRead {
		t.Errorf("%d bytes in one read, %v", n, err)
	}
}

// TestCutIsNoEnd: a socket that breaks isn't io.EOF of a stream, inside a message or between two.
func TestCutIsNoEnd(t *testing.T) {
	for _, header := range [][]byte{nil, {0x82, 0x85}, {0x82, 0x85, 1, 2, 3, 4, 9}} {
		client, server := pair(t)
		if _, err := client.Conn.Write(header); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		if _, err := io.Copy(io.Discard, server); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("% x, and the end: %v", header, err)
		}
	}
}

// TestDeadline: a deadline of the socket ends a read and a write, and says that it was the time.
func TestDeadline(t *testing.T) {
	client, _ := pair(t)
	_ = client.SetDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("read: %v", err)
	}
	client, _ = pair(t)
	_ = client.SetDeadline(time.Now().Add(20 * time.Millisecond))
	for err = nil; err == nil; _, err = client.Write(make([]byte, 1<<20)) {
	}
	if !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("write: %v", err)
	}
}

// TestText: a text message ends the connection, and the peer is told why.
func TestText(t *testing.T) {
	client, server := pair(t)
	told := make(chan error, 1)
	go func() {
		_ = client.ws.Write(context.Background(), coder.MessageText, []byte("AMQP"))
		_, _, err := client.ws.Reader(context.Background())
		told <- err
	}()
	if _, err := server.Read(make([]byte, 9)); !errors.Is(err, ErrText) {
		t.Errorf("error %v", err)
	}
	if err := <-told; coder.CloseStatus(err) != coder.StatusUnsupportedData {
		t.Errorf("the peer was told %v", err)
	}
}

// ask sends raw bytes and gives the status of the answer and Accept's error.
func ask(t *testing.T, request string, origins ...string) (int, error) {
	t.Helper()
	client, server := sockets(t)
	failed := make(chan error, 1)
	go func() {
		c, err := Accept(server, origins)
		if err != nil {
			_ = server.Close()
		} else if c == nil {
			err = errors.New("neither a Conn nor an error")
		}
		failed <- err
	}()
	if _, err := io.WriteString(client, request); err != nil {
		t.Fatal(err)
	}
	_ = client.(*net.TCPConn).CloseWrite()
	r, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		return 0, <-failed
	}
	_ = r.Body.Close()
	if r.StatusCode == http.StatusSwitchingProtocols && (r.Header.Get("Sec-WebSocket-Protocol") != Subprotocol || r.Header.Get("Sec-WebSocket-Extensions") != "") {
		t.Errorf("the answer has the headers %v", r.Header)
	}
	return r.StatusCode, <-failed
}

// TestHandshakes: who is let in, and what the others are told.
func TestHandshakes(t *testing.T) {
	request := func(lines ...string) string {
		return "GET /any HTTP/1.1\r\nHost: mq1:5670\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	good := append(upgrade, "Sec-WebSocket-Protocol: binary, AMQPWSB10, amqp", "Sec-WebSocket-Extensions: permessage-deflate")
	for _, test := range []struct {
		name, request string
		origins       []string
		status        int
	}{
		{"good", request(good...), nil, 101},
		{"of the host's own page", request(append(good, "Origin: http://mq1:5670")...), nil, 101},
		{"of another page", request(append(good, "Origin: https://evil.example.org")...), nil, 403},
		{"of another page among those permitted", request(append(good, "Origin: https://evil.example.org")...), []string{"*.example.net"}, 403},
		{"of a permitted page", request(append(good, "Origin: https://app.example.org")...), []string{"*.example.org"}, 101},
		{"of no page", request(append(good, "Origin: null")...), []string{"*.example.org"}, 403},
		{"another subprotocol", request(append(upgrade, "Sec-WebSocket-Protocol: mqtt, amqpx")...), nil, 400},
		{"no subprotocol", request(upgrade...), nil, 400},
		{"no WebSocket", request(), nil, 426},
		{"another version", request(append(good, "Sec-WebSocket-Version: 8")...), nil, 101}, // the first counts
		{"HTTP/1.0", strings.Replace(request(good...), "HTTP/1.1", "HTTP/1.0", 1), nil, 426},
		{"POST", strings.Replace(request(good...), "GET", "POST", 1), nil, 405},
		{"no key", request(append(upgrade[:3:3], "Sec-WebSocket-Protocol: amqp")...), nil, 400},
		{"AMQP", "AMQP\x00\x01\x00\x00AMQP\r\n\r\n", nil, 400},
		{"a header without an end", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", maxRequest), nil, 431},
		{"nothing", "", nil, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, err := ask(t, test.request, test.origins...)
			if status != test.status || (err == nil) != (test.status == 101) || err != nil && !errors.Is(err, ErrHandshake) {
				t.Errorf("status %d, error %v, want %d", status, err, test.status)
			}
		})
	}
}

// TestRefusedByServer: a client says who refused it, and leaves nothing behind.
func TestRefusedByServer(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
		"AMQP\x00\x01\x00\x00", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxResponse), "",
	} {
		client, server := sockets(t)
		go func() {
			_, _ = server.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(server, answer)
			_ = server.Close()
		}()
		_, err := Connect(t.Context(), client, "mq1:5670", "/")
		if !errors.Is(err, ErrHandshake) || !strings.Contains(err.Error(), "mq1:5670") {
			t.Errorf("%.40q: error %v", answer, err)
		}
		if strings.Contains(answer, "302") != strings.Contains(fmt.Sprint(err), "302") {
			t.Errorf("%.40q: error %v", answer, err)
		}
	}
	client, _ := sockets(t)
	if _, err := Connect(t.Context(), client, "mq 1", "/"); !errors.Is(err, ErrHandshake) {
		t.Errorf("no host: error %v", err)
	}
	if _, err := client.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("no host: the socket is still open, %v", err)
	}
}

// TestHostileFrames end the connection with an error, whatever is declared.
func TestHostileFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"unmasked":               {0x82, 0x01, 'x'},
		"reserved bit":           {0xC2, 0x81, 0, 0, 0, 0, 'x'},
		"reserved opcode":        {0x83, 0x81, 0, 0, 0, 0, 'x'},
		"continues nothing":      {0x80, 0x81, 0, 0, 0, 0, 'x'},
		"negative length":        {0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"long ping":              {0x89, 0xFE, 0x01, 0x00, 0, 0, 0, 0},
		"ping in pieces":         {0x09, 0x80, 0, 0, 0, 0},
		"close with a bad state": {0x88, 0x82, 0, 0, 0, 0, 0x00, 0x01},
		"a message in a message": {0x02, 0x80, 0, 0, 0, 0, 0x82, 0x80, 0, 0, 0, 0},
	} {
		client, server := pair(t)
		if _, err := client.Conn.Write(b); err != nil {
			t.Fatal(err)
		}
		if n, err := server.Read(make([]byte, 9)); err == nil || errors.Is(err, io.EOF) || n > 0 {
			t.Errorf("%s: %d bytes, error %v", name, n, err)
		}
	}
	// A length that nobody has allocates nothing: what is there is read.
	client, server := pair(t)
	if _, err := client.Conn.Write([]byte{0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 'x'}); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes of a long message, %v", n, err)
	}
}
