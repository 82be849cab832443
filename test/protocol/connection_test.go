package protocol

import (
	"io"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// offers says whether a node's Open offers a capability.
func offers(o *amqp.Open, c amqp.Symbol) bool {
	for _, x := range o.OfferedCapabilities {
		if x == c {
			return true
		}
	}
	return false
}

func sole(container string) func(*amqp.Open) {
	return func(o *amqp.Open) {
		o.ContainerID, o.DesiredCapabilities = container, []amqp.Symbol{amqp.CapSoleConnection}
	}
}

// Any other header is answered with one that the node speaks, and the socket is closed; what came behind it isn't looked at.
func TestRow002OtherHeaders(t *testing.T) {
	for _, hello := range []string{"HTTP/1.1", "AMQP\x00\x00\x09\x01", "AMQP\x02\x01\x00\x00", "AMQP\x00\x02\x00\x00", "AMQP\x03\x01\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		p := dial(t)
		p.write(append([]byte(hello), amqp.AppendFrame(nil, 0, amqp.NewOpen("x"), nil)...))
		all, _ := io.ReadAll(p.nc)
		if h, err := amqp.ParseProtoHeader(all); err != nil || !h.Supported() || len(all) != amqp.ProtoHeaderSize {
			t.Errorf("%q was answered with % x", hello, all)
		}
	}
}

// Open, Begin, Attach and a transfer's wish in one write, as python-proton sends them: answered in order, behind our Open.
func TestRow008Pipelined(t *testing.T) {
	queue := filled(t, "one")
	p := dial(t)
	b := amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)
	begin := amqp.NewBegin()
	begin.IncomingWindow, begin.OutgoingWindow = 10, 10
	for _, body := range []amqp.Performative{
		amqp.NewOpen("pipelined"), begin, receiverAttach(queue),
		&amqp.Flow{IncomingWindow: 10, OutgoingWindow: 10, Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1))},
	} {
		b = amqp.AppendFrame(b, 0, body, nil)
	}
	p.write(b)
	p.fill(amqp.ProtoHeaderSize)
	p.buf = p.buf[amqp.ProtoHeaderSize:]
	for _, want := range []string{"open", "begin", "attach", "transfer"} {
		if _, body, _ := p.next(); amqp.NameOf(body) != want {
			t.Fatalf("got %s, want %s", amqp.NameOf(body), want)
		}
	}
	p.close()
}

// Each capability is offered only if it is real, and nobody is told that it is the container's only connection who didn't ask.
func TestRow009Offers(t *testing.T) {
	all := []amqp.Symbol{amqp.CapSoleConnection, amqp.CapAnonymousRelay, "nobody:knows-this"}
	o := open(t, func(o *amqp.Open) { o.DesiredCapabilities = all }).open
	if !offers(o, amqp.CapAnonymousRelay) || !offers(o, amqp.CapSoleConnection) || offers(o, "nobody:knows-this") {
		t.Errorf("offered %v", o.OfferedCapabilities)
	}
	if o := open(t).open; !offers(o, amqp.CapAnonymousRelay) || offers(o, amqp.CapSoleConnection) {
		t.Errorf("offered to who desires nothing: %v", o.OfferedCapabilities)
	}
}

// A second connection of a container, both of which want to be the only one: Open that says that it fails, then Close that says why. The
// first goes on, and one that doesn't care is let in beside it.
func TestRow011SoleConnection(t *testing.T) {
	first := open(t, sole("row11"))
	second := open(t, sole("row11"))
	if v, _ := second.open.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail)); v != true {
		t.Errorf("properties %v", second.open.Properties)
	}
	x := expect[*amqp.Close](second)
	wantCondition(t, x.Error, amqp.ErrCondInvalidField)
	if v, _ := x.Error.Info.Lookup(string(amqp.InfoInvalidField)); v != amqp.InfoContainerID {
		t.Errorf("info %v", x.Error.Info)
	}
	second.send(0, &amqp.Close{})
	second.wantEOF()
	open(t, func(o *amqp.Open) { o.ContainerID = "row11" }).quiet()
	open(t, sole("row11 too")).quiet()
	first.quiet()
	open(t, sole("row11")).quiet()
}

// A container whose connection takes nothing any more is let in again within seconds, and what the former had is free.
func TestRow012DeadConnection(t *testing.T) {
	queue := filled(t, "held")
	dead := open(t, sole("row12"))
	s := dead.begin()
	l := s.receiver(queue)
	l.flow(1)
	l.receive().wantText("held")
	// It asks and reads no answers, until the node's socket is full: what its TCP would have to acknowledge stays there.
	echo := amqp.AppendFlow(nil, s.channel, &amqp.Flow{NextIncomingID: amqp.Some(s.nextIn), IncomingWindow: 10, OutgoingWindow: 10, Echo: true})
	var flood []byte
	for len(flood) < 1<<20 {
		flood = append(flood, echo...)
	}
	_ = dead.nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
	for {
		if _, err := dead.nc.Write(flood); err != nil {
			break
		}
	}
	for until := time.Now().Add(patience); ; {
		p := open(t, sole("row12"))
		if v, _ := p.open.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail)); v != true {
			r := p.begin().receiver(queue)
			r.flow(1)
			if m := r.receive().wantText("held"); m.header().DeliveryCount != 1 {
				t.Errorf("header %+v", m.header())
			}
			return
		}
		p.wantClose(amqp.ErrCondInvalidField)
		if time.Now().After(until) {
			t.Fatal("the dead connection still holds the container")
		}
	}
}

// Less than 512 is refused, 512 is enough; a frame that is larger than the node's size ends the connection.
func TestRow013MaxFrameSize(t *testing.T) {
	for _, size := range []uint32{0, 511} {
		p := open(t, func(o *amqp.Open) { o.MaxFrameSize = size })
		p.wantClose(amqp.ErrCondInvalidField)
	}
	open(t, func(o *amqp.Open) { o.MaxFrameSize = 512 }).quiet()
	p := open(t)
	size := p.open.MaxFrameSize + 1
	p.write([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), 2, 0, 0, 0})
	p.wantClose(amqp.ErrCondFramingError)
}

// The node is heard within half of our idle-time-out, and an idle-time-out that can't be served is refused.
func TestRow015IdleTimeOut(t *testing.T) {
	const idle = 400 * time.Millisecond
	p := open(t, func(o *amqp.Open) { o.IdleTimeout = amqp.Some(uint32(idle.Milliseconds())) })
	_ = p.nc.SetReadDeadline(time.Now().Add(patience))
	for range 3 {
		p.fill(len(p.buf) + 8) // an empty frame each
	}
	for len(p.buf) > 0 {
		f, n, err := amqp.DecodeFrame(p.buf, amqp.Limits{})
		if err != nil || f.Body != nil {
			t.Fatalf("%+v, %v", f, err)
		}
		p.buf = p.buf[n:]
	}
	p.quiet()
	if !p.open.IdleTimeout.Set || p.open.IdleTimeout.V == 0 {
		t.Error("the node lets peers be silent for ever")
	}
	open(t, func(o *amqp.Open) { o.IdleTimeout = amqp.Some(uint32(1)) }).wantClose(amqp.ErrCondInvalidField)
}
