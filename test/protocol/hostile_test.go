package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// attack is what one hostile client sends, behind a good beginning unless raw, and which Close it gets: the condition, or "" for none,
// where it broke no rule that ends a connection. Links and sessions may end for it.
type attack struct {
	name string
	raw  bool // from the first byte on
	b    []byte
	want []amqp.Symbol
}

func frames(bodies ...amqp.Performative) (b []byte) {
	for _, x := range bodies {
		b = amqp.AppendFrame(b, 0, x, nil)
	}
	return b
}

func framed(body ...byte) []byte {
	n := len(body) + 8
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 2, 0, 0, 0}, body...)
}

// attacks are the kinds of hostile input of a client, in the order of the list that they come from: frame headers, protocol headers,
// arrays, lists, described types, text, numbers, states, sequence numbers, transfers, attaches, opens, SASL, control links.
func attacks() []attack {
	framing, decode := []amqp.Symbol{amqp.ErrCondFramingError}, []amqp.Symbol{amqp.ErrCondDecodeError}
	u := amqp.Some[uint32]
	sasl := func(b ...byte) []byte { return append(amqp.AppendProtoHeader(nil, amqp.ProtoSASL), b...) }
	header := func(b ...byte) []byte { return append(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), b...) }
	many := func(n int, b []byte) []byte { return bytes.Repeat(b, n) }
	transfer := func(x amqp.Transfer, n int) []byte { return amqp.AppendFrame(nil, 0, &x, make([]byte, n)) }
	init := func(response []byte) []byte {
		return amqp.AppendFrame(nil, 0, &amqp.SASLInit{Mechanism: "ANONYMOUS", InitialResponse: response}, nil)
	}
	return []attack{
		{name: "size 0", b: make([]byte, 8), want: framing},
		{name: "size 7", b: []byte{0, 0, 0, 7, 2, 0, 0, 0}, want: framing},
		{name: "size 2^31", b: []byte{0x80, 0, 0, 0, 2, 0, 0, 0}, want: framing},
		{name: "size 2^32-1", b: []byte{255, 255, 255, 255, 2, 0, 0, 0}, want: framing},
		{name: "doff 0", b: []byte{0, 0, 0, 8, 0, 0, 0, 0}, want: framing},
		{name: "doff beyond", b: []byte{0, 0, 0, 8, 255, 0, 0, 0}, want: framing},
		{name: "type 255", b: []byte{0, 0, 0, 8, 2, 255, 0, 0}, want: framing},
		{name: "begin above channel-max", b: amqp.AppendFrame(nil, 65535, amqp.NewBegin(), nil), want: framing},
		{name: "heartbeats", b: many(100_000, []byte{0, 0, 0, 8, 2, 0, 0, 0})},
		{name: "header twice", b: header(), want: framing},
		{name: "AMQP behind a TLS header", raw: true, b: []byte("AMQP\x02\x01\x00\x00AMQP\x00\x01\x00\x00")},
		{name: "nested lists", b: framed(append([]byte{0, 0x53, 0x11}, many(100_000, []byte{0xc0, 0xff, 1})...)...), want: decode},
		{name: "nested descriptors", b: framed(many(100_000, []byte{0})...), want: decode},
		{name: "prefix of a symbolic descriptor", b: framed(append([]byte{0, 0xa3, 10}, "amqp:begin"...)...), want: decode},
		{name: "descriptor null", b: framed(0, 0x40, 0x45), want: decode},
		{name: "string of 2^32-1", b: framed(0, 0x53, 0x12, 0xc0, 8, 3, 0xb1, 255, 255, 255, 255, 0x43, 0x42), want: decode},
		{name: "string that isn't UTF-8", b: framed(0, 0x53, 0x12, 0xc0, 7, 3, 0xa1, 2, 0xc3, 0x28, 0x43, 0x42), want: decode},
		{name: "disposition of everything", b: frames(&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: u(1<<32 - 1), Settled: true, State: &amqp.Accepted{}})},
		{name: "dispositions of much", b: many(2000, frames(&amqp.Disposition{Role: amqp.RoleReceiver, First: 1, Last: u(1<<31 - 1), Settled: true}))},
		{name: "drain and echo", b: many(20_000, frames(&amqp.Flow{NextIncomingID: u(0), IncomingWindow: 1, OutgoingWindow: 1, Echo: true, Drain: true}))},
		{name: "much credit", b: frames(&amqp.Flow{IncomingWindow: 1<<32 - 1, OutgoingWindow: 1<<32 - 1, Handle: u(1), LinkCredit: u(1<<32 - 1)})},
		{name: "flow on no handle", b: frames(&amqp.Flow{IncomingWindow: 1, OutgoingWindow: 1, Handle: u(200), LinkCredit: u(1)})},
		{name: "tag of 33 bytes", b: transfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: make([]byte, 33)}, 9)},
		{name: "a delivery without end", b: append(transfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte{1}, More: true}, 0), many(80, transfer(amqp.Transfer{More: true}, 1<<20-64))...)},
		{name: "a delivery of nothing", b: append(transfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte{1}, More: true}, 0), many(2000, transfer(amqp.Transfer{More: true}, 0))...)},
		{name: "many attaches", b: func() (b []byte) {
			for i := range 3000 {
				a := senderAttach("hostile")
				a.Handle = uint32(2 + i%200)
				b = append(b, frames(a)...)
			}
			return b
		}()},
		{name: "open twice", b: frames(amqp.NewOpen("again")), want: []amqp.Symbol{amqp.ErrCondIllegalState}},
		{name: "open of 64 KiB", raw: true, b: header(frames(amqp.NewOpen(strings.Repeat("x", 64<<10)))...), want: framing},
		{name: "begin before open", raw: true, b: header(frames(amqp.NewBegin())...), want: framing},
		{name: "SASL without end", raw: true, b: sasl([]byte{0x7f, 255, 255, 255, 2, 1, 0, 0}...)},
		{name: "SASL init of 1 MB", raw: true, b: sasl(init(make([]byte, 1<<20))...)},
		{name: "SASL init twice", raw: true, b: sasl(append(init(nil), init(nil)...)...)},
		{name: "SASL response to nothing", raw: true, b: sasl(amqp.AppendFrame(nil, 0, &amqp.SASLResponse{}, nil)...)},
		{name: "SASL mechanism that nobody knows", raw: true, b: sasl(amqp.AppendFrame(nil, 0, &amqp.SASLInit{Mechanism: "X"}, nil)...)},
	}
}

