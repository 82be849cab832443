package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// shelf is a Source of files in memory.
type shelf struct {
	id    [16]byte
	files [][]byte
	open  atomic.Int64
}

type shelved struct {
	*bytes.Reader
	of *shelf
}

func (s *shelved) Close() error { s.of.open.Add(-1); return nil }

func (s *shelf) OpenFetch(id [16]byte, file uint64, offset int64) (io.ReadCloser, error) {
	if id != s.id || file >= uint64(len(s.files)) || offset > int64(len(s.files[file])) {
		return nil, errors.New("there is no such thing")
	}
	s.open.Add(1)
	return &shelved{bytes.NewReader(s.files[file][offset:]), s}, nil
}

// OpenQuery answers with the question, twice, and who put it.
func (s *shelf) OpenQuery(from uint64, question []byte) (io.ReadCloser, error) {
	if len(question) == 0 {
		return nil, errors.New("nothing was asked")
	}
	s.open.Add(1)
	return &shelved{bytes.NewReader(append(append(bytes.Clone(question), question...), byte(from))), s}, nil
}

func newShelf() *shelf {
	s := &shelf{id: [16]byte{42}}
	for _, n := range []int{0, 1, chunkBytes, 5*chunkBytes + 17} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7 >> 3)
		}
		s.files = append(s.files, b)
	}
	return s
}

// fetchPair is two nodes, the second of which offers a shelf. dial, where given, dials for the first.
func fetchPair(t *testing.T, dial func(ctx context.Context, address string) (net.Conn, error)) (*node, *shelf) {
	t.Helper()
	s := newShelf()
	ls := map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
	a := start(t, stampOf(1), ls, func(c *Config) { c.Dial = dial })
	start(t, stampOf(2), ls, func(c *Config) { c.Source = s })
	return a, s
}

func TestFetch(t *testing.T) {
	a, s := fetchPair(t, nil)
	f, err := a.Fetch(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range s.files {
		for _, offset := range []int{0, len(want) / 2, len(want)} {
			var got []byte
			if err := f.Get(s.id, uint64(i), int64(offset), func(b []byte) error { got = append(got, b...); return nil }); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[offset:]) {
				t.Errorf("file %d from %d: %d bytes, want %d", i, offset, len(got), len(want)-offset)
			}
		}
	}
	// A no is told, and the connection goes on.
	for _, c := range []struct {
		id           [16]byte
		file, offset int64
	}{{[16]byte{1}, 0, 0}, {s.id, 99, 0}, {s.id, 1, 2}} {
		err := f.Get(c.id, uint64(c.file), c.offset, func([]byte) error { return nil })
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if _, err := a.Fetch(t.Context(), 7); err == nil {
		t.Error("fetched from a node that there isn't")
	}
}

// breaking is a connection that is cut after so many bytes were read.
type breaking struct {
	net.Conn
	left int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.Close()
		return 0, net.ErrClosed
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestFetchResumes: a fetch that is cut within each chunk, and between two, goes on where it was (faults 76).
func TestFetchResumes(t *testing.T) {
	for _, cut := range []int{90, 1000, chunkBytes, chunkBytes + frameHeaderBytes + 90, 3*chunkBytes + 5} {
		var left atomic.Int64
		left.Store(int64(cut))
		var dialer net.Dialer
		a, s := fetchPair(t, func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return nil, err
			}
			// Each connection lives a little longer, so that it gets over the handshake in the end.
			return &breaking{conn, int(left.Add(chunkBytes/3)) - chunkBytes/3}, nil
		})
		want := s.files[3]
		var got []byte
		breaks := 0
		for done := false; !done; {
			f, err := a.Fetch(t.Context(), 2)
			if err == nil {
				err = f.Get(s.id, 3, int64(len(got)), func(b []byte) error { got = append(got, b...); return nil })
				f.Close()
			}
			if done = err == nil; !done {
				if breaks++; breaks > 100 {
					t.Fatalf("cut at %d: %v", cut, err)
				}
			}
		}
		if !bytes.Equal(got, want) || breaks == 0 {
			t.Errorf("cut at %d: %d bytes of %d, %d breaks", cut, len(got), len(want), breaks)
		}
	}
}

