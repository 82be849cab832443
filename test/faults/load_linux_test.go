package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/test/cluster"
)

// session is a client of its own beside the workload, with one session; it ends with
// the test.
func (w *World) session(urls string) *oncemq.Session {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 2*failover)
	defer cancel()
	c, err := oncemq.Dial(ctx, urls, &oncemq.Config{Failover: oncemq.Failover{IgnoreServerList: true}}) // there may be proxies
	if err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // the nodes may be gone
	})
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return s
}

// Rows 96 and 102: four programs publish as fast as they may, more than the nodes take (no
// tracer slows the disks here: it would slow everything), then a consumer with much
// credit settles nothing: the nodes' memory is bounded, and others are served.
func TestRow102Flood(t *testing.T) {
	Long(t)
	Need(t)
	const messages, size, bound = 80_000, 4 << 10, 512 << 20
	w := New(t, Options{Rate: 50})
	w.Run(func() {
		var grown []func()
		var bad atomic.Int64
		var floods []*oncemq.Session
		for i := range 4 {
			floods = append(floods, w.session(w.urls(i)))
		}
		for _, n := range w.Nodes {
			more := w.Peak(n)
			grown = append(grown, func() {
				if more() > bound {
					bad.Add(1)
				}
			})
		}
		flooded := make(chan error, len(floods))
		for _, s := range floods {
			go func() { flooded <- flood(w.ctx, s, messages/cap(flooded), size) }()
		}
		for range cap(flooded) {
			for done := false; !done; {
				select {
				case err := <-flooded:
					if err != nil {
						t.Fatal(err)
					}
					done = true
				default:
					w.Commits(5, failover)
				}
			}
		}
		w.Note("%d messages are there", messages)
		slow, err := w.session(w.urls(0)).NewReceiver(w.ctx, "flood", &oncemq.ReceiverOptions{Prefetch: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := slow.Receive(w.ctx); err != nil {
				t.Fatal(err)
			}
			w.Commits(50, failover)
		}
		for _, check := range grown {
			check()
		}
		if bad.Load() > 0 {
			t.Errorf("%d nodes grew by more than %d MiB", bad.Load(), bound>>20)
		}
	})
}

// flood sends as fast as it may, and waits until all is accepted.
func flood(ctx context.Context, s *oncemq.Session, messages, size int) error {
	sender, err := s.NewSender(ctx, "flood", nil)
	if err != nil {
		return err
	}
	var last *oncemq.Receipt
	for range messages {
		if last, err = sender.SendAsync(ctx, oncemq.NewMessage(make([]byte, size))); err != nil {
			return err
		}
	}
	return last.Wait(ctx)
}

// Row 97: a large message is cut on its way, and its home killed, half-way through: it is
// never seen in part, and is there once.
func TestRow97LargeMessageIsCut(t *testing.T) {
	Long(t)
	const size = 16 << 20
	w := New(t, Options{Rate: 50})
	w.Run(func() {
		receiver, err := w.session(w.urls(0)).NewReceiver(w.ctx, "large", nil)
		if err != nil {
			t.Fatal(err)
		}
		var fronts []*cluster.Proxy
		var urls string
		for _, n := range w.Nodes {
			p := cluster.NewProxy(t, n.AMQP)
			fronts, urls = append(fronts, p), urls+",amqp://"+p.Addr
		}
		sender, err := w.session(urls[1:]).NewSender(w.ctx, "large", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			var killed atomic.Pointer[cluster.Node]
			for at, p := range fronts { // whichever it is connected to
				p.Arm(true, (i+1)*size/5, func() {
					if i%2 == 1 && killed.CompareAndSwap(nil, w.Nodes[at]) {
						w.Nodes[at].Signal(syscall.SIGKILL)
					}
				})
			}
			w.sendLarge(sender, receiver, bytes.Repeat([]byte{byte(i + 1)}, size))
			cuts := 0
			for _, p := range fronts {
				if armed, _, _ := p.Disarm(); !armed {
					cuts++
				}
			}
			home := killed.Load()
			w.Note("large message %d: cut %d times, home killed: %v", i, cuts, home != nil)
			if cuts == 0 || home == nil && i%2 == 1 {
				t.Error("the message wasn't cut, so nothing was tested")
			}
			if home != nil {
				home.Wait()
				w.Start(home)
			}
		}
		if q, _, err := w.Leader().Queue(w.ctx, "large"); err != nil || q.Depth != 0 {
			t.Errorf("%d large messages too many: %v", q.Depth, err)
		}
	})
}

// sendLarge sends a message and receives it, whole.
func (w *World) sendLarge(sender *oncemq.Sender, receiver *oncemq.Receiver, body []byte) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	if err := sender.Send(ctx, oncemq.NewMessage(body)); err != nil {
		w.tb.Fatal(err)
	}
	d, err := receiver.Receive(ctx)
	if err != nil {
		w.tb.Fatal(err)
	}
	if !bytes.Equal(d.Message.Data, body) {
		w.tb.Errorf("a message of %d bytes came as %d", len(body), len(d.Message.Data))
	}
	if err := d.Accept(ctx); err != nil {
		w.tb.Fatal(err)
	}
}

