package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
)

// family is the certificates of nodes of one cluster.
type family struct {
	t     *testing.T
	first certs.Directory
	ca    *certs.Authority
}

func newFamily(t *testing.T) *family {
	t.Helper()
	d := certs.Directory(filepath.Join(t.TempDir(), "pki"))
	if err := d.Found(certs.Identity{Cluster: [16]byte{7}, Node: 1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ca, err := d.Authority()
	if err != nil {
		t.Fatal(err)
	}
	return &family{t, d, ca}
}

// node is the certificates of a node of cluster 7.
func (f *family) node(id uint64) *certs.Peers {
	f.t.Helper()
	d := certs.Directory(filepath.Join(f.t.TempDir(), "pki"))
	who := certs.Identity{Cluster: [16]byte{7}, Node: id}
	key, err := d.Key()
	if err != nil {
		f.t.Fatal(err)
	}
	der, err := f.ca.Sign(&key.PublicKey, who, time.Now())
	if err == nil {
		err = d.Install(f.ca.Certificate(), f.ca.Key(), der)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := certs.NewPeers(d, who, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// secured starts a node with its certificate.
func (f *family) secured(id uint64, ls map[uint64]net.Listener, change func(*Config)) *node {
	f.t.Helper()
	return start(f.t, stampOf(id), ls, func(c *Config) {
		c.Security = f.node(id)
		c.Logger = slog.New(slog.DiscardHandler)
		if change != nil {
			change(c)
		}
	})
}

func twoListeners(t *testing.T) map[uint64]net.Listener {
	return map[uint64]net.Listener{1: listen(t, ""), 2: listen(t, "")}
}

// TestSecure: all that nodes say goes through TLS, a loss and a death are told as without it.
func TestSecure(t *testing.T) {
	f := newFamily(t)
	ls := twoListeners(t)
	var seen wiretap
	ls[2] = &tapped{ls[2], &seen}
	a, b := f.secured(1, ls, nil), f.secured(2, ls, nil)
	a.want(t, event{"up", 2, ""})
	b.want(t, event{"up", 1, ""})
	large := strings.Repeat("a message of a client ", 50_000)
	a.SendRaft(2, true, text("a secret heartbeat"))
	a.SendRaft(2, false, text(large))
	b.want(t, event{"raft", 1, "a secret heartbeat"})
	b.want(t, event{"raft", 1, large})
	for _, clear := range []string{"a secret heartbeat", "a message of a client", helloMagic} {
		if seen.has(clear) {
			t.Errorf("%q went over the network in plaintext", clear)
		}
	}
	a.mu.Lock()
	for conn := range a.accepted {
		conn.Close()
	}
	a.mu.Unlock()
	b.want(t, event{"lost", 1, ""})
	b.want(t, event{"up", 1, ""})
	a.stop()
	b.want(t, event{"gone", 1, "true"})
}

// wiretap has the bytes that came over a listener's connections.
type wiretap struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *wiretap) has(s string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.all.Bytes(), []byte(s))
}

type tapped struct {
	net.Listener
	to *wiretap
}

func (l *tapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &tappedConn{c, l.to}, err
}

type tappedConn struct {
	net.Conn
	to *wiretap
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.mu.Lock()
	c.to.all.Write(b[:n])
	c.to.mu.Unlock()
	return n, err
}

// TestCertificateOfAnotherNode: node 3 can't speak as node 2, nor a node without a certificate, nor one of another authority.
func TestCertificateOfAnotherNode(t *testing.T) {
	f, other := newFamily(t), newFamily(t)
	for name, security := range map[string]Security{"another node's": f.node(3), "another authority's": other.node(2), "none": nil} {
		t.Run(name, func(t *testing.T) {
			ls := twoListeners(t)
			a := f.secured(1, ls, nil)
			b := start(t, stampOf(2), ls, func(c *Config) {
				c.Security, c.Logger = security, slog.New(slog.DiscardHandler)
			})
			if _, err := b.Ask(t.Context(), 1); err == nil {
				t.Error("node 1 has let it in as node 2")
			} else if security != nil && name != "another node's" && !errors.Is(err, ErrRefused) {
				t.Errorf("%v: only people can mend that", err)
			}
			if _, err := a.Ask(t.Context(), 2); err == nil {
				t.Error("node 1 takes it for node 2")
			} else if security != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("%v: only people can mend that", err)
			}
			a.stop()
			for {
				select {
				case e := <-a.events:
					if e.what != "gone" {
						t.Errorf("node 1 heard %v", e)
					}
					continue
				default:
				}
				break
			}
		})
	}
}

// joiner is a Joiner that answers as a test says.
type joiner func(JoinRequest) (JoinAnswer, error)

func (j joiner) Join(_ context.Context, st tls.ConnectionState, r JoinRequest) (JoinAnswer, error) {
	if certs.KeyFingerprint(st) == [32]byte{} {
		return JoinAnswer{}, errors.New("no key was shown")
	}
	return j(r)
}

// joining starts a node with a Joiner, and gives what a new node dials it with.
func joining(t *testing.T, j joiner) (n *node, address string, secure *tls.Config) {
	t.Helper()
	f := newFamily(t)
	ls := twoListeners(t)
	n = f.secured(1, ls, func(c *Config) { c.Joiner = j })
	key, err := certs.Directory(t.TempDir()).Key()
	if err != nil {
		t.Fatal(err)
	}
	secure, err = certs.Join(certs.Fingerprint(f.ca.Certificate()), key)
	if err != nil {
		t.Fatal(err)
	}
	return n, ls[1].Addr().String(), secure
}

var goodAnswer = JoinAnswer{Node: 4, Cluster: make([]byte, 16), Voters: []uint64{1}}

// TestJoinExchange: each answer arrives as what it is.
func TestJoinExchange(t *testing.T) {
	for name, tc := range map[string]struct {
		answer JoinAnswer
		err    error
		want   error
		says   string
	}{
		"admitted":     {answer: goodAnswer},
		"refused":      {err: errors.New("used"), want: ErrRefused, says: "used"},
		"later":        {err: fmt.Errorf("%w: no majority", ErrLater), want: ErrLater, says: "no majority"},
		"half an id":   {answer: JoinAnswer{Node: 4, Cluster: make([]byte, 15), Voters: []uint64{1}}, want: ErrFrame},
		"without node": {answer: JoinAnswer{Cluster: make([]byte, 16), Voters: []uint64{1}}, want: ErrFrame},
		"no voters":    {answer: JoinAnswer{Node: 4, Cluster: make([]byte, 16)}, want: ErrFrame},
	} {
		_, address, secure := joining(t, func(r JoinRequest) (JoinAnswer, error) {
			if string(r.Secret) != "s" || r.Name != "n" || r.Peer != "p" {
				t.Errorf("%s: request %+v", name, r)
			}
			return tc.answer, tc.err
		})
		got, err := Join(t.Context(), address, secure, JoinRequest{Secret: []byte("s"), Name: "n", Peer: "p"})
		if !errors.Is(err, tc.want) || tc.want == nil && (err != nil || got.Node != 4) || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestHostileJoinFrames: bytes that are no request end their connection, and nothing of them reaches the Joiner.
func TestHostileJoinFrames(t *testing.T) {
	var asked atomic.Int32
	_, address, secure := joining(t, func(JoinRequest) (JoinAnswer, error) { asked.Add(1); return goodAnswer, nil })
	frame := func(kind byte, body string) []byte {
		b := append(beginFrame(nil, kind), body...)
		endFrame(b, 0)
		return b
	}
	flipped := frame(frameJoin, `{"peer":"x"}`)
	flipped[len(flipped)-3] ^= 1
	for name, b := range map[string][]byte{
		"another kind": frame(frameHello, helloMagic), "raft": frame(frameRaft, "x"), "no JSON": frame(frameJoin, "{"), "a flipped bit": flipped,
		"too long": frame(frameJoin, strings.Repeat(" ", maxJoin+1)), "a list": frame(frameJoin, "[]"), "a long length": {0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, frameJoin, 0, 0, 0},
	} {
		conn, err := tls.Dial("tcp", address, secure)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		conn.Write(b)
		kind, _, _, err := readFrame(bufio.NewReader(conn), nil, maxAdmitted)
		if err == nil {
			t.Errorf("%s: answered with kind %d", name, kind)
		}
		conn.Close()
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the Joiner was asked %d times", n)
	}
}

// TestFlood: who only connects, or joins by the dozen, keeps no node from speaking to others.
func TestFlood(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	var inside atomic.Int32
	f := newFamily(t)
	ls := twoListeners(t)
	far := &farListener{Listener: ls[1]}
	ls[1] = far
	a := f.secured(1, ls, func(c *Config) {
		c.Joiner = joiner(func(JoinRequest) (JoinAnswer, error) { inside.Add(1); <-hold; return goodAnswer, nil })
	})
	for range 2 * maxStrangers {
		conn, err := net.Dial("tcp", far.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	key, err := certs.Directory(t.TempDir()).Key()
	if err != nil {
		t.Fatal(err)
	}
	secure, err := certs.Join(certs.Fingerprint(f.ca.Certificate()), key)
	if err != nil {
		t.Fatal(err)
	}
	far.near.Store(true) // the others come from other addresses
	ctx, cancel := context.WithCancel(t.Context())
	var joins sync.WaitGroup
	defer joins.Wait()
	defer cancel()
	for range maxJoins {
		joins.Go(func() { _, _ = Join(ctx, far.Addr().String(), secure, JoinRequest{}) })
	}
	waitFor(t, func() bool { return inside.Load() == maxJoins })
	if _, err := Join(ctx, far.Addr().String(), secure, JoinRequest{}); !errors.Is(err, ErrLater) {
		t.Errorf("one join more: %v", err)
	}
	b := f.secured(2, ls, nil)
	a.want(t, event{"up", 2, ""})
	b.want(t, event{"up", 1, ""})
}

// farListener gives connections from one address elsewhere until near is set.
type farListener struct {
	net.Listener
	near atomic.Bool
}

func (l *farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil && !l.near.Load() {
		c = farConn{c}
	}
	return c, err
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 1} }

// FuzzJoinRequest: no bytes in a request's frame make the decoder panic.
func FuzzJoinRequest(f *testing.F) {
	f.Add([]byte(`{"secret":"AAAA","name":"n","peer":"p"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(beginFrame(nil, frameJoin), body...)
		endFrame(b, 0)
		kind, got, _, err := readFrame(bufio.NewReader(bytes.NewReader(b)), nil, maxJoin)
		if err == nil && (kind != frameJoin || !bytes.Equal(got, body)) {
			t.Errorf("kind %d", kind)
		}
		if err == nil {
			_, _ = decodeJoin(kind, got)
		}
	})
}
