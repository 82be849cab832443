package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/websocket"
)

func withWS(c *Config) { c.ListenWS = "127.0.0.1:0" }

// dialWS connects over WebSocket.
func (n *node) dialWS() *websocket.Conn {
	n.t.Helper()
	nc, err := net.Dial("tcp", n.s.AddrWS().String())
	if err != nil {
		n.t.Fatal(err)
	}
	return n.overWS(nc)
}

// dialWSS connects over WebSocket with TLS; cert and key may be empty.
func (n *node) dialWSS(ca *certstest.Authority, cert, key string) (*websocket.Conn, *tls.Conn) {
	n.t.Helper()
	cfg, err := certs.Client(ca.File, cert, key)
	if err != nil {
		n.t.Fatal(err)
	}
	nc, err := tls.Dial("tcp", n.s.AddrWSS().String(), cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.overWS(nc), nc
}

func (n *node) overWS(nc net.Conn) *websocket.Conn {
	n.t.Helper()
	n.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	ws, err := websocket.Connect(n.t.Context(), nc, nc.RemoteAddr().String(), "/")
	if err != nil {
		n.t.Fatal(err)
	}
	return ws
}

// TestOverWebSocket: what a client does over WebSocket is what it does over TCP: it sends, receives, and closes; the node ends the
// WebSocket in order.
func TestOverWebSocket(t *testing.T) {
	n := start(t, withWS)
	nc := n.dialWS()
	if err := login(t, nc, engine.Anonymous()); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, nc: nc, eng: engine.New(engine.Config{})}
	if err := c.eng.Open(*amqp.NewOpen("web")); err != nil {
		t.Fatal(err)
	}
	c.await(engine.Opened)
	s := c.begin()
	small, large := text("small"), text(strings.Repeat("m", 3<<20))
	snd := c.sender(s, "s", "q")
	for i, m := range [][]byte{small, large} {
		d, err := snd.Send(engine.Transfer{Tag: []byte{byte(i)}, Payload: [][]byte{m}})
		if err != nil {
			t.Fatal(err)
		}
		c.until("an answer", func() bool { return d.Settled })
	}
	c.receiver(s, "r", "q", 10)
	for _, want := range [][]byte{small, large} {
		d := c.await(engine.Received).Delivery
		if !bytes.HasSuffix(d.Payload, want) {
			t.Fatalf("%d bytes came, want %d", len(d.Payload), len(want))
		}
		d.Dispose(&amqp.Accepted{}, true)
	}
	if err := c.eng.Close(nil); err != nil {
		t.Fatal(err)
	}
	c.await(engine.Closed)
	if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("behind Close: %v", err)
	}
	n.stop()
}

// TestOpenOverWebSocket names no other nodes: it would be their listeners for TCP, at which such a client finds nobody.
func TestOpenOverWebSocket(t *testing.T) {
	n := start(t, withWS, withServers)
	for _, web := range []bool{false, true} {
		c := &client{t: t, eng: engine.New(engine.Config{})}
		if c.nc = n.dial(); web {
			c.nc = n.dialWS()
		}
		if err := c.eng.Open(*amqp.NewOpen("a")); err != nil {
			t.Fatal(err)
		}
		v, named := c.await(engine.Opened).Open.Properties.Lookup(string(amqp.PropFailoverServerList))
		if named == web {
			t.Errorf("web %t: failover-server-list %v", web, v)
		}
	}
}

// withServers has two other nodes.
func withServers(c *Config) {
	c.Frontend.Servers = func(secure bool) []frontend.Server {
		if secure {
			return nil
		}
		return []frontend.Server{{Host: "10.0.0.2", Port: 5672}, {Host: "10.0.0.3", Port: 5673}}
	}
}

// TestWebSocketWithTLS: who may log in, how it is bound to TLS, and the files that are read anew, are those of the listener with TLS.
func TestWebSocketWithTLS(t *testing.T) {
	n, ca := secured(t, newBook(t), withWS, func(c *Config) { c.ListenTLS, c.ListenWSS = "", "127.0.0.1:0" })
	keys, err := auth.NewScram(auth.ScramSHA256, "alice", "secret")
	if err != nil {
		t.Fatal(err)
	}
	ws, secure := n.dialWSS(ca, "", "")
	before := secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
	if err := login(t, ws, keys.BeginBound(certs.Binding(secure.ConnectionState()))); err != nil {
		t.Errorf("bound SCRAM: %v", err)
	}
	if err := login(t, n.dialWS(), keys.BeginBound([]byte("x"))); !errors.Is(err, engine.ErrMechanism) {
		t.Errorf("bound SCRAM without TLS: %v", err)
	}
	cert, key := ca.Issue("client", "app.example.org")
	ws, _ = n.dialWSS(ca, cert, key)
	if err := login(t, ws, engine.External("")); err != nil {
		t.Errorf("EXTERNAL: %v", err)
	}
	ca.Issue("server", "127.0.0.1")
	for end := time.Now().Add(patience); ; {
		_, secure := n.dialWSS(ca, "", "")
		if secure.ConnectionState().PeerCertificates[0].SerialNumber.String() != before {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the former certificate is still shown")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// TestSilentWebSocketPeers: the handshake has its time, and what comes behind it has its own; a peer that isn't opened counts as pending.
func TestSilentWebSocketPeers(t *testing.T) {
	n := start(t, withWS, func(c *Config) {
		c.TLSTimeout, c.SASLTimeout, c.OpenTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	})
	for _, hello := range []string{"", "GET / HTTP/1.1\r\nHost:", "AMQP\x00\x01\x00\x00"} {
		nc, err := net.Dial("tcp", n.s.AddrWS().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(nc, hello)
		n.waiting(1)
		if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
			t.Errorf("%q: %v", hello, err)
		}
		_ = nc.Close()
		n.waiting(0)
	}
	for _, hello := range []string{"", "AMQP\x00\x01\x00\x00"} {
		ws := n.dialWS()
		_, _ = ws.Write([]byte(hello))
		if _, err := io.Copy(io.Discard, ws); isTimeout(err) {
			t.Errorf("%q in the WebSocket: %v", hello, err)
		}
		n.waiting(0)
	}
}

// TestWebSocketOrigin: a web page of another host gets nothing, unless it is permitted.
func TestWebSocketOrigin(t *testing.T) {
	n := start(t, withWS, func(c *Config) { c.Origins = []string{"app.example.org"} })
	for origin, want := range map[string]string{"https://app.example.org": "HTTP/1.1 101", "https://other.example.org": "HTTP/1.1 403"} {
		nc, err := net.Dial("tcp", n.s.AddrWS().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: mq1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\nOrigin: "+origin+"\r\n\r\n")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(nc, got); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", origin, got, err)
		}
		_ = nc.Close()
	}
}
