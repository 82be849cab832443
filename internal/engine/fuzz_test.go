package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// FuzzConn gives both kinds of Conn arbitrary bytes behind a good beginning, in two pieces, with a user that answers everything
// and grants credit. Whatever comes: no panic, no more consumed than given, output that can be decoded, and after an error
// nothing but a Close.
func FuzzConn(f *testing.F) {
	frames := func(ps ...amqp.Performative) (b []byte) {
		for _, p := range ps {
			b = amqp.AppendFrame(b, 0, p, nil)
		}
		return b
	}
	snd, rcv := amqp.NewAttach("s", amqp.RoleSender), amqp.NewAttach("r", amqp.RoleReceiver)
	rcv.Handle = 1
	rcv.Source, snd.Target = &amqp.Source{}, &amqp.Target{}
	begin := &amqp.Begin{IncomingWindow: 5, HandleMax: 9}
	f.Add(frames(begin, snd, rcv, grant(1, 0, 5), &amqp.Disposition{Role: true, Last: u(1 << 30), Settled: true}, &amqp.Detach{}, &amqp.End{}, &amqp.Close{}), 10)
	f.Add(frames(begin, snd, &amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: true}, &amqp.Transfer{Aborted: true},
		&amqp.Transfer{DeliveryID: u(1), DeliveryTag: []byte("b"), State: &amqp.TransactionalState{TxnID: []byte("x")}},
		&amqp.Disposition{First: 0, Last: u(9), State: &amqp.Accepted{}}, &amqp.Flow{Echo: true}, &amqp.Flow{Handle: u(0), DeliveryCount: u(9), Drain: true}), 40)
	f.Add(frames(begin, begin), 0)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		for _, server := range []bool{true, false} {
			e := &end{c: New(Config{Server: server, MaxFrameSize: 4096, ChannelMax: 3, HandleMax: 3, MaxMessageSize: 10_000, IncomingWindow: 20, MaxUnsettled: 20})}
			if !server {
				_ = e.c.Open(amqp.Open{})
				_, _ = e.c.Begin(amqp.Begin{})
			}
			all := amqp.AppendFrame(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), 0, amqp.NewOpen("peer"), nil)
			all = append(all, in...)
			at := min(max(len(all)-len(in)+cut%(len(in)+1), 0), len(all))
			fuzzInput(t, e, all[:at], all[at:])
		}
	})
}

func fuzzInput(t *testing.T, e *end, first, second []byte) {
	e.onEvent = func(ev Event) bool {
		switch ev.Kind {
		case LinkAttached:
			_ = ev.Link.Accept(*ev.Attach)
			_ = ev.Link.SetCredit(5, false)
			return true
		case Credit:
			for i := 0; ev.Link.Credit() > 0 && i < 3; i++ {
				_, _ = ev.Link.Send(Transfer{Tag: []byte{byte(i)}, Payload: [][]byte{make([]byte, 1000)}})
			}
			ev.Link.Drained()
		case Received:
			ev.Delivery.Dispose(&amqp.Accepted{}, ev.Delivery.ID%2 == 0)
		}
		return false
	}
	now := t0
	out := 0
	buf := first
	for turn := 0; turn < 2; turn++ {
		for {
			n, err := e.c.Input(buf, now)
			if n < 0 || n > len(buf) {
				t.Fatalf("%d of %d bytes consumed", n, len(buf))
			}
			for ev, ok := e.c.Next(); ok; ev, ok = e.c.Next() {
				if !e.onEvent(ev) {
					e.handle(ev)
				}
			}
			out += fuzzOutput(t, e.c, now, out)
			buf = buf[n:]
			if err != nil && len(buf) > 0 {
				t.Fatal("an error, and not everything consumed")
			}
			if n == 0 || len(buf) == 0 {
				break
			}
		}
		now = now.Add(time.Second)
		e.c.Tick(now)
		buf = append(append([]byte(nil), buf...), second...)
	}
}

// fuzzOutput decodes what is to be written.
func fuzzOutput(t *testing.T, c *Conn, now time.Time, before int) (n int) {
	for {
		b := c.TakeOutput(nil, now)
		if len(b) == 0 {
			return n
		}
		n += len(b)
		if before == 0 {
			b = b[amqp.ProtoHeaderSize:]
			before = n
		}
		for len(b) > 0 {
			_, k, err := amqp.DecodeFrame(b, amqp.Limits{})
			if err != nil {
				t.Fatalf("output: %v", err)
			}
			b = b[k:]
		}
	}
}

// FuzzPair drives two engines by arbitrary but lawful operations, with windows, frames and output so small that everything
// waits for everything. Whatever the order: neither ever faults the other, and once all is quiet they agree on credit,
// delivery-counts and what is unsettled; what was sent has arrived, in order, once.
func FuzzPair(f *testing.F) {
	f.Add([]byte("\x02\x05\x04\x01\x04\x02\x05\x03\x0a\x00\x06\x00\x0b\x00\x0c\x00"))
	f.Add([]byte("\x02\x09\x04\x00\x04\x00\x05\x00\x03\x01\x0a\x00\x0a\x00\x09\x00\x0d\x00\x0e\x00\x01\x00\x02\x02\x04\x04"))
	f.Fuzz(func(t *testing.T, ops []byte) { runPair(t, ops) })
}

// TestPairRandom is FuzzPair's body over some fixed pseudo-random inputs.
func TestPairRandom(t *testing.T) {
	for seed := range uint32(3000) {
		x := seed*2654435761 + 1
		ops := make([]byte, 400)
		for i := range ops {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			ops[i] = byte(x >> 8)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runPair(t, ops) })
	}
}

