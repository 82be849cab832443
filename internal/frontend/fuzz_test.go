package frontend

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// frames are what a client would send behind its Open, to begin fuzzing from.
func seedFrames() [][]byte {
	begin := amqp.NewBegin()
	begin.IncomingWindow, begin.OutgoingWindow = 100, 100
	frame := func(p amqp.Performative, payload []byte) []byte { return amqp.AppendFrame(nil, 0, p, payload) }
	snd := senderAttach("s", "q")
	snd.InitialDeliveryCount = amqp.Some(uint32(0))
	relay := senderAttach("relay", "")
	relay.Handle, relay.InitialDeliveryCount = 3, amqp.Some(uint32(0))
	rcv := receiverAttach("r", "q")
	rcv.Handle = 1
	ctl := coordinatorAttach("c")
	ctl.Handle, ctl.InitialDeliveryCount = 2, amqp.Some(uint32(0))
	transfer := func(handle, id uint32, state amqp.DeliveryState, payload []byte) []byte {
		return frame(&amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(id), DeliveryTag: []byte{byte(id)}, State: state}, payload)
	}
	credit := frame(&amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, Handle: amqp.Some(uint32(1)), LinkCredit: amqp.Some(uint32(9)), Drain: true}, nil)
	id := make([]byte, 24)
	session := append([]byte{}, frame(begin, nil)...)
	session = append(session, frame(snd, nil)...)
	session = append(session, frame(rcv, nil)...)
	session = append(session, frame(ctl, nil)...)
	session = append(session, frame(relay, nil)...)
	session = append(session, credit...)
	work := append([]byte{}, session...)
	work = append(work, transfer(0, 0, nil, text("x"))...)
	work = append(work, transfer(2, 1, nil, notes(nil, &amqp.Declare{}))...)
	work = append(work, transfer(0, 2, inTx(id, nil), text("y"))...)
	work = append(work, frame(&amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Settled: true, State: inTx(id, &amqp.Accepted{})}, nil)...)
	work = append(work, transfer(2, 3, nil, notes(nil, &amqp.Discharge{TxnID: id}))...)
	work = append(work, transfer(3, 4, nil, append(amqp.AppendProperties(nil, &amqp.Properties{To: addressOutcome, ReplyTo: "q"}), text("z")...))...)
	end := append([]byte{}, work...)
	end = append(end, frame(&amqp.Detach{Handle: 1, Closed: true}, nil)...)
	end = append(end, frame(&amqp.End{}, nil)...)
	end = append(end, frame(&amqp.Close{}, nil)...)
	resume := amqp.NewBegin()
	resumable(1, nil)(resume)
	return [][]byte{session, work, end, frame(resume, nil), frame(&amqp.Disposition{First: 9, Last: amqp.Some(uint32(1))}, nil)}
}

// FuzzServerConn: whatever a client sends behind its Open, nothing panics, neither here nor in the state; a connection that
// was ended for it has said Close, and is gone from the log.
func FuzzServerConn(f *testing.F) {
	for _, b := range seedFrames() {
		f.Add(b, uint8(7))
		f.Add(b, uint8(255))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		r := newRig(t)
		p := r.connect()
		p.cut = true // no client end: bytes only
		hello := amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)
		o := amqp.NewOpen("fuzz")
		ours(1, 1)(o)
		hello = amqp.AppendFrame(hello, 0, o, nil)
		var pending, out []byte
		feed := func(b []byte) {
			pending = append(pending, b...)
			for range 3 {
				n := p.fe.Input(pending, r.now)
				pending = pending[n:]
				p.fe.Flush(r.now)
				r.log.step(t)
				p.fe.Flush(r.now)
				out = append(out, p.fe.TakeOutput(nil, r.now)...)
				p.fe.Flush(r.now)
			}
		}
		feed(hello)
		for len(b) > 0 {
			n := min(len(b), int(cut)+1)
			feed(b[:n])
			b = b[n:]
		}
		r.now = r.now.Add(3 * time.Second)
		p.fe.Tick(r.now)
		feed(nil)
		if !p.fe.Done() {
			p.fe.Lost(command.EndReset, r.now)
		} else if !endsWithClose(out) {
			t.Fatalf("ended without Close: % x", out)
		}
		for range 3 {
			r.log.step(t)
		}
		if n := len(r.log.m.Connections()); n != 0 {
			t.Fatalf("%d connections stay in the log", n)
		}
	})
}

// endsWithClose walks over the frames that a node has written.
func endsWithClose(out []byte) bool {
	if len(out) < 8 {
		return false
	}
	last := ""
	for out = out[8:]; len(out) > 0; {
		f, n, err := amqp.DecodeFrame(out, amqp.Limits{})
		if err != nil {
			return false
		}
		last, out = amqp.NameOf(f.Body), out[n:]
	}
	return last == "close"
}
