//go:build linux

package server

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// socketPair is two ends of a TCP connection.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// [1.5]: a probe is judged by what the peer's TCP has acknowledged, whether its program reads or not.
func TestUnacknowledged(t *testing.T) {
	a, b := socketPair(t)
	if _, err := b.Write(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); unacknowledged(b) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a living TCP doesn't acknowledge")
		}
	}
	// A peer that takes nothing any more: its window is closed, so that bytes stay here.
	d := newDirect(b)
	chunk := make([]byte, 1<<20)
	for i := 0; ; i++ {
		if d.write(chunk) == 0 {
			break
		}
		if i > 100 {
			t.Fatal("the socket takes everything")
		}
	}
	if unacknowledged(b) == 0 {
		t.Fatal("a full socket has nothing unacknowledged")
	}
	_ = a
}

// A direct write never waits, and what it takes arrives.
func TestDirectWrite(t *testing.T) {
	a, b := socketPair(t)
	d := newDirect(b)
	want := []byte("hello")
	if n := d.write(want); n != len(want) {
		t.Fatalf("%d of %d bytes", n, len(want))
	}
	got := make([]byte, len(want))
	if _, err := a.Read(got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q %v", got, err)
	}
	_ = b.Close()
	if n := d.write(want); n != 0 {
		t.Fatalf("%d bytes into a closed socket", n)
	}
}