// lawful is a pair and what was done with it.
type lawful struct {
	*pair
	outs, ins []*Link
	sends     map[*Link][]*Delivery
	arrived   map[*Link][]string
	unsettled []*Delivery // at either end, to be picked from
	count     int
}

func runPair(t *testing.T, ops []byte) {
	w := &lawful{
		pair:  newPair(t, Config{MaxFrameSize: 512, IncomingWindow: 3, OutputLimit: 700, NextOutgoingID: 0xFFFFFFF0, InitialDeliveryCount: 0xFFFFFFF8}),
		sends: map[*Link][]*Delivery{}, arrived: map[*Link][]string{},
	}
	w.server.onEvent = func(ev Event) bool {
		if ev.Kind == Received {
			d := ev.Delivery
			w.arrived[ev.Link] = append(w.arrived[ev.Link], string(d.Tag()))
			if n := len(d.Payload); n > 0 && (d.Payload[0] != d.Tag()[0] || d.Payload[n-1] != d.Tag()[0]) {
				t.Fatal("another payload")
			}
			w.unsettled = append(w.unsettled, d)
		}
		return ev.Kind == Received
	}
	for i := range 3 {
		var out, in *Link
		if i == 1 { // two links share a session
			out, in = w.linkOn(w.outs[0].Session(), "second", amqp.ReceiverSettleFirst)
		} else {
			out, in = w.link(amqp.ReceiverSettleMode(i % 2))
		}
		w.outs, w.ins = append(w.outs, out), append(w.ins, in)
	}
	for len(ops) >= 2 {
		w.do(ops[0]%16, int(ops[1]))
		ops = ops[2:]
	}
	w.run()
	w.check()
}

func (w *lawful) do(op byte, arg int) {
	i := arg % len(w.outs)
	out, in := w.outs[i], w.ins[i]
	switch op {
	case 0, 1:
		w.run()
	case 2, 3:
		_ = in.SetCredit(uint32(arg/3%20), op == 3)
	case 4, 5, 6:
		w.send(out, arg, op == 4)
	case 7, 8, 9:
		if len(w.unsettled) > 0 {
			state := []amqp.DeliveryState{&amqp.Accepted{}, &amqp.Released{}, &amqp.Rejected{}, nil}[arg%4]
			w.unsettled[arg%len(w.unsettled)].Dispose(state, op != 9)
		}
	case 10:
		w.step(w.client, w.server)
	case 11:
		w.step(w.server, w.client)
	case 12:
		out.Drained()
	case 13:
		if ds := w.sends[out]; len(ds) > 0 {
			ds[arg%len(ds)].Abort()
		}
	case 14:
		if arg%5 == 0 {
			l := []*Link{out, in}[arg/5%2]
			_ = l.Detach(arg%2 == 0, nil)
			w.run()
			w.outs[i], w.ins[i] = w.linkOn(w.reopen(out), fmt.Sprint("again", w.count), amqp.ReceiverSettleFirst)
			w.count++
		}
	case 15:
		if arg%16 == 0 {
			_ = out.Session().End(nil)
		}
	}
}

// reopen is the link's session, or a new one if that is over.
func (w *lawful) reopen(l *Link) *Session {
	if l.Session().Active() {
		return l.Session()
	}
	s, err := w.client.c.Begin(amqp.Begin{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *lawful) send(out *Link, arg int, settled bool) {
	if out.Credit() == 0 {
		return
	}
	w.count++
	tag := []byte{byte(w.count), byte(w.count >> 8)}
	payload := make([]byte, arg*arg/32)
	for i := range payload {
		payload[i] = tag[0]
	}
	d, err := out.Send(Transfer{Tag: tag, Settled: settled, Payload: [][]byte{payload[:len(payload)/2], payload[len(payload)/2:]}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sends[out] = append(w.sends[out], d)
	w.unsettled = append(w.unsettled, d)
}

func (w *lawful) check() {
	t := w.t
	if w.client.err != nil || w.server.err != nil {
		t.Fatalf("client: %v; server: %v", w.client.err, w.server.err)
	}
	if w.client.c.partialBytes != 0 || w.server.c.partialBytes != 0 {
		t.Fatal("partial deliveries are left")
	}
	waiting := 0
	for i, out := range w.outs {
		in := w.ins[i]
		if out.Attached() != in.Attached() {
			t.Fatal("one end is attached")
		}
		if !out.Attached() {
			continue
		}
		if out.credit != in.credit || out.deliveryCount != in.deliveryCount || out.unsettled != in.unsettled || out.waiting > 0 && out.credit > 0 {
			t.Fatalf("link %d: credit %d %d, count %d %d, unsettled %d %d, waiting %d", i, out.credit, in.credit, out.deliveryCount, in.deliveryCount,
				out.unsettled, in.unsettled, out.waiting)
		}
		var sent []string
		for _, d := range w.sends[out] {
			if d.Sent() {
				sent = append(sent, string(d.Tag()))
			} else if d.stage == stageWaiting {
				waiting += d.out.left
			}
		}
		if got, want := fmt.Sprintf("%q", w.arrived[in]), fmt.Sprintf("%q", sent); got != want {
			t.Fatalf("link %d: arrived %s, sent %s", i, got, want)
		}
	}
	if w.client.c.Backlog() != waiting {
		t.Fatalf("backlog %d, %d bytes waiting", w.client.c.Backlog(), waiting)
	}
}
