package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// identified puts a message-id, behind its header, into a message that has no properties yet.
func identified(id string, message []byte) []byte {
	list := text8(id)
	properties := section(sectionProperties, append([]byte{0xc0, byte(len(list) + 1), 1}, list...)...)
	return slices.Insert(slices.Clone(message), len(splitHead(message).header), properties...)
}

// jms is a sender link of a client that says its sends again.
type jms struct {
	*peer
	link uint32
}

// attachJMS attaches link 7, by the name out, of a client on node n.
func (b *bundle) attachJMS(n command.NodeID, container, queue string) jms {
	b.Helper()
	return b.connect(n, container).resending(7, "out", queue)
}

func (p *peer) resending(link uint32, name, queue string) jms {
	p.Helper()
	p.do(p.node, &command.SenderOpen{Conn: p.id, Request: p.next(), Link: link, Name: name, Address: queue, Create: queue != "", Resends: true})
	if e := p.one(command.EffectSenderOpened); e.Refusal != nil {
		p.Fatalf("link refused: %+v", *e.Refusal)
	}
	return jms{p, link}
}

// say sends under an id, "" for none, to q, and wants the number of messages there behind it.
func (j jms) say(id string, depth uint64) {
	j.Helper()
	message := section(0x77, text8("body of "+id)...)
	if id != "" {
		message = identified(id, message)
	}
	j.do(j.node, &command.Send{Conn: j.id, Link: j.link, Request: j.next(), Address: "q", Message: message})
	if e := j.one(command.EffectSent); e.Refusal != nil {
		j.Fatalf("%s refused: %+v", id, *e.Refusal)
	}
	j.wantDepth("q", depth, 0)
}

func (b *bundle) wantResent(want uint64) {
	b.Helper()
	if got := b.m.Counters().Resent; got != want {
		b.Fatalf("%d counted as said again, want %d", got, want)
	}
}

// end ends the connection as its home sees it.
func (j jms) end(cause command.EndCause) {
	j.Helper()
	j.do(j.node, &command.ConnEnd{Conn: j.id, Cause: cause})
}

// C9: what a JMS client says again over its link, once that is attached anew, is accepted and stored once, however the connection was
// lost, on whatever node it comes again; what had not been stored is stored.
func TestResendsAreStoredOnce(t *testing.T) {
	for name, lose := range map[string]func(b *bundle, j jms){
		"reset":  func(_ *bundle, j jms) { j.end(command.EndReset) },
		"silent": func(_ *bundle, j jms) { j.end(command.EndSilent) },
		"forced": func(_ *bundle, j jms) { j.end(command.EndForced) },
		"failed": func(_ *bundle, j jms) { j.end(command.EndFailed) },
		"home":   func(b *bundle, _ jms) { b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]}) },
		"life":   func(b *bundle, _ jms) { b.up(1) },
		"detached": func(_ *bundle, j jms) {
			j.do(j.node, &command.SenderEnd{Conn: j.id, Link: j.link})
		},
		"a new history": func(b *bundle, _ jms) {
			b.system(&command.ClusterInit{Cluster: [16]byte{7}, History: 6, Voters: []command.NodeID{1, 2, 3}, Level: command.Level, Version: "v0"})
			for n := command.NodeID(1); n <= 3; n++ {
				b.up(n)
			}
		},
		"hours ago": func(b *bundle, j jms) {
			j.end(command.EndSilent)
			b.tick(retention - 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			j := b.attachJMS(1, "app", "q")
			if b.one(command.EffectSenderOpened).Detail.(*command.SenderOpened).Resent {
				t.Fatal("a new link has ids of before")
			}
			j.say("1", 1)
			j.say("2", 2)
			lose(b, j)
			j = b.attachJMS(2, "app", "q")
			if !b.one(command.EffectSenderOpened).Detail.(*command.SenderOpened).Resent {
				t.Fatal("its home isn't told that there are ids of before")
			}
			j.say("2", 2)
			j.say("3", 3)
			b.wantResent(1)
			j.end(command.EndReset) // and the answers to both were lost
			j = b.attachJMS(3, "app", "q")
			j.say("2", 3)
			j.say("3", 3)
			j.say("4", 4)
			b.wantResent(3)
		})
	}
}