// beginning is a good client's: a session with a sending link on handle 0 and a receiving one on handle 1.
func beginning() []byte {
	begin, snd, rcv := amqp.NewBegin(), senderAttach("hostile"), receiverAttach("hostile")
	begin.IncomingWindow, begin.OutgoingWindow, rcv.Handle = 100, 100, 1
	return append(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), frames(amqp.NewOpen(fmt.Sprint("hostile-", names.Add(1))), begin, snd, rcv)...)
}

// play sends an attack and then Close, and gives what the node's Close says: its condition, "" without one, "none" where it sends
// none before it closes the socket. An error: it doesn't close the socket in time.
func (a *attack) play() (condition string, err error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(patience))
	b := a.b
	if !a.raw {
		b = append(append(beginning(), b...), frames(&amqp.Close{})...)
	}
	sent := make(chan struct{})
	go func() { defer close(sent); _, _ = nc.Write(b) }() // the node may close in the middle of it
	all, err := io.ReadAll(nc)
	_ = nc.Close()
	<-sent
	if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
		return "", fmt.Errorf("%s: the node keeps the connection", a.name)
	}
	condition = "none"
	for len(all) >= 8 {
		if bytes.HasPrefix(all, []byte("AMQP")) {
			all = all[8:]
			continue
		}
		f, n, err := amqp.DecodeFrame(all, amqp.Limits{})
		if err != nil {
			break
		}
		if x, ok := f.Body.(*amqp.Close); ok {
			if condition = ""; x.Error != nil {
				condition = string(x.Error.Condition)
			}
		}
		all = all[n:]
	}
	return condition, nil
}

// right says whether an attack was answered as it should be.
func (a *attack) right(condition string) bool {
	switch {
	case a.want != nil:
		return slices.Contains(a.want, amqp.Symbol(condition))
	case a.raw:
		return true // the SASL layer has no Close
	}
	return condition == ""
}

// While each kind of hostile client does its worst, three at a time, another sends and receives as if there were none: the
// node neither stalls nor loses anything, and grows by no more than the attackers' own bounds. Each of them gets the end that it earned.
func TestRow118HostileClients(t *testing.T) {
	queue := queueName(t)
	s := open(t).begin()
	out, in := s.sender(queue), s.receiver(queue)
	type result struct {
		a         attack
		condition string
		err       error
	}
	todo, results := make(chan attack), make(chan result, 1000)
	over := make(chan struct{}, 3)
	for range 3 {
		go func() {
			for a := range todo {
				condition, err := a.play()
				results <- result{a, condition, err}
			}
			over <- struct{}{}
		}()
	}
	go func() {
		for _, a := range attacks() {
			todo <- a
		}
		close(todo)
	}()
	for i, left := 0, 3; left > 0; i++ {
		_ = s.p.nc.SetDeadline(deadline())
		want := fmt.Sprint("m", i)
		out.want(out.send(text(want)), &amqp.Accepted{})
		in.flow(1)
		m := in.receive().wantText(want)
		s.settle(m.id, &amqp.Accepted{})
		select {
		case <-over:
			left--
		default:
		}
	}
	close(results)
	for r := range results {
		if r.err != nil || !r.a.right(r.condition) {
			t.Errorf("%s: closed with %q, want %q; %v", r.a.name, r.condition, r.a.want, r.err)
		}
	}
	s.p.quiet()
}
