package cluster

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// through is a connection through a proxy, and its far end.
func through(t *testing.T) (p *Proxy, near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p = NewProxy(t, l.Addr().String())
	if near, err = net.Dial("tcp", p.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	for _, c := range []net.Conn{near, far} {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return p, near, far
}

func put(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestJamDeliversLate: one way is held, the other passes, and what was held arrives
// although its sender has gone.
func TestJamDeliversLate(t *testing.T) {
	p, near, far := through(t)
	p.Set(true, Conditions{Jam: true})
	put(t, near, []byte("late"))
	put(t, far, []byte("back"))
	if got := get(t, near, 4); string(got) != "back" {
		t.Fatalf("the other way brought %q", got)
	}
	_ = far.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := far.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes came through a jam", n)
	}
	_ = near.(*net.TCPConn).CloseWrite()
	_ = far.SetReadDeadline(time.Now().Add(20 * time.Second))
	p.Set(true, Conditions{})
	if got := get(t, far, 4); string(got) != "late" {
		t.Fatalf("after the jam: %q", got)
	}
}

func TestDelay(t *testing.T) {
	p, near, far := through(t)
	const delay = 80 * time.Millisecond
	p.Set(true, Conditions{Delay: delay})
	begun := time.Now()
	put(t, near, []byte("x"))
	get(t, far, 1)
	if took := time.Since(begun); took < delay {
		t.Errorf("came after %v, want %v at least", took, delay)
	}
}

// TestRate: two connections share it, and the other direction has none.
func TestRate(t *testing.T) {
	p, near, far := through(t)
	const rate, size = 100_000, 20_000
	p.Set(true, Conditions{Rate: rate})
	begun := time.Now()
	put(t, near, make([]byte, size))
	get(t, far, size)
	if took, want := time.Since(begun), size*time.Second/rate; took < want {
		t.Errorf("%d bytes came after %v, want %v at least", size, took, want)
	}
	p.Set(true, Conditions{})
	put(t, near, make([]byte, 100*size))
	get(t, far, 100*size)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("%d bytes without a limit came after %v", 100*size, took)
	}
}

// TestFlip: exactly one bit, once, of a long piece.
func TestFlip(t *testing.T) {
	p, near, far := through(t)
	p.Set(true, Conditions{Flip: true})
	long := bytes.Repeat([]byte{0}, flipFrom)
	put(t, near, []byte("short"))
	if got := get(t, far, 5); string(got) != "short" || p.Flipped(true) {
		t.Fatalf("a short piece: %q", got)
	}
	put(t, near, long)
	got, changed := get(t, far, len(long)), 0
	for _, b := range got {
		if b != 0 {
			changed++
		}
	}
	if changed != 1 || !p.Flipped(true) {
		t.Errorf("%d bytes changed, flipped %v", changed, p.Flipped(true))
	}
	put(t, near, long)
	if got := get(t, far, len(long)); !bytes.Equal(got, long) {
		t.Error("a second piece was changed")
	}
}

func TestRefuse(t *testing.T) {
	p, near, far := through(t)
	p.Refuse(true)
	for _, c := range []net.Conn{near, far} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("not cut")
		}
	}
	again, err := net.Dial("tcp", p.Addr)
	if err == nil {
		_ = again.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := again.Read(make([]byte, 1)); err == nil {
			t.Error("a newcomer was let in")
		}
		_ = again.Close()
	}
}

// TestWaiting: what a jam holds is counted until it has passed, or its connection ends.
func TestWaiting(t *testing.T) {
	p, near, far := through(t)
	if p.Came() != 1 {
		t.Errorf("%d connections came, want 1", p.Came())
	}
	settles := func(want int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); p.Waiting(true) != want; {
			if time.Now().After(end) {
				t.Fatalf("%d bytes wait, want %d", p.Waiting(true), want)
			}
			runtime.Gosched()
		}
	}
	for _, end := range []func(){
		func() { p.Set(true, Conditions{}); get(t, far, 3*pieceSize) },
		func() { p.Cut() },
	} {
		p.Set(true, Conditions{Jam: true})
		put(t, near, make([]byte, 3*pieceSize))
		settles(3 * pieceSize)
		if p.Waiting(false) != 0 {
			t.Errorf("%d bytes wait on the way back", p.Waiting(false))
		}
		end()
		settles(0)
	}
}