// TestFetchIsBounded: no more than so many are served at once; the others are told.
func TestFetchIsBounded(t *testing.T) {
	a, s := fetchPair(t, nil)
	var open []*Fetching
	for range maxFetches {
		f, err := a.Fetch(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Get(s.id, 1, 0, func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	f, err := a.Fetch(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Get(s.id, 1, 0, func([]byte) error { return nil }); !errors.Is(err, ErrRefused) && !isReset(err) {
		t.Errorf("one more: %v", err)
	}
	f.Close()
	// Who takes nothing any more doesn't keep what was opened for him.
	failed := errors.New("the disk is full")
	if err := open[0].Get(s.id, 3, 0, func([]byte) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); s.open.Load() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are open", s.open.Load())
		}
	}
	for _, f := range open {
		f.Close()
	}
}

// isReset: the refusal may be lost where the request came behind the other side's close.
func isReset(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "reset") || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "broken pipe"))
}

// TestBucket: bytes pass at the rate, after a pause no more than a short burst.
func TestBucket(t *testing.T) {
	b := bucket{rate: 1 << 20}
	now := time.Unix(1000, 0)
	var waited time.Duration
	for range 100 {
		if pause := b.take(64<<10, now); pause > 0 {
			waited += pause
			now = now.Add(pause)
		}
	}
	if want := 100*(64<<10)*time.Second/(1<<20) - burst; waited < want-time.Millisecond || waited > want+time.Millisecond {
		t.Errorf("6.25 MiB at 1 MiB/s took %v, want %v", waited, want)
	}
	now = now.Add(time.Hour)
	if pause := b.take(1<<20, now); pause != time.Second-burst {
		t.Errorf("after a pause 1 MiB waits for %v", pause)
	}
}

// TestFetchRate: what is sent is held back.
func TestFetchRate(t *testing.T) {
	s := newShelf()
	ls := map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
	a := start(t, stampOf(1), ls, nil)
	const rate = 2 << 20
	start(t, stampOf(2), ls, func(c *Config) { c.Source, c.FetchBytes = s, rate })
	f, err := a.Fetch(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	began := time.Now()
	if err := f.Get(s.id, 3, 0, func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if took, want := time.Since(began), time.Duration(len(s.files[3]))*time.Second/rate-burst; took < want {
		t.Errorf("%d bytes at %d a second took %v, want %v", len(s.files[3]), rate, took, want)
	}
}

// FuzzFetch: whatever the other side sends for an answer or for a request, it ends, and no more memory is taken than a frame's.
func FuzzFetch(f *testing.F) {
	var answer []byte
	for _, body := range []string{"some bytes", ""} {
		frame := append(beginFrame(nil, frameChunk), body...)
		endFrame(frame, 0)
		answer = append(answer, frame...)
	}
	request := fetchRequest{[16]byte{42}, 3, 100}
	f.Add(answer)
	f.Add(append(beginFrame(nil, frameFetch), request.appendTo(nil)...))
	f.Add(request.appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		go func() {
			readFrame(bufio.NewReader(server), nil, maxRequest)
			server.Write(data)
			server.Close()
		}()
		got := 0
		fetching := Fetching{conn: client, r: bufio.NewReader(client), stop: func() bool { return true }}
		fetching.Get([16]byte{1}, 1, 0, func(b []byte) error { got += len(b); return nil })
		fetching.Close()
		if got > len(data) || cap(fetching.buf) > 2*chunkBytes {
			t.Errorf("%d bytes of %d, a buffer of %d", got, len(data), cap(fetching.buf))
		}
		if r, err := decodeFetchRequest(data); err == nil {
			again, err := decodeFetchRequest(r.appendTo(nil))
			if err != nil || again != r {
				t.Errorf("%+v, again %+v, %v", r, again, err)
			}
		}
	})
}
