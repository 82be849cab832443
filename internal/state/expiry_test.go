package state

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// TestExpiry: what waits when its time comes goes and is counted; what a link holds can be settled, and goes where it comes back. Time to live counts from the coming.
func TestExpiry(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	put := func(ttl uint32, body string) {
		m := section(0x77, text8(body)...)
		if ttl > 0 {
			m = brief(m, 4, ttl)
		}
		p.send("q", string(m))
	}
	b.do(1, &command.QueueCreate{Name: "q"})
	absolute := append([]byte{0xc0, 18, 9, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x83},
		binary.BigEndian.AppendUint64(nil, uint64(b.m.civil.now+1500))...)
	for i, ttl := range []uint32{2000, 1000, 0, 1000, 1000} {
		put(ttl, fmt.Sprint(i))
	}
	p.send("q", string(append(section(sectionProperties, absolute...), section(0x77, text8("absolute")...)...)))
	b.wantDepth("q", 6, 0)
	p.receiver(1, "q", 2)
	if got := len(b.delivered()); got != 2 { // 0 and 1
		t.Fatalf("%d were handed out", got)
	}
	refs := b.refs()
	b.tick(999)
	b.wantDepth("q", 6, 2)
	if due := b.m.Next().Civil; due != b.m.civil.now+1 {
		t.Errorf("the next entry is wanted in %d ms", due-b.m.civil.now)
	}
	b.tick(1) // 3 and 4
	b.wantDepth("q", 4, 2)
	p.settle(1, command.Released, refs[1])
	b.wantDepth("q", 3, 1)
	b.tick(500)
	b.wantDepth("q", 2, 1)
	b.tick(5000)
	p.settle(1, command.Accepted, refs[0])
	b.wantDepth("q", 1, 0)
	if got := b.m.Counters().ExpiredMessages; got != 4 {
		t.Errorf("%d are counted", got)
	}
	p.allow(1, 5)
	if got := b.delivered(); len(got) != 1 {
		t.Errorf("left are %q", got)
	}
	if b.m.timers.live() != 0 {
		t.Errorf("%d timers are left", b.m.timers.live())
	}
}

// TestExpiryManyAtOnce: a million that expire at once are work for many entries, and none of them goes out meanwhile.
func TestExpiryManyAtOnce(t *testing.T) {
	b := newBundle(t)
	b.single = true
	b.m.maxSteps, b.m.leastSteps = 40, 20
	p := b.connect(1, "p")
	b.do(1, &command.QueueCreate{Name: "q"})
	for i := range 200 {
		p.send("q", string(brief(section(0x77, text8(fmt.Sprint(i))...), 4, 1000)))
	}
	b.civil += 1000 // and the next entry comes at once, with a consumer
	p.receiver(1, "q", 100)
	if b.m.messages.live() == 0 {
		t.Fatal("all have expired within an entry")
	}
	if got := b.delivered(); len(got) != 0 {
		t.Fatalf("expired ones went out: %q", got)
	}
	for i := 0; b.m.messages.live() > 0; i++ {
		if i > 20 {
			t.Fatalf("%d are left", b.m.messages.live())
		}
		b.system(&command.Tick{})
	}
}

// TestExpiryOfATopic: it goes for those for whom it waits, and who holds it settles it.
func TestExpiryOfATopic(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	durable := func(number uint32, name string, allowance uint32) {
		p.attach(&command.LinkOpen{
			Link: number, Address: "t", Create: true, Routing: command.Multicast, Subscription: command.Subscription{Durable: true, Name: name},
		}, allowance)
	}
	durable(1, "holds", 1)
	durable(2, "waits", 0)
	durable(3, "behind", 0)
	send := func(body string, ttl uint32) { p.send("t", string(brief(section(0x77, text8(body)...), 4, ttl))) }
	send("a", 1000)
	ref := b.refs()[0]
	send("b", 9000)
	b.tick(1000)
	if q, _ := b.m.Queue("t"); q.Depth != 2 || b.m.Counters().ExpiredMessages != 2 {
		t.Errorf("%+v, %d expired", q, b.m.Counters().ExpiredMessages)
	}
	p.allow(2, 5)
	if got := b.delivered(); len(got) != 1 {
		t.Fatalf("who waited got %q", got)
	}
	p.settle(1, command.Released, ref)
	if q, _ := b.m.Queue("t"); q.Depth != 1 || b.m.Counters().ExpiredMessages != 3 {
		t.Errorf("%+v, %d expired", q, b.m.Counters().ExpiredMessages)
	}
	p.allow(3, 5)
	if got := b.delivered(); len(got) != 1 {
		t.Errorf("who was behind got %q", got)
	}
	b.tick(9000)
	if a := b.m.byName["t"]; a.marks != 0 {
		t.Errorf("%d marks are left", a.marks)
	}
}

// TestCheckBodiesOfATopic: dead letters of two subscriptions share a body, also with the message that a third one still has.
func TestCheckBodiesOfATopic(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	for n := range uint32(3) {
		p.attach(&command.LinkOpen{
			Link: n + 1, Address: "t", Create: true, Routing: command.Multicast, Subscription: command.Subscription{Durable: true, Name: fmt.Sprint(n)},
		}, 5)
	}
	p.send("t", "a")
	check := func(what string) {
		t.Helper()
		b.tick(0)
		if r, err := CheckBodies(testGroup, b.disk); err != nil || len(r.Wrong) > 0 || r.Orphans > 0 {
			t.Fatalf("%s: %+v, %v", what, r, err)
		}
	}
	ref := b.refs()[0]
	for n := range uint32(3) {
		p.settle(n+1, command.Rejected, ref)
		check(fmt.Sprint(n+1, " dead letters"))
	}
	p.receiver(9, "DLQ.t", 5)
	for i, ref := range b.refs() {
		p.settle(9, command.Accepted, ref)
		check(fmt.Sprint(i+1, " of them consumed"))
	}
	b.wantStored()
	for k := range b.disk.kv {
		if k[2] == keyBody {
			t.Errorf("a body is left: %x", k)
		}
	}
}