// Row 99: 10,000 queues, and the leader is killed, then all nodes.
func TestRow99ManyQueues(t *testing.T) {
	Long(t)
	const queues, hands = 10_000, 16
	w := New(t, Options{})
	w.Run(func() {
		var makers sync.WaitGroup
		var failed atomic.Pointer[error]
		for i := range hands {
			makers.Go(func() {
				for q := i; q < queues && failed.Load() == nil; q += hands {
					ctx, cancel := context.WithTimeout(w.ctx, failover)
					err := admin.Call(ctx, w.Nodes[q%nodes].Admin, http.MethodPut, fmt.Sprintf("/api/v1/queues/many.%d", q), nil, nil)
					cancel()
					if err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		makers.Wait()
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
		w.Note("%d queues are there", queues)
		n := w.Leader()
		w.Kill(n)
		w.Commits(1, failover)
		w.Start(n)
		w.Kill(w.Nodes...)
		w.Start(w.Nodes...)
		w.Commits(100, failover)
		if _, ok, err := n.Queue(w.ctx, fmt.Sprintf("many.%d", queues-1)); err != nil || !ok {
			t.Errorf("the last queue is there: %v, %v", ok, err)
		}
	})
}

// Row 100: conversations with something wrong in them, beside the workload: no node ends
// and nobody else is hurt.
func TestRow100HostileFrames(t *testing.T) {
	Long(t)
	Need(t)
	const each, hands = 400, 4
	w := New(t, Options{})
	w.Run(func() {
		good := conversation()
		say(w.ctx, w.Nodes[0].AMQP, good)
		w.Until(failover, "the faultless conversation to be understood", func() bool {
			_, ok, err := w.Nodes[0].Queue(w.ctx, "hostile")
			return err == nil && ok
		})
		var strangers sync.WaitGroup
		var grown []func() int64
		for i, n := range w.Nodes {
			grown = append(grown, w.Peak(n))
			for hand := range hands {
				strangers.Go(func() {
					rng := rand.New(rand.NewPCG(100, uint64(i*hands+hand)))
					for range each {
						say(w.ctx, n.AMQP, spoil(rng, good))
					}
				})
			}
		}
		done := make(chan struct{})
		go func() { strangers.Wait(); close(done) }()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
				w.Commits(50, failover)
			}
		}
		w.Note("%d hostile conversations", nodes*hands*each)
		for i, more := range grown {
			if b := more(); b > 256<<20 {
				t.Errorf("node %d grew by %d MiB", i+1, b>>20)
			}
		}
	})
}

// conversation is all that a client says, without fault: from the header to Close, with a
// message, credit, a settlement and a transaction.
func conversation() []byte {
	snd, rcv := amqp.NewAttach("s", amqp.RoleSender), amqp.NewAttach("r", amqp.RoleReceiver)
	rcv.Handle = 1
	address := amqp.Some("hostile")
	snd.Source, snd.Target = &amqp.Source{}, &amqp.Target{Address: address}
	rcv.Source, rcv.Target = &amqp.Source{Address: address}, &amqp.Target{}
	number := amqp.Some[uint32]
	b := amqp.AppendFrame(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), 0, amqp.NewOpen("hostile"), nil)
	for _, p := range []amqp.Performative{
		&amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100, HandleMax: 9}, snd, rcv,
		&amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, Handle: number(1), DeliveryCount: number(0), LinkCredit: number(10)},
	} {
		b = amqp.AppendFrame(b, 0, p, nil)
	}
	b = amqp.AppendFrame(b, 0, &amqp.Transfer{DeliveryID: number(0), DeliveryTag: []byte("t"), MessageFormat: number(0), Settled: amqp.Some(true)}, []byte("\x00Su\xa0\x03abc"))
	for _, p := range []amqp.Performative{
		&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: number(10), Settled: true, State: &amqp.Accepted{}},
		&amqp.Detach{Handle: 1, Closed: true}, &amqp.End{}, &amqp.Close{},
	} {
		b = amqp.AppendFrame(b, 0, p, nil)
	}
	return b
}

// spoil changes something: bits, a length, the end, or the order.
func spoil(rng *rand.Rand, good []byte) []byte {
	b := bytes.Clone(good)
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(b) - 4)
		switch rng.IntN(5) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			binary.BigEndian.PutUint32(b[at:], []uint32{0, 1, 7, 1 << 31, 1<<32 - 1}[rng.IntN(5)])
		case 2:
			b = b[:max(at, 8)]
		case 3:
			b = append(b[:at:at], good[rng.IntN(len(good)-1):]...)
		case 4:
			b[at] = []byte{0x40, 0x43, 0x45, 0x80, 0xb0, 0xc1, 0xd0, 0xf0, 0x00}[rng.IntN(9)]
		}
		if len(b) < 9 {
			break
		}
	}
	return b
}

// say says it and reads what comes back, until the other side ends or a second of silence.
func say(ctx context.Context, addr string, b []byte) {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = c.Write(b)
	for buf := make([]byte, 4096); err == nil; {
		_, err = c.Read(buf)
	}
}
