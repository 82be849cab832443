package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
)

// event is one call of the Handler.
type event struct {
	what string
	from uint64
	data string
}

// recorder is a Handler that hands every call to a channel.
type recorder struct{ events chan event }

func (r *recorder) Raft(from uint64, m []byte) { r.events <- event{"raft", from, string(m)} }
func (r *recorder) Records(from uint64, x Records) {
	r.events <- event{"records", from, fmt.Sprintf("%d %d %s", x.Term, x.Stream, x.Data)}
}

func (r *recorder) Note(from uint64, n Note) {
	r.events <- event{"note", from, fmt.Sprintf("%d %d", n.Kind, n.Index)}
}
func (r *recorder) PeerUp(p uint64)   { r.events <- event{"up", p, ""} }
func (r *recorder) PeerLost(p uint64) { r.events <- event{"lost", p, ""} }
func (r *recorder) PeerGone(p uint64, refused bool) {
	r.events <- event{"gone", p, fmt.Sprint(refused)}
}

func (r *recorder) Removed(p uint64) { r.events <- event{"removed", p, ""} }

// want waits for an event and skips others.
func (r *recorder) want(t *testing.T, want event) {
	t.Helper()
	timeout := time.After(5 * time.Second)
	for {
		select {
		case got := <-r.events:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("no %v", want)
		}
	}
}

type text string

func (s text) AppendTo(dst []byte) []byte { return append(dst, s...) }
func (s text) Size() int                  { return len(s) }

// node is a Network with its recorder, running until stop.
type node struct {
	*Network
	*recorder
	stop func()
}

func start(t *testing.T, stamp Stamp, ls map[uint64]net.Listener, change func(*Config)) *node {
	t.Helper()
	addrs := map[uint64]string{}
	for id, l := range ls {
		addrs[id] = l.Addr().String()
	}
	r := &recorder{events: make(chan event, 1000)}
	config := Config{Stamp: stamp, Addresses: addrs, Listener: ls[stamp.Node], Handler: r}
	if change != nil {
		change(&config)
	}
	n := New(config)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { n.Run(ctx) })
	stop := func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return &node{n, r, stop}
}

// listen listens on addr; on a free one if it is empty, outside of what the kernel gives to
// outgoing connections: a test may listen there again.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	if addr == "" {
		addrs, err := localcluster.FreeAddrs(1)
		if err != nil {
			t.Fatal(err)
		}
		addr = addrs[0]
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func stampOf(node uint64) Stamp {
	return Stamp{Cluster: [16]byte{7}, Node: node, Birth: [16]byte{byte(node)}, Voters: []uint64{1, 2}}
}

func pair(t *testing.T) (map[uint64]net.Listener, *node, *node) {
	ls := map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
	a, b := start(t, stampOf(1), ls, nil), start(t, stampOf(2), ls, nil)
	a.want(t, event{"up", 2, ""})
	b.want(t, event{"up", 1, ""})
	return ls, a, b
}

func TestSend(t *testing.T) {
	_, a, b := pair(t)
	if !a.SendRaft(2, true, text("heartbeat")) {
		t.Fatal("not connected")
	}
	b.want(t, event{"raft", 1, "heartbeat"})
	large := strings.Repeat("x", 1<<20)
	a.SendRaft(2, false, text(large))
	a.SendRecords(2, Records{Term: 3, Stream: 4, Data: []byte("body")})
	b.want(t, event{"raft", 1, large})
	b.want(t, event{"records", 1, "3 4 body"})
	b.SendNote(1, Note{Kind: NoteCut, Index: 99})
	a.want(t, event{"note", 2, "5 99"})
	if a.SendRaft(9, true, text("")) {
		t.Error("sent to a node that isn't there")
	}
}

