package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// TestNoLocalBehindTheCursor: what a container sends isn't for its subscription with no-local, also where that has something waiting before it.
func TestNoLocalBehindTheCursor(t *testing.T) {
	b := newBundle(t)
	p, q := b.connect(1, "p"), b.connect(2, "q")
	open := func(number uint32, noLocal bool) {
		p.attach(&command.LinkOpen{
			Link: number, Address: "t", Create: true, Routing: command.Multicast,
			Subscription: command.Subscription{Durable: true, Name: fmt.Sprint(number), NoLocal: noLocal},
		}, 0)
	}
	open(1, true)
	p.send("t", "own") // for nobody
	if info, _ := b.m.Queue("t"); info.Depth != 0 {
		t.Errorf("%+v", info)
	}
	q.send("t", "a")
	open(2, false)
	p.send("t", "own", "own again")
	q.send("t", "b")
	if info, _ := b.m.Queue("t"); info.Depth != 4 || b.m.byName["t"].marks != 2 {
		t.Errorf("%+v, %d marks", info, b.m.byName["t"].marks)
	}
	p.allow(1, 9)
	b.wantDelivered("a/0", "b/0")
	p.allow(2, 9)
	b.wantDelivered("own/0", "own again/0", "b/0")
	if n := b.m.byName["t"].marks; n != 0 {
		t.Errorf("%d marks are left", n)
	}
}

// TestTopicMessageGoesWithTheLast: a message is stored once, stays while one subscription has it to read, and goes with the last.
func TestTopicMessageGoesWithTheLast(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	for n := range uint32(3) {
		p.attach(&command.LinkOpen{Link: n + 1, Address: "t", Create: true, Routing: command.Multicast}, 5)
	}
	p.send("t", "a")
	ref := b.refs()[0]
	for n := range uint32(3) {
		if b.m.messages.live() != 1 {
			t.Fatalf("%d messages are stored, and %d have read it", b.m.messages.live(), n)
		}
		p.settle(n+1, command.Accepted, ref)
	}
	if b.m.messages.live() != 0 {
		t.Error("it is still there")
	}
	p.send("t", "b")
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 2, Closed: true})
	if b.m.messages.live() != 1 {
		t.Fatal("it went with who didn't read it")
	}
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 3, Closed: true})
	b.tick(0)
	if b.m.messages.live() != 0 || len(b.m.subscriptionByID) != 0 {
		t.Error("something is left of subscriptions that are over")
	}
}