// A link that is closed isn't attached again: nothing is kept of it.
func TestClosedLinkHasNoWindow(t *testing.T) {
	for name, leave := range map[string]func(j jms){
		"link":       func(j jms) { j.do(j.node, &command.SenderEnd{Conn: j.id, Link: j.link, Closed: true}) },
		"connection": func(j jms) { j.end(command.EndClosed) },
		"one that sent nothing under an id": func(j jms) {
			j.do(j.node, &command.SenderEnd{Conn: j.id, Link: j.link, Closed: true})
			j.resending(8, "other", "q")
			j.end(command.EndReset)
		},
		"too long ago": func(j jms) {
			j.end(command.EndReset)
			j.tick(retention)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			used := b.m.memoryUsed()
			j := b.attachJMS(1, "app", "")
			b.do(1, &command.QueueCreate{Name: "q"})
			j.say("1", 1)
			leave(j)
			if len(b.m.windows) != 0 {
				t.Fatalf("%d windows are kept", len(b.m.windows))
			}
			for k := range b.disk.kv {
				if k[2] == keyWindow || k[2] == keyStoredID {
					t.Fatalf("key %x is kept", k)
				}
			}
			b.attachJMS(2, "app", "").say("1", 2)
			b.wantResent(0)
			b.do(1, &command.QueueDelete{Name: "q"})
			b.tick(1)
			b.attachJMS(2, "app", "").end(command.EndClosed)
			for _, c := range b.m.Connections() {
				b.do(c.Node, &command.ConnEnd{Conn: c.Conn, Cause: command.EndClosed})
			}
			if got := b.m.memoryUsed(); got != used {
				t.Fatalf("%d bytes are used at the end, %d at the beginning", got, used)
			}
		})
	}
}

// Message.ID alone is never a duplicate id: only the same link, attached anew, is checked (C9).
func TestMessageIDAloneIsNoDuplicateID(t *testing.T) {
	b := newBundle(t)
	j := b.attachJMS(1, "app", "q")
	j.say("1", 1)
	j.say("1", 2) // within an attachment
	j.say("", 3)
	j.do(1, &command.SenderOpen{Conn: j.id, Link: 9, Name: "plain", Address: "q"})
	jms{j.peer, 9}.say("1", 4)
	j.resending(10, "else", "q").say("1", 5)
	j.resending(11, "out", "").say("1", 6) // the same name, but another target
	j.end(command.EndReset)
	b.attachJMS(2, "another", "q").say("1", 7)
	o := b.connectAs(2, &command.ConnOpen{Principal: "bob", ContainerID: "app"})
	o.resending(1, "out", "q").say("1", 8)
	p := b.connect(2, "app")
	p.do(2, &command.SenderOpen{Conn: p.id, Link: 1, Name: "out", Address: "q"}) // not as a client that says again
	jms{p, 1}.say("1", 9)
	j = b.attachJMS(3, "app", "q")
	j.say("", 10) // none has no id
	j.say("1", 10)
	b.wantResent(1)
}

// An id is never remembered for a message that was not stored, and what was stored is accepted again even where nothing is stored now.
func TestRefusedIDsAreNotRemembered(t *testing.T) {
	b := newBundle(t)
	j := b.attachJMS(1, "app", "")
	refused := func(id string) {
		t.Helper()
		j.do(j.node, &command.Send{Conn: j.id, Link: 7, Address: "q", Message: identified(id, nil)})
		if b.one(command.EffectSent).Refusal == nil {
			t.Fatal("accepted")
		}
	}
	refused("1")
	b.do(1, &command.QueueCreate{Name: "q"})
	j.say("2", 1)
	b.disks(command.RoomFull, command.RoomFull, command.RoomFull)
	refused("3")
	j.end(command.EndReset)
	j = b.attachJMS(2, "app", "")
	j.say("2", 1)
	refused("3")
	b.disks(command.RoomOK, command.RoomOK, command.RoomOK)
	j.say("1", 2)
	j.say("3", 3)
	b.do(1, &command.QueuePurge{Name: "q"})
	b.tick(1)
	b.wantDepth("q", 0, 0)
	j.end(command.EndReset)
	j = b.attachJMS(2, "app", "")
	j.say("3", 0) // purged, and stored once
	b.do(1, &command.QueueDelete{Name: "q"})
	b.tick(1)
	j.say("1", 0)
	b.wantResent(3)
}

// The last 64 are kept, over however many attachments.
func TestWindowOf64(t *testing.T) {
	b := newBundle(t)
	j := b.attachJMS(1, "app", "q")
	n := uint64(0)
	for ; n < 100; n++ {
		j.say(fmt.Sprint(n), n+1)
		if n%30 == 29 {
			j.end(command.EndReset)
			j = b.attachJMS(command.NodeID(1+n%3), "app", "q")
		}
	}
	j.end(command.EndReset)
	j = b.attachJMS(2, "app", "q")
	for i := n - 64; i < n; i++ {
		j.say(fmt.Sprint(i), n)
	}
	b.wantResent(64)
	j.say(fmt.Sprint(n-65), n+1)
}

// A transaction's sends are neither compared nor remembered.
func TestResendsAndTransactions(t *testing.T) {
	b := newBundle(t)
	j := b.attachJMS(1, "app", "q")
	q, _ := b.m.Queue("q")
	commit := func(id string) {
		t.Helper()
		e := j.commit(command.Commit{Sends: []command.TxSend{{Target: q.Incarnation, Message: identified(id, nil)}}})
		wantOutcome(t, e, command.TxCommitted, "")
	}
	commit("1")
	j.say("2", 2)
	j.end(command.EndReset)
	j = b.attachJMS(2, "app", "q")
	j.say("1", 3)
	commit("2")
	b.wantDepth("q", 4, 0)
}

