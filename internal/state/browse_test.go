package state

import (
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// browseAll reads a queue in slices.
func (b *bundle) browseAll(queue string, most int) (bodies string) {
	b.Helper()
	var inc command.Incarnation
	after := uint64(0)
	for range 1000 {
		list, of, next, more, ok := b.m.Browse(nil, queue, inc, after, most)
		if !ok || len(list) > most {
			b.Fatalf("ok %v, %d messages of %d", ok, len(list), most)
		}
		for _, x := range list {
			if x.Position <= after {
				b.Fatalf("position %d behind %d", x.Position, after)
			}
			body, found, err := ReadMessage(nil, testGroup, of, x.Position, b.disk.get)
			if !found || err != nil {
				b.Fatalf("position %d: %v, %v", x.Position, found, err)
			}
			bodies += string(body)
			if x.Held {
				bodies += "!"
			}
			if x.Overlay != nil {
				bodies += "+"
			}
			after = x.Position
		}
		if inc, after = of, next; !more {
			return bodies
		}
	}
	b.Fatal("the queue has no end")
	return ""
}

// TestBrowse [4.7]: every message of the queue once, in its order, whoever has it, and none that is gone.
func TestBrowse(t *testing.T) {
	b := newBundle(t)
	b.do(1, &command.QueueCreate{Name: "q"})
	p := b.connect(1, "app")
	p.send("q", "a", "b", "c", "d", "e")
	p.receiver(1, "q", 2)
	refs := b.refs()
	before := b.m.dump()
	for most := 1; most < 7; most++ {
		if got := b.browseAll("q", most); got != "a!b!cde" {
			t.Errorf("%d at a time: %s", most, got)
		}
	}
	if after := b.m.dump(); after != before {
		t.Error("browsing has changed something")
	}
	p.settle(1, command.Accepted, refs[1])
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Request: p.next(), Refs: refs[:1], Disposition: command.Disposition{Outcome: command.Rejected}})
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	b.tick(0)
	if got := b.browseAll("q", 2); got != "cde" {
		t.Errorf("left are %s", got)
	}
	if got := b.browseAll("DLQ.q", 2); got != "a+" {
		t.Errorf("dead letters: %s", got)
	}
	if _, _, _, _, ok := b.m.Browse(nil, "q", 1, 0, 5); ok {
		t.Error("another life of the queue is browsed")
	}
	if _, _, _, _, ok := b.m.Browse(nil, "none", 0, 0, 5); ok {
		t.Error("a queue that isn't there is browsed")
	}
}

// TestBrowsePurged: what a purge has taken is gone at once, however long the dropping takes, and so is room without messages passed over in bounded steps.
func TestBrowsePurged(t *testing.T) {
	b := newBundle(t)
	b.single = true
	b.do(1, &command.QueueCreate{Name: "q"})
	p := b.connect(1, "app")
	for range 200 {
		p.send("q", "x", "y")
	}
	b.m.maxSteps, b.m.leastSteps = 20, 10
	p.do(1, &command.QueuePurge{Request: 1, Name: "q"})
	p.send("q", "z")
	if got := b.browseAll("q", 10); got != "z" {
		t.Errorf("behind a purge: %.40s", got)
	}
}
