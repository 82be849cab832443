package oncemq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/websocket"
)

// bubble runs f with a client of a node under synctest, which fails if a goroutine is left.
func bubble(t *testing.T, cfg Config, f func(t *testing.T, n *node, c *Client)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		cfg := cfg
		cfg.DialContext = n.dial
		c, err := Dial(t.Context(), "amqp://a,b,c", &cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(t, n, c)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		n.kill()
		n.wg.Wait()
	})
}

// opened is a session with a sender to "out" and a receiver from "in".
func opened(t *testing.T, c *Client, opts *SessionOptions) (*Session, *Sender, *Receiver) {
	t.Helper()
	s, err := c.OpenSession(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.NewSender(t.Context(), "out", nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.NewReceiver(t.Context(), "in", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, out, in
}

func (n *node) put(queue string, bodies ...string) {
	n.set(func() {
		for _, b := range bodies {
			p, _ := NewMessage([]byte(b)).encode()
			n.queues[queue] = append(n.queues[queue], p)
		}
	})
}

func TestSendReceive(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, in := opened(t, c, nil)
		if err := out.Send(t.Context(), NewMessage([]byte("hello"))); err != nil {
			t.Fatal(err)
		}
		if n.depth("out") != 1 {
			t.Error("not stored")
		}
		n.put("in", "m1", "m2", "m3")
		d, err := in.Receive(t.Context())
		if err != nil || string(d.Message.Data) != "m1" || d.Attempt() != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := d.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		var last *Delivery
		for range 2 {
			if last, err = in.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.AcceptThrough(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := in.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an empty queue: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := in.Receive(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Receive after Close: %v", err)
		}
		if err := out.Send(t.Context(), NewText("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("Send after Close: %v", err)
		}
	})
}

func TestTransaction(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, in := opened(t, c, nil)
		n.put("in", "m1", "m2")
		d, err := in.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var id TxID
		err = s.InTx(t.Context(), func(tx *Tx) error {
			id = tx.ID()
			return errors.Join(tx.Accept(d), tx.Send(t.Context(), out, NewMessage([]byte("r1"))))
		})
		if err != nil || n.depth("out") != 1 || !n.done[string(id[:])] {
			t.Fatalf("%v, stored %d", err, n.depth("out"))
		}
		if err := d.Accept(t.Context()); !errors.Is(err, ErrSettled) {
			t.Errorf("accepted again: %v", err)
		}
		if d, err = in.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		if err := s.InTx(t.Context(), func(tx *Tx) error { return errors.Join(tx.Accept(d), boom) }); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		if d, err = in.Receive(t.Context()); err != nil || string(d.Message.Data) != "m2" {
			t.Fatalf("%v, %v", d, err)
		}
		func() {
			defer func() {
				if e, ok := recover().(error); !ok || !errors.Is(e, boom) {
					t.Error("the panic is swallowed")
				}
			}()
			_ = s.InTx(t.Context(), func(tx *Tx) error { panic(boom) })
		}()
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		for _, err := range []error{tx.Commit(t.Context()), tx.Rollback(t.Context()), tx.Accept(d), tx.Send(t.Context(), out, NewText(""))} {
			if !errors.Is(err, ErrTxDone) {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}

// What Commit says by when its context ends: before the discharge was written, RolledBack; afterwards Unknown, and later the truth (C4, C10).
func TestCommitContext(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		tx, _ := s.Begin(t.Context())
		if err := tx.Send(t.Context(), out, NewText("1")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := tx.Commit(ctx)
		var te *TxError
		if !errors.Is(err, ErrRolledBack) || !errors.As(err, &te) || te.ID != tx.ID() || OutcomeOf(err) != RolledBack || !errors.Is(err, context.Canceled) {
			t.Fatalf("a context done before: %v", err)
		}
		tx, _ = s.Begin(t.Context())
		_ = tx.Send(t.Context(), out, NewText("2"))
		n.set(func() { n.mute = true })
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = tx.Commit(ctx)
		if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrRolledBack) || OutcomeOf(err) != Unknown {
			t.Fatalf("a context that ends too early: %v", err)
		}
		n.set(func() { n.mute = false })
		n.kill() // this node forgets; the transaction is undecided for it, and is rolled back on request
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatalf("rollback after unknown: %v", err)
		}
	})
}

// Names that the wire would alter are refused here, since no answer would be found to them.
func TestInvalidNames(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		const bad = "a\xff"
		_, err1 := s.NewSender(t.Context(), bad, nil)
		_, err2 := s.NewSender(t.Context(), "q", &SenderOptions{Name: bad})
		_, err3 := s.NewReceiver(t.Context(), bad, nil)
		_, err4 := s.NewReceiver(t.Context(), "q", &ReceiverOptions{Name: bad})
		_, err5 := Dial(t.Context(), "amqp://a", &Config{ClientID: bad})
		for i, err := range []error{err1, err2, err3, err4, err5} {
			var no *Error
			if !errors.As(err, &no) || no.Condition != "amqp:invalid-field" {
				t.Errorf("%d: %v", i+1, err)
			}
		}
		if err := out.Send(t.Context(), NewText("1")); err != nil {
			t.Error(err)
		}
	})
}

// InTx rolls back also where fn never returns, and what it was that ended fn goes on its way.
func TestInTxGoexit(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		var tx *Tx
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.InTx(t.Context(), func(x *Tx) error {
				tx = x
				_ = x.Send(t.Context(), out, NewText("1"))
				runtime.Goexit()
				return nil
			})
		})
		wg.Wait()
		if err := tx.Commit(t.Context()); !errors.Is(err, ErrTxDone) {
			t.Fatalf("afterwards: %v", err)
		}
	})
}

