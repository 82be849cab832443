package engine

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt anew instead of comparing")

// story is a conversation of a real client, frame by frame as it was recorded, with a broker's part by hand. Each line of
// its transcript is a frame of the client (>), an event for the broker (!), or a frame of the broker (<).
type story struct {
	*rawPeer
	log   strings.Builder
	links map[string]*Link
	got   []*Delivery // received
	sent  []*Delivery
}

func tell(t *testing.T, name string, cfg Config, story1 func(*story)) {
	t.Helper()
	s := &story{rawPeer: newRawPeer(t, cfg), links: map[string]*Link{}}
	story1(s)
	file := "testdata/" + name + ".txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(s.log.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.log.String(); got != string(want) {
		t.Fatalf("%s differs (see -rewrite):\n%s\nwant:\n%s", file, got, want)
	}
}

// say is frames of the client in one write, and the broker's answers that need no thought.
func (s *story) say(channel uint16, frames ...amqp.Frame) {
	s.t.Helper()
	var b []byte
	for _, f := range frames {
		f.Channel = channel
		s.log.WriteString("> " + showFrame(f) + "\n")
		b = amqp.AppendFrame(b, channel, f.Body, f.Payload)
	}
	for len(b) > 0 {
		n := s.input(b)
		b = b[n:]
		for ev, ok := s.c.Next(); ok; ev, ok = s.c.Next() {
			s.log.WriteString("! " + show(ev) + "\n")
			s.answer(ev)
		}
	}
	s.write()
}

func (s *story) answer(ev Event) {
	switch ev.Kind {
	case Opened:
		_ = s.c.Open(amqp.Open{ContainerID: "us"})
	case SessionBegun:
		_ = ev.Session.Begin(amqp.Begin{})
	case LinkAttached:
		s.links[ev.Link.Name()] = ev.Link
		_ = ev.Link.Accept(*ev.Attach)
		if ev.Link.Role() == amqp.RoleReceiver {
			_ = ev.Link.SetCredit(100, false)
		}
	case Received:
		s.got = append(s.got, ev.Delivery)
	case LinkDetached:
		_ = ev.Link.Detach(ev.Closed, nil)
	case SessionEnded:
		_ = ev.Session.End(nil)
	case Closed:
		_ = s.c.Close(nil)
	}
}

// write is what the broker has to say.
func (s *story) write() {
	s.t.Helper()
	for _, f := range s.frames() {
		s.log.WriteString("< " + f + "\n")
	}
}

func (s *story) deliver(link, tag string) {
	s.t.Helper()
	s.sent = append(s.sent, mustSend(s.t, s.links[link], tag, "m"))
	s.write()
}

func frame(p amqp.Performative) amqp.Frame { return amqp.Frame{Body: p} }

func xfer(handle, id uint32, tag string, state amqp.DeliveryState, payload string) amqp.Frame {
	return amqp.Frame{Body: &amqp.Transfer{Handle: handle, DeliveryID: u(id), DeliveryTag: []byte(tag), MessageFormat: u(0), State: state}, Payload: []byte(payload)}
}

func attach(name string, handle uint32, role amqp.Role) amqp.Frame {
	a := amqp.NewAttach(name, role)
	a.Handle, a.SenderSettleMode = handle, amqp.SenderSettleUnsettled
	a.Source, a.Target = &amqp.Source{}, &amqp.Target{}
	return frame(a)
}

func settled(first uint32, isSettled bool, state amqp.DeliveryState) amqp.Frame {
	return frame(&amqp.Disposition{Role: amqp.RoleReceiver, First: first, Settled: isSettled, State: state})
}

