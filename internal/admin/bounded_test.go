package admin

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestBoundedConnections: who comes when there is no room is hung up on, and let in
// when another has gone.
func TestBoundedConnections(t *testing.T) {
	s, err := Listen(Config{Addr: "127.0.0.1:0", Node: &fakeNode{}, MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(10 * time.Second))
		return c
	}
	idle := []net.Conn{dial(), dial()}
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Fatalf("a third caller got %d bytes", n)
	}
	idle[0].Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for end := time.Now().Add(10 * time.Second); ; {
		resp, err := client.Get("http://" + s.Addr().String() + "/livez")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no room after another has gone: %v", err)
		}
	}
}