// A refusal keeps what it was found in.
func TestErrorUnwraps(t *testing.T) {
	no := &amqp.Error{Condition: amqp.ErrCondUnauthorizedAccess, Description: "not you"}
	err := public(fmt.Errorf("%w: %w", ErrClosed, no))
	var e *Error
	if !errors.Is(err, ErrClosed) || !errors.As(err, &e) || e.Condition != "amqp:unauthorized-access" {
		t.Fatalf("%v", err)
	}
}

// A commit that ended unknown and was found committed meanwhile: whatever is tried with its transaction doesn't say that it is rolled back.
func TestSendAfterUnknownCommit(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		n.set(func() { n.mute, n.keeps = true, true })
		tx, _ := s.Begin(t.Context())
		_ = tx.Send(t.Context(), out, NewText("1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tx.Commit(ctx); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		for range 2 { // while nobody knows, and when the client does
			if err := tx.Send(t.Context(), out, NewText("2")); !errors.Is(err, ErrTxDone) || errors.Is(err, ErrRolledBack) {
				t.Fatalf("send: %v", err)
			}
			n.kill()
			<-time.After(time.Second)
			synctest.Wait()
		}
		if o, _ := tx.core.Outcome(); o != client.TxCommitted {
			t.Fatalf("the client found out: %v", o)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("commit again: %v", err)
		}
	})
}

// A commit without any node ends by its default deadline.
func TestCommitDefaultDeadline(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		tx, _ := s.Begin(t.Context())
		_ = tx.Send(t.Context(), out, NewText("1"))
		synctest.Wait()
		n.set(func() { n.down = true })
		n.kill()
		synctest.Wait()
		start := time.Now()
		err := tx.Commit(context.Background())
		if !errors.Is(err, ErrRolledBack) || time.Since(start) != 30*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if n.dials < 10 {
			t.Errorf("%d dials in 30 s", n.dials)
		}
	})
}

func TestSendContext(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		n.set(func() { n.mute = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := out.Send(ctx, NewText("1"))
		var se *SendError
		if !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &se) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("written, no answer: %v", err)
		}
		n.set(func() { n.mute = false })
		n.kill()
		if err := s.Resend(t.Context(), se.Receipt); err != nil {
			t.Fatalf("resend: %v", err)
		}
		n.set(func() { n.nocred = true })
		blocked, err := s.NewSender(t.Context(), "blocked", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := blocked.Send(ctx, NewText("2")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("no credit: %v", err)
		}
		tx, _ := s.Begin(t.Context())
		if err := tx.Send(ctx, blocked, NewText("3")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("no credit: %v", err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("the send is no part of it: %v", err)
		}
		if n.depth("blocked") != 0 {
			t.Error("stored nevertheless")
		}
	})
}