// Of two connections with the link one may be a former one that its home doesn't know to be lost: what comes late over it is compared too.
func TestLateOverFormerAttachment(t *testing.T) {
	b := newBundle(t)
	old := b.attachJMS(1, "app", "q")
	j := b.attachJMS(2, "app", "q")
	old.say("1", 1)
	j.say("1", 1)
	j.say("2", 2)
	old.say("2", 2)
	b.wantResent(2)
	old.end(command.EndClosed) // the other one still has it
	j.end(command.EndReset)
	b.attachJMS(3, "app", "q").say("1", 2)
}

// A user's windows of lost connections are bounded: the one that was lost first goes.
func TestLostWindowsAreBounded(t *testing.T) {
	b := newBundle(t)
	b.m.maxLost = 2
	for i, name := range []string{"a", "b", "c"} {
		j := b.attachJMS(1, name, "q")
		j.say("1", uint64(i+1))
		b.tick(1)
		j.end(command.EndReset)
	}
	o := b.connectAs(1, &command.ConnOpen{Principal: "bob", ContainerID: "a"}).resending(1, "out", "q")
	o.say("1", 4)
	o.end(command.EndReset)
	b.attachJMS(1, "b", "q").say("1", 4)
	b.attachJMS(1, "c", "q").say("1", 4)
	b.connectAs(1, &command.ConnOpen{Principal: "bob", ContainerID: "a"}).resending(1, "out", "q").say("1", 4)
	b.attachJMS(1, "a", "q").say("1", 5)
}

// Ids are compared exactly as they are encoded, of all types.
func TestMessageID(t *testing.T) {
	of := func(list ...byte) []byte {
		return append(append(section(sectionHeader, 0x45), section(sectionProperties, list...)...), section(0x77, 0x40)...)
	}
	uuid := append([]byte{0x98}, make([]byte, 16)...)
	for name, c := range map[string]struct{ message, want []byte }{
		"string":              {of(append([]byte{0xc0, 6, 2, 0xa1, 1, 'x'}, 0x40)...), []byte{0xa1, 1, 'x'}},
		"long string":         {of(0xd0, 0, 0, 0, 10, 0, 0, 0, 1, 0xb1, 0, 0, 0, 1, 'x'), []byte{0xb1, 0, 0, 0, 1, 'x'}},
		"ulong":               {of(0xc0, 2, 1, 0x44), []byte{0x44}},
		"small ulong":         {of(0xc0, 3, 1, 0x53, 0), []byte{0x53, 0}},
		"binary":              {of(0xc0, 4, 1, 0xa0, 1, 'x'), []byte{0xa0, 1, 'x'}},
		"uuid":                {of(append([]byte{0xc0, 18, 1}, uuid...)...), uuid},
		"null":                {of(0xc0, 5, 2, 0x40, 0xa1, 1, 'x'), nil},
		"an empty list":       {of(0x45), nil},
		"a list of nothing":   {of(0xc0, 1, 0), nil},
		"no properties":       {section(0x77, 0x40), nil},
		"no list":             {of(0xa1, 2, 'x', 'y'), nil},
		"an id that is cut":   {of(0xc0, 3, 1, 0xa1, 9), nil},
		"an id of no bytes":   {of(0xc0, 3, 1, 0xa1, 0), []byte{0xa1, 0}},
		"something described": {of(0xc0, 6, 1, 0, 0x53, 1, 0x53, 1), nil},
	} {
		if got := messageID(c.message); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", name, got, c.want)
		}
	}
}

// What is published to a topic that nobody subscribes to is stored nowhere, and its id neither.
func TestResendToTopic(t *testing.T) {
	b := newBundle(t)
	open := func() jms {
		p := b.connect(1, "app")
		p.do(1, &command.SenderOpen{Conn: p.id, Link: 7, Name: "out", Address: "t", Create: true, Routing: command.Multicast, Resends: true})
		return jms{p, 7}
	}
	publish := func(j jms) {
		j.do(1, &command.Send{Conn: j.id, Link: 7, Address: "t", Message: identified("1", nil)})
		if e := j.one(command.EffectSent); e.Refusal != nil {
			t.Fatalf("%+v", *e.Refusal)
		}
	}
	j := open()
	publish(j)
	r := b.connect(2, "reader")
	r.attach(&command.LinkOpen{Link: 1, Name: "in", Address: "t", Routing: command.Multicast}, 10)
	for _, want := range []int{1, 0} {
		j.end(command.EndReset)
		j = open()
		publish(j)
		if got := len(b.delivered()); got != want {
			t.Fatalf("%d delivered, want %d", got, want)
		}
	}
}