// A process that is gone is told at once; a connection that was merely cut is not a death
// [3.8].
func TestGoneAndLost(t *testing.T) {
	ls, a, b := pair(t)
	a.mu.Lock()
	for conn := range a.accepted {
		conn.Close() // b's streams to a are cut
	}
	a.mu.Unlock()
	b.want(t, event{"lost", 1, ""})
	select {
	case got := <-b.events:
		if got.what != "up" {
			t.Fatalf("after a cut connection: %v", got)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no new streams")
	}
	a.stop()
	b.want(t, event{"gone", 1, "true"})
	if b.Connected(1) || b.SendRaft(1, true, text("x")) {
		t.Error("still connected")
	}
	ls[1] = listen(t, ls[1].Addr().String())
	again := start(t, stampOf(1), ls, nil)
	b.want(t, event{"up", 1, ""})
	again.want(t, event{"up", 2, ""})
}

// A full queue refuses and loses nothing that it took.
func TestFullQueue(t *testing.T) {
	q := newQueue(1000)
	if !q.put(item{kind: frameRaft, payload: text(strings.Repeat("x", 2000))}) {
		t.Fatal("one item always fits")
	}
	if q.put(item{kind: frameNote}) {
		t.Fatal("put into a full queue")
	}
	if items := q.take(nil); len(items) != 1 || !q.put(item{kind: frameNote}) {
		t.Fatal("the queue isn't empty after take")
	}
}

func TestRefusals(t *testing.T) {
	other := func(change func(*Stamp)) Stamp { s := stampOf(2); change(&s); return s }
	for name, tc := range map[string]struct {
		stamp Stamp
		want  string
	}{
		"cluster": {other(func(s *Stamp) { s.Cluster = [16]byte{8} }), "belongs to cluster"},
		"history": {other(func(s *Stamp) { s.History = 3 }), "history"},
		"voters":  {other(func(s *Stamp) { s.Cluster, s.Voters = [16]byte{}, []uint64{2} }), "same --peers"},
	} {
		t.Run(name, func(t *testing.T) {
			ls := map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
			var mu sync.Mutex
			var said [3]bytes.Buffer
			logTo := func(i int) func(*Config) {
				return func(c *Config) {
					c.Logger = slog.New(slog.NewTextHandler(&lockedWriter{&mu, &said[i]}, nil))
				}
			}
			a := start(t, stampOf(1), ls, logTo(1))
			b := start(t, tc.stamp, ls, logTo(2))
			_, err := b.Ask(t.Context(), 1)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("answer %v, want a refusal with %q", err, tc.want)
			}
			waitFor(t, func() bool { // both sides log it
				mu.Lock()
				defer mu.Unlock()
				return strings.Contains(said[1].String(), tc.want) && strings.Contains(said[2].String(), tc.want)
			})
			if a.Connected(2) || b.Connected(1) {
				t.Error("connected")
			}
		})
	}
}

// Nodes with an empty directory answer the bootstrap question and open streams once both
// know their cluster [8.2].
func TestAskBeforeFounding(t *testing.T) {
	ls := map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
	empty := func(node uint64) Stamp { s := stampOf(node); s.Cluster = [16]byte{}; return s }
	a, b := start(t, empty(1), ls, nil), start(t, empty(2), ls, nil)
	got, err := a.Ask(t.Context(), 2)
	if err != nil || got.Node != 2 || got.Birth != stampOf(2).Birth || got.Cluster != [16]byte{} {
		t.Fatalf("answer %+v, %v", got, err)
	}
	a.SetStamp(stampOf(1))
	b.SetStamp(stampOf(2))
	a.want(t, event{"up", 2, ""})
	b.want(t, event{"up", 1, ""})
}

// A stranger's bytes end its own connection only.
func TestStranger(t *testing.T) {
	ls, a, b := pair(t)
	for _, junk := range []string{"GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff\xff\xff\xff\xff", ""} {
		conn, err := net.Dial("tcp", ls[2].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(junk))
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("answer to %q: %d bytes, %v", junk, n, err)
		}
		conn.Close()
	}
	a.SendRaft(2, true, text("still here"))
	b.want(t, event{"raft", 1, "still here"})
}

func FuzzFrame(f *testing.F) {
	for _, it := range []item{
		{kind: frameRaft, payload: text("message")},
		{kind: frameRecords, records: Records{Term: 1, Stream: 300, Data: []byte("r")}},
		{kind: frameNote, note: Note{Kind: NoteClock, Clock: -5, Nonce: [16]byte{1}}},
	} {
		f.Add(it.appendTo(nil))
	}
	h := hello{version: Version, purpose: purposeBulk, to: 2, stamp: stampOf(1)}
	f.Add(h.appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := decodeHello(data); err == nil && h.version == Version {
			again, err := decodeHello(h.appendTo(nil))
			if err != nil || fmt.Sprint(again) != fmt.Sprint(h) {
				t.Fatalf("hello %v, again %v, %v", h, again, err)
			}
		}
		r := bufio.NewReader(bytes.NewReader(data))
		var buf []byte
		for {
			kind, body, grown, err := readFrame(r, buf, maxBody)
			if err != nil {
				return
			}
			buf = grown
			if x, err := decodeRecords(body); kind == frameRecords && err == nil {
				if y, err := decodeRecords(appendRecords(nil, x)); err != nil || fmt.Sprint(x) != fmt.Sprint(y) {
					t.Fatalf("records %v, again %v, %v", x, y, err)
				}
			}
			if x, err := decodeNote(body); kind == frameNote && err == nil {
				if y, err := decodeNote(appendNote(nil, x)); err != nil || !reflect.DeepEqual(x, y) {
					t.Fatalf("note %v, again %v, %v", x, y, err)
				}
			}
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("the condition didn't come")
		}
		<-time.After(time.Millisecond)
	}
}
