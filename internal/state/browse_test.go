package state

import (
	"fmt"
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

// sliceAll reads a queue as a browser does, and counts the slices.
func (b *bundle) sliceAll(q command.Browse) (texts []string, slices, most int) {
	b.Helper()
	x, err := NewBrowser(q)
	if err != nil {
		b.Fatal(err)
	}
	for range 100_000 {
		s, steps := b.m.Slice(x)
		slices, most = slices+1, max(most, steps)
		if len(s.Messages) > min(q.Most, command.MaxBrowsed) || s.Link != q.Link || s.Turn != q.Turn || s.Incarnation == 0 {
			b.Fatalf("%d messages, link %d, turn %d, incarnation %d", len(s.Messages), s.Link, s.Turn, s.Incarnation)
		}
		for _, m := range s.Messages {
			body, found, err := ReadMessage(nil, testGroup, s.Incarnation, m.Position, b.disk.get)
			if !found || err != nil {
				b.Fatalf("position %d: %v, %v", m.Position, found, err)
			}
			texts = append(texts, string(body[len(body)-3:]))
		}
		if x.Incarnation, x.After = s.Incarnation, s.Next; !s.More {
			return texts, slices, most
		}
	}
	b.Fatal("the queue has no end")
	return nil, 0, 0
}

// prioritised is a message with a priority.
func prioritised(priority byte, body string) string {
	return string(append(section(sectionHeader, 0xc0, 4, 2, 0x40, 0x50, priority), section(0x77, text8(body)...)...))
}

// What comes while a browser is on its way, or at the end, is seen, with whatever priority.
func TestBrowsePriorities(t *testing.T) {
	b := newBundle(t)
	b.do(1, &command.QueueCreate{Name: "q"})
	p := b.connect(1, "app")
	p.send("q", prioritised(4, "4.1"), prioritised(4, "4.2"), prioritised(0, "0.1"))
	x, err := NewBrowser(command.Browse{Queue: "q", Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		s, _ := b.m.Slice(x)
		x.After = s.Next
		if len(s.Messages) == 0 {
			if s.More {
				t.Error("more of nothing")
			}
			return ""
		}
		body, _, _ := ReadMessage(nil, testGroup, s.Incarnation, s.Messages[0].Position, b.disk.get)
		return string(body[len(body)-3:])
	}
	for _, step := range []struct {
		send byte // this priority before
		body string
		want []string
	}{
		{want: []string{"4.1"}},
		{9, "9.1", []string{"9.1", "4.2", "0.1", ""}},
		{5, "5.1", []string{"5.1", ""}},
		{9, "9.2", []string{"9.2", "", ""}},
		{4, "4.3", []string{"4.3", ""}},
	} {
		if step.body != "" {
			p.send("q", prioritised(step.send, step.body))
		}
		for _, want := range step.want {
			if got := next(); got != want {
				t.Errorf("behind %q comes %q, want %q", step.body, got, want)
			}
		}
	}
}

// A browser's selector chooses by the messages' heads and their counts of now; a slice has a bound, also where nothing fits.
func TestBrowseSelected(t *testing.T) {
	b := newBundle(t)
	b.single = true
	b.do(1, &command.QueueCreate{Name: "q"})
	p := b.connect(1, "app")
	var bodies []string
	for i := range 3000 {
		colour := 1
		if i%1000 == 7 {
			colour = 2
		}
		bodies = append(bodies, string(coloured(fmt.Sprintf("%03d", i/10), colour)))
	}
	p.send("q", bodies...)
	q := command.Browse{Link: 3, Turn: 4, Queue: "q", Most: 1000, Filter: parsed(t, "colour = 2")}
	texts, slices, most := b.sliceAll(q)
	if fmt.Sprint(texts) != "[000 100 200]" || slices < 3 || most > browseSteps+matchSteps+2 {
		t.Errorf("%q in %d slices of at most %d steps", texts, slices, most)
	}
	q.Filter = nil
	if texts, slices, most = b.sliceAll(q); len(texts) != 3000 || slices != 12 || most > command.MaxBrowsed+1 {
		t.Errorf("%d messages in %d slices of at most %d steps", len(texts), slices, most)
	}
	q.Filter = parsed(t, "JMSXDeliveryCount > 1")
	if texts, _, _ = b.sliceAll(q); len(texts) != 0 {
		t.Errorf("delivered twice: %q", texts)
	}
	p.receiver(1, "q", 2)
	refs := b.refs()
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Request: p.next(), Refs: refs[:1], Disposition: command.Disposition{Outcome: command.Modified, Failed: true}})
	if texts, _, _ = b.sliceAll(q); fmt.Sprint(texts) != "[000]" {
		t.Errorf("delivered twice: %q", texts)
	}
	if _, err := NewBrowser(command.Browse{Filter: []byte{0xff}}); err == nil {
		t.Error("a filter that can't be read is one")
	}
	none, _ := NewBrowser(command.Browse{Queue: "none", Most: 1})
	if s, steps := b.m.Slice(none); s.Incarnation != 0 || s.More || steps == 0 {
		t.Errorf("of no queue: %+v, %d steps", s, steps)
	}
}

// What has expired and waits isn't shown, though it isn't dropped yet; what a consumer holds is.
func TestBrowseExpired(t *testing.T) {
	b := newBundle(t)
	b.do(1, &command.QueueCreate{Name: "q"})
	p := b.connect(1, "app")
	ttl := func(body string) string {
		return string(append(section(sectionHeader, 0xc0, 5, 3, 0x40, 0x40, 0x52, 9), section(0x77, text8(body)...)...))
	}
	p.send("q", ttl("a"), ttl("b"), "c")
	p.receiver(1, "q", 1)
	seen := func() (n int) {
		list, _, _, _, _ := b.m.Browse(nil, "q", 0, 0, 5)
		return len(list)
	}
	before := seen()
	b.m.civil.now += 1000 // no entry has come that could drop it
	if after := seen(); before != 3 || after != 2 {
		t.Errorf("%d messages, and %d when two have expired of which one is held", before, after)
	}
}