// python-proton 0.37 commits: everything up to the first Flow is pipelined, transactional dispositions are not settled before the
// discharge (finding 9).
func TestProtonCommit(t *testing.T) {
	tell(t, "proton-commit", Config{Server: true}, func(s *story) {
		tx := &amqp.TransactionalState{TxnID: []byte("tx1")}
		ack := &amqp.TransactionalState{TxnID: []byte("tx1"), Outcome: &amqp.Accepted{}}
		s.say(0, frame(amqp.NewOpen("628ff480")), frame(&amqp.Begin{IncomingWindow: 1<<31 - 1, OutgoingWindow: 1<<31 - 1, HandleMax: amqp.DefaultHandleMax}),
			attach("q", 0, amqp.RoleReceiver), attach("out", 1, amqp.RoleSender), attach("txn-ctrl", 2, amqp.RoleSender),
			frame(&amqp.Flow{IncomingWindow: 1<<31 - 1, OutgoingWindow: 1<<31 - 1, Handle: u(0), DeliveryCount: u(0), LinkCredit: u(3)}))
		for _, tag := range []string{"1", "2", "3"} {
			s.deliver("q", tag)
		}
		s.say(0, xfer(2, 0, "1", nil, "declare"), frame(&amqp.Flow{
			NextIncomingID: u(3), IncomingWindow: 1<<31 - 1, NextOutgoingID: 1,
			OutgoingWindow: 1<<31 - 1, Handle: u(0), DeliveryCount: u(3), LinkCredit: u(2),
		}))
		s.got[0].Dispose(&amqp.Declared{TxnID: []byte("tx1")}, true)
		s.write()
		s.say(0, xfer(1, 1, "1", tx, "hello"), settled(0, false, ack), settled(1, false, ack), xfer(2, 2, "2", nil, "discharge"))
		s.got[1].Dispose(ack, true)
		s.sent[0].Dispose(nil, true)
		s.sent[1].Dispose(nil, true)
		s.got[2].Dispose(&amqp.Accepted{}, true)
		s.write()
		s.say(0, frame(&amqp.Close{}))
	})
}

// Qpid JMS 2.10 rolls back (1.6, 1.9): two settled transactional accepts, a drain, Discharge(fail) and Declare in one write, what was
// prefetched released afterwards, and at the end a Released for a link that is closed already (finding 7).
func TestQpidRollback(t *testing.T) {
	tell(t, "qpid-rollback", Config{Server: true}, func(s *story) {
		ack := &amqp.TransactionalState{TxnID: []byte("tx1"), Outcome: &amqp.Accepted{}}
		flow := func(in, count, credit uint32, drain bool) amqp.Frame {
			return frame(&amqp.Flow{
				NextIncomingID: u(in), IncomingWindow: 2047, NextOutgoingID: 2, OutgoingWindow: 1<<31 - 1,
				Handle: u(1), DeliveryCount: u(count), LinkCredit: u(credit), Drain: drain,
			})
		}
		s.say(0, frame(amqp.NewOpen("ID:a934aafb:1")))
		begin := &amqp.Begin{NextOutgoingID: 1, IncomingWindow: 2047, OutgoingWindow: 1<<31 - 1, HandleMax: 65535}
		s.say(0, frame(begin))
		s.say(1, frame(begin))
		s.say(1, attach("coordinator", 0, amqp.RoleSender))
		s.say(1, xfer(0, 0, "\x00", nil, "declare"))
		s.got[0].Dispose(&amqp.Declared{TxnID: []byte("tx1")}, true)
		s.say(1, attach("receiver", 1, amqp.RoleReceiver))
		s.say(1, flow(0, 0, 1000, false))
		for _, tag := range []string{"1", "2", "3", "4"} {
			s.deliver("receiver", tag)
		}
		s.say(1, settled(0, true, ack), settled(1, true, ack))
		s.say(1, flow(4, 4, 996, true))
		s.links["receiver"].Drained()
		s.write()
		s.say(1, xfer(0, 1, "\x01", nil, "discharge"), xfer(0, 2, "\x02", nil, "declare"))
		s.got[2].Dispose(&amqp.Declared{TxnID: []byte("tx2")}, true)
		s.got[1].Dispose(&amqp.Accepted{}, true)
		s.write()
		s.say(1, settled(2, true, &amqp.Released{}))
		s.say(1, flow(4, 1000, 1000, false))
		s.say(1, frame(&amqp.Detach{Handle: 1, Closed: true}))
		s.say(1, settled(3, true, &amqp.Released{}))
		s.say(0, frame(&amqp.Close{}))
	})
}