func TestSendAsync(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		var receipts []*Receipt
		for i := range 500 {
			r, err := out.SendAsync(t.Context(), NewText(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, r)
		}
		for _, r := range receipts {
			if err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-r.Done()
		}
		if n.depth("out") != 500 {
			t.Error(n.depth("out"))
		}
		full, err := s.NewSender(t.Context(), "full", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := full.SendAsync(t.Context(), NewText("x"))
		if err != nil {
			t.Fatal(err)
		}
		var no *Error
		if err := r.Wait(t.Context()); !errors.As(err, &no) || no.Condition != string(amqp.ErrCondResourceLimitExceeded) {
			t.Fatalf("refused: %v", err)
		}
		if err := s.Resend(t.Context(), r); !errors.As(err, &no) {
			t.Errorf("a resend has the first outcome: %v", err)
		}
		if OutcomeOf(err) != Committed || errors.Is(no, ErrOutcomeUnknown) {
			t.Error("a refusal is not unknown")
		}
	})
}

func TestRefusedAttach(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, nil)
		var no *Error
		if _, err := s.NewSender(t.Context(), "forbidden", nil); !errors.As(err, &no) || no.Description != "not you" {
			t.Fatalf("%v", err)
		}
		if err := out.Send(t.Context(), NewText("still alive")); err != nil {
			t.Fatal(err)
		}
		if x, err := s.Sender(t.Context(), "q"); err != nil || x.Address() != "q" {
			t.Fatal(err)
		} else if y, _ := s.Sender(t.Context(), "q"); y != x {
			t.Error("another sender to the same address")
		}
	})
}

// Events come in order, from one goroutine, the last one is Closed; a node that dies costs nobody anything.
func TestEventsOverFailover(t *testing.T) {
	var mu sync.Mutex
	var events []string
	cfg := Config{OnEvent: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, strings.TrimPrefix(fmt.Sprintf("%T", e), "oncemq."))
	}}
	bubble(t, cfg, func(t *testing.T, n *node, c *Client) {
		_, out, _ := opened(t, c, nil)
		if c.Addr() != "a:5672" {
			t.Error(c.Addr())
		}
		n.kill()
		if err := out.Send(t.Context(), NewText("1")); err != nil {
			t.Fatal(err)
		}
		if c.Addr() != "b:5672" {
			t.Error(c.Addr())
		}
	})
	want := []string{"Connected", "Disconnected", "Reconnecting", "Connected", "Closed"}
	if !slices.Equal(events, want) {
		t.Errorf("events %q", events)
	}
}

func TestOnFailoverRollback(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, _ := opened(t, c, &SessionOptions{OnFailover: Rollback})
		for _, use := range []func(tx *Tx) error{
			func(tx *Tx) error { return tx.Send(t.Context(), out, NewText("2")) },
			func(tx *Tx) error { return tx.Commit(t.Context()) },
		} {
			tx, err := s.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = tx.Send(t.Context(), out, NewText("1"))
			synctest.Wait()
			n.kill()
			synctest.Wait()
			if err := use(tx); !errors.Is(err, ErrRolledBack) || OutcomeOf(err) != RolledBack {
				t.Fatalf("S1: %v", err)
			}
			_ = tx.Rollback(t.Context())
		}
		tx, _ := s.Begin(t.Context())
		_ = tx.Send(t.Context(), out, NewText("1"))
		synctest.Wait()
		n.kill()
		synctest.Wait()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatalf("S2: %v", err)
		}
	})
}

