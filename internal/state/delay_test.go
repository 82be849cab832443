package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// TestDelay: a delayed message is nobody's until its time comes; then it waits in its own place. A purge takes it too, and its time to live goes on meanwhile.
func TestDelay(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	put := func(body string, delay int64, ttl uint32) {
		m := section(0x77, text8(body)...)
		if delay > 0 {
			m = late(m, annotationDeliveryDelay, delay)
		}
		if ttl > 0 {
			m = brief(m, 4, ttl)
		}
		p.send("q", string(m))
	}
	b.do(1, &command.QueueCreate{Name: "q"})
	put("0", 1000, 0)
	put("1", 0, 0)
	put("2", 500, 0)
	put("3", 1000, 900) // expires before it arrives
	put("4", 0, 0)
	p.send("q", string(late(section(0x77, text8("5")...), annotationDeliveryTime, b.m.civil.now+1000)))
	p.send("q", string(late(section(0x77, text8("6")...), annotationDeliveryTime, b.m.civil.now))) // which is over
	if q, _ := b.m.Queue("q"); q.Depth != 7 || q.Delayed != 4 {
		t.Fatalf("%+v", q)
	}
	p.receiver(1, "q", 2)
	want := func(texts ...string) {
		t.Helper()
		var got []string
		for _, e := range b.kind(command.EffectDeliver) {
			body := b.body(e)
			got = append(got, body[len(body)-1:])
		}
		if fmt.Sprint(got) != fmt.Sprint(texts) {
			t.Fatalf("delivered %q, want %q", got, texts)
		}
	}
	want("1", "4")
	if due := b.m.Next().Civil; due != b.m.civil.now+500 {
		t.Errorf("the next entry is wanted in %d ms", due-b.m.civil.now)
	}
	b.tick(500)
	p.allow(1, 1)
	want("2") // before 6, which came later
	b.tick(499)
	p.allow(1, 1)
	want("6")
	b.tick(1)
	if q, _ := b.m.Queue("q"); q.Delayed != 0 || b.m.Counters().ExpiredMessages != 1 {
		t.Errorf("%+v, %d expired", q, b.m.Counters().ExpiredMessages)
	}
	p.allow(1, 5)
	want("0", "5")

	put("7", 1000, 0)
	p.do(1, &command.QueuePurge{Conn: p.id, Name: "q"})
	if e := b.one(command.EffectQueue); e.Number != 1 {
		t.Errorf("the purge took %d", e.Number)
	}
	put("8", 1000, 0)
	b.tick(1000)
	want("8")
}

// TestDelayOfATopic: who subscribes when it is sent gets it in its time, if it fits; who comes later doesn't.
func TestDelayOfATopic(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	open := func(number uint32, filter []byte) {
		p.attach(&command.LinkOpen{
			Link: number, Address: "t", Create: true, Routing: command.Multicast, Filter: filter,
			Subscription: command.Subscription{Durable: true, Name: fmt.Sprint(number)},
		}, 5)
	}
	open(1, nil)
	open(2, parsed(t, "colour = 1"))
	open(3, parsed(t, "colour = 2"))
	p.send("t", string(late(coloured("late", 1), annotationDeliveryDelay, 1000)), string(coloured("at once", 1)))
	open(4, nil)
	links := func(want ...uint32) {
		t.Helper()
		var got []uint32
		for _, e := range b.kind(command.EffectDeliver) {
			got = append(got, e.Link)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("delivered to %d, want %d", got, want)
		}
	}
	b.tick(999)
	links()
	b.tick(1)
	links(1, 2)
	if q, _ := b.m.Queue("t"); q.Depth != 2 {
		t.Errorf("%+v", q)
	}
}

// TestDelayAndSelectors: a link with a selector doesn't see what is still to arrive, and finds it then, wherever it has looked.
func TestDelayAndSelectors(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.attach(&command.LinkOpen{Link: 1, Address: "q", Create: true, Filter: parsed(t, "colour = 1")}, 5)
	p.send("q", string(late(coloured("late", 1), annotationDeliveryDelay, 1000)), string(late(coloured("not for it", 2), annotationDeliveryDelay, 1000)))
	if got := b.delivered(); len(got) != 0 {
		t.Fatalf("delivered %q", got)
	}
	p.send("q", string(coloured("now", 1)))
	if got := b.delivered(); len(got) != 1 {
		t.Fatalf("delivered %q", got)
	}
	p.attach(&command.LinkOpen{Link: 2, Address: "q", Filter: parsed(t, "colour = 2")}, 5)
	b.tick(1000)
	if got := b.delivered(); len(got) != 2 {
		t.Fatalf("delivered %q", got)
	}
}