// Close with operations under way: everything returns, and truly.
func TestCloseEndsWaits(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		s, out, in := opened(t, c, nil)
		n.set(func() { n.mute = true })
		results := make(chan error, 2)
		go func() { _, err := in.Receive(context.Background()); results <- err }()
		go func() { results <- out.Send(context.Background(), NewText("1")) }()
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if _, err := s.Begin(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := c.OpenSession(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestConsume(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *node, c *Client) {
		n.put("in", "1", "2", "3", "4", "5", "6")
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		failed := map[string]bool{}
		done := 0
		err := Consume(ctx, c, "in", 2, func(ctx context.Context, tx *Tx, d *Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if body := string(d.Message.Data); body == "3" && !failed[body] {
				failed[body] = true
				return errors.New("again, please")
			}
			out, err := tx.Session().Sender(ctx, "out")
			if err != nil {
				return err
			}
			if done++; done == 6 {
				time.AfterFunc(time.Second, cancel)
			}
			return tx.Send(ctx, out, d.Message)
		})
		if !errors.Is(err, context.Canceled) || n.depth("out") != 6 || !failed["3"] {
			t.Fatalf("%v, %d moved", err, n.depth("out"))
		}
	})
}

func TestDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.down = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := Dial(ctx, "amqp://a,b", &Config{DialContext: n.dial}); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("no node: %v", err)
		}
		n.down = false
		start := time.Now()
		_, err := Dial(t.Context(), "amqp://guest:wrong@a,b", &Config{DialContext: n.dial})
		if !errors.Is(err, ErrCredentials) || time.Since(start) > time.Second || strings.Contains(err.Error(), "wrong") {
			t.Errorf("a wrong password: %v after %v", err, time.Since(start))
		}
		n.refuse = amqp.ErrCondUnauthorizedAccess
		var no *Error
		if _, err := Dial(t.Context(), "a", &Config{DialContext: n.dial}); !errors.As(err, &no) {
			t.Errorf("not authorized: %v", err)
		}
		n.refuse = ""
		c, err := Dial(t.Context(), "amqp://guest:secret@a,b", &Config{DialContext: n.dial})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close(t.Context())
		n.kill()
		n.wg.Wait()
	})
}

// A peer that takes the connection and says nothing is given up after 2 s.
func TestDialSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		first := true
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if first {
				first = false
				a, b := net.Pipe()
				go func() {
					buf := make([]byte, 100)
					for {
						if _, err := b.Read(buf); err != nil {
							return
						}
					}
				}()
				return a, nil
			}
			return n.dial(ctx, network, addr)
		}
		start := time.Now()
		c, err := Dial(t.Context(), "amqp://a,b", &Config{DialContext: dial})
		if err != nil || time.Since(start) != 2*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		_ = c.Close(t.Context())
		n.kill()
		n.wg.Wait()
	})
}

func TestParseURLs(t *testing.T) {
	for in, want := range map[string]string{
		"amqp://a,b:7,[::1]:8":     "a:5672 b:7 [::1]:8 false false",
		"amqps://a":                "a:5671 true false",
		"ws://a,b:7":               "a:80 b:7 false true",
		"wss://a":                  "a:443 true true",
		"ws://a,wss://b":           "error",
		"a":                        "a:5672 false false",
		"amqp://u:p@a, amqp://b:1": "a:5672 b:1 false false",
		"http://a":                 "error",
		"amqp://a,amqps://b":       "error",
		"amqp://":                  "error",
		"amqp://a/x":               "error",
		"amqp://u:hunter2@a:b:c":   "error",
	} {
		var cfg Config
		addrs, how, err := parseURLs(in, &cfg)
		got := fmt.Sprint(strings.Join(addrs, " "), " ", how.secure, " ", how.web)
		if err != nil {
			got = "error"
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q tells the password: %v", in, err)
			}
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", in, got, err, want)
		}
	}
	if _, err := Dial(t.Context(), "a", &Config{Failover: Failover{MinBackoff: -1}}); err == nil {
		t.Error("a negative duration is taken")
	}
}

// Over a real socket, and no goroutine is left behind.
func TestOverTCPLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overSockets(t, l, l.Addr().String(), func(c net.Conn) (net.Conn, error) { return c, nil })
}

// Over WebSocket it is the same: large messages, breaks, and no goroutine is left behind.
func TestOverWebSocket(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overSockets(t, l, "ws://"+l.Addr().String(), func(c net.Conn) (net.Conn, error) { return websocket.Accept(c, nil) })
}

// overSockets sends to a node that listens on l, with breaks, and closes both. accept is what a connection begins with.
func overSockets(t *testing.T, l net.Listener, url string, accept func(net.Conn) (net.Conn, error)) {
	n := newNode(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if c, err = accept(c); err != nil {
				t.Errorf("a handshake: %v", err)
				return
			}
			n.mu.Lock()
			n.serve(c)
			n.mu.Unlock()
		}
	})
	c, err := Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := opened(t, c, nil)
	big := NewMessage(make([]byte, 3<<20))
	for range 3 {
		if err := out.Send(t.Context(), big); err != nil {
			t.Fatal(err)
		}
		n.kill()
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	n.kill()
	wg.Wait()
	n.wg.Wait()
}
