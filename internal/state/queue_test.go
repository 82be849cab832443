package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

func TestSendDeliverAccept(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	c := b.connect(2, "c")
	c.receiver(1, "orders", 2)
	p.send("orders", "a", "b", "c")
	b.wantDelivered("a/0", "b/0")
	b.wantDepth("orders", 3, 2)
	refs := b.refs()
	c.settle(1, command.Accepted, refs[0])
	b.wantDelivered()
	c.allow(1, 1)
	b.wantDelivered("c/0")
	c.settle(1, command.Accepted, append(refs[1:], b.refs()...)...)
	b.wantDepth("orders", 0, 0)
	// Nothing but the queue, the links and the clock is left.
	for k := range b.disk.kv {
		if k[2] == keyMessage || k[2] == keyBody || k[2] == keyDelivery {
			t.Fatalf("key %x is left", k)
		}
	}
}

func TestWithinOneEntryNoKeys(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 0)
	var puts int
	p.send("q", "a")
	p.allow(1, 5)
	ref := b.refs()[0]
	p.do(1, &command.Send{Conn: p.id, Link: 9, Address: "q", Message: []byte("b")}, &command.QueuePurge{Conn: p.id, Name: "q"},
		&command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: []command.DeliveryRef{ref}})
	for _, op := range b.disk.log {
		if len(op) > 10 && (op[:12] == "put 000330" || op[:10] == "put 000380") {
			puts++
		}
	}
	if puts != 0 {
		t.Fatalf("%d keys of a message that came and went in one entry", puts)
	}
	b.wantDepth("q", 0, 0)
}

// C11: what comes back goes to its own place, before all later ones.
func TestReturnedGoToTheirPlace(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 0)
	p.send("q", "a", "b", "c", "d")
	p.allow(1, 3)
	b.wantDelivered("a/0", "b/0", "c/0")
	refs := b.refs()
	p.settle(1, command.Released, refs[2], refs[0])
	p.allow(1, 4)
	b.wantDelivered("a/0+", "c/0+", "d/0")
}

func TestRoundRobin(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	for n := uint32(1); n <= 3; n++ {
		p.receiver(n, "q", 2)
	}
	p.send("q", "a", "b", "c", "d", "e", "f", "g")
	var links string
	for _, e := range b.kind(command.EffectDeliver) {
		links += fmt.Sprint(e.Link)
	}
	if links != "123123" {
		t.Fatalf("links %s", links)
	}
}

// [3.4] the last message may exceed the bytes.
func TestAllowanceInBytes(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 0)
	p.send("q", "aaaa", "bbbb", "cccc")
	p.do(1, &command.Allow{Conn: p.id, Link: 1, Messages: 10, Bytes: 5})
	b.wantDelivered("aaaa/0", "bbbb/0")
}

// C8: counts and first-acquirer by outcome.
func TestOutcomesCount(t *testing.T) {
	for _, c := range []struct {
		name string
		d    command.Disposition
		want string
	}{
		{"released", command.Disposition{Outcome: command.Released}, "m/0+"},
		{"modified", command.Disposition{Outcome: command.Modified}, "m/0+"},
		{"modified failed", command.Disposition{Outcome: command.Modified, Failed: true}, "m/1+"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBundle(t)
			p := b.connect(1, "p")
			p.receiver(1, "q", 2)
			p.send("q", "m")
			p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: c.d, Refs: b.refs()})
			b.wantDelivered(c.want)
		})
	}
}

// C13: rejected messages and those that failed ten times are dead letters, in one
// place, with their story.
func TestDeadLetters(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 100)
	p.send("q", "bad")
	for i := range 10 {
		refs := b.refs()
		if len(refs) != 1 {
			t.Fatalf("round %d: %d deliveries", i, len(refs))
		}
		p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Modified, Failed: true}, Refs: refs})
	}
	b.wantDepth("q", 0, 0)
	b.wantDepth("DLQ.q", 1, 0)
	p.send("q", "worse")
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Rejected, Reason: "no such order"}, Refs: b.refs()})
	b.wantDepth("DLQ.q", 2, 0)
	p.receiver(2, "DLQ.q", 10)
	b.wantDelivered("bad/0+", "worse/0+")
	for i, want := range []string{"redelivery limit", "no such order"} {
		e := b.kind(command.EffectDeliver)[i]
		if pairs, n, ok := mapPairs(e.Overlay); !ok || n != 10 || !hasKey(pairs, n, appendSymbol(nil, "x-opt-oncemq-dead-queue")) {
			t.Fatalf("overlay %q", e.Overlay)
		} else if story := string(e.Overlay); !contains(story, want) || !contains(story, "q") {
			t.Fatalf("overlay %q doesn't say %q", story, want)
		}
	}
	// The queue goes; the dead letters' bytes stay until they are consumed.
	refs := b.refs()
	p.do(1, &command.QueueDelete{Conn: p.id, Name: "q"})
	b.tick(0)
	p.settle(2, command.Released, refs...)
	b.wantDelivered("bad/0+", "worse/0+")
	p.settle(2, command.Accepted, b.refs()...)
	for k := range b.disk.kv {
		if k[2] >= keyMessage {
			t.Fatalf("key %x is left", k)
		}
	}
	if n := b.m.Counters().DeadLettered; n != 2 {
		t.Fatalf("%d dead letters counted", n)
	}
}

func contains(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// A dead-letter queue keeps its poison, and doesn't give it to the rejecting link
// again.
func TestDeadLetterQueueKeepsItsOwn(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "DLQ.q", 5)
	p.send("DLQ.q", "bad", "good")
	p.settle(1, command.Rejected, b.refs()[0])
	b.wantDelivered()
	b.wantDepth("DLQ.q", 2, 1)
	p.receiver(2, "DLQ.q", 5)
	b.wantDelivered("bad/1+")
	if _, ok := b.m.Queue("DLQ.DLQ.q"); ok {
		t.Fatal("a dead-letter queue of a dead-letter queue")
	}
}

// [3.9] undeliverable-here: not to that link again. With every living link excluded the
// message waits in its place for one that comes later; an end clears its link's wish.
func TestUndeliverableHere(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.receiver(2, "q", 0)
	here := command.Disposition{Outcome: command.Modified, UndeliverableHere: true}
	p.send("q", "a", "b")
	refs := b.refs()
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: here, Refs: refs[:1]})
	b.wantDelivered()
	p.allow(2, 1)
	b.wantDelivered("a/0+")
	p.do(1, &command.Settle{Conn: p.id, Link: 2, Disposition: here, Refs: b.refs()})
	b.wantDelivered()
	b.wantDepth("q", 2, 1)
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: here, Refs: refs[1:]})
	b.wantDelivered()
	b.wantDepth("q", 2, 0)
	p.receiver(3, "q", 1) // a link that comes later, in the order of the queue (C11)
	b.wantDelivered("a/0+")
	p.allow(2, 1)
	b.wantDelivered("b/0+")
	p.settle(2, command.Released, b.refs()...)
	b.wantDelivered()
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 3, Closed: true})
	b.wantDelivered()                                            // a is still not for 1 and 2, b not for 1
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true}) // its wishes end
	p.receiver(4, "q", 5)
	b.wantDelivered("a/0+", "b/0+")
	if n := b.m.Counters().DeadLettered; n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}

// [3.9] The wishes of links that have ended while somebody else held the message count
// no more: eight of them are no reason for a dead letter. Nine living ones are.
func TestExclusionsOfEndedLinks(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	here := command.Disposition{Outcome: command.Modified, UndeliverableHere: true}
	p.receiver(1, "q", 1)
	p.send("q", "a")
	for n := uint32(1); n <= 10; n++ {
		refs := b.refs()
		p.do(1, &command.Settle{Conn: p.id, Link: n, Disposition: here, Refs: refs})
		p.receiver(n+1, "q", 1)
		b.wantDelivered("a/0+")
		refs = b.refs()
		p.do(1, &command.LinkEnd{Conn: p.id, Link: n, Closed: true})
		b.effects = append(b.effects[:0], command.Effect{Kind: command.EffectDeliver, Ref: refs[0]})
	}
	b.wantDepth("q", 1, 1)
	for n := uint32(11); n <= 19; n++ {
		p.do(1, &command.Settle{Conn: p.id, Link: n, Disposition: here, Refs: b.refs()})
		if n < 19 {
			p.receiver(n+1, "q", 1)
		}
	}
	b.wantDepth("q", 0, 0)
	b.wantDepth("DLQ.q", 1, 0)
}

// The same where the eight end while the ninth has it.
func TestExclusionsOfManyEndedLinks(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	here := command.Disposition{Outcome: command.Modified, UndeliverableHere: true}
	p.receiver(1, "q", 1)
	p.send("q", "a")
	for n := uint32(1); n <= maxExcluded; n++ {
		p.do(1, &command.Settle{Conn: p.id, Link: n, Disposition: here, Refs: b.refs()})
		p.receiver(n+1, "q", 1)
	}
	refs := b.refs()
	for n := uint32(1); n <= maxExcluded; n++ {
		p.do(1, &command.LinkEnd{Conn: p.id, Link: n, Closed: true})
	}
	p.do(1, &command.Settle{Conn: p.id, Link: maxExcluded + 1, Disposition: here, Refs: refs})
	b.wantDepth("q", 1, 0)
	b.wantDepth("DLQ.q", 0, 0)
}

// A consumer that wants nothing can't make a queue expensive: beyond 1,000 messages that
// exclude links the next ones are dead letters, and don't come back to it at once.
func TestManyUndeliverable(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	p.receiver(1, "q", 3000)
	for range 1500 {
		p.send("q", "a")
		p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Modified, UndeliverableHere: true}, Refs: b.refs()})
		b.wantDelivered()
	}
	b.wantDepth("q", maxPicky, 0)
	b.wantDepth("DLQ.q", 1500-maxPicky, 0)
}

// [4.2] What a deletion costs is what the queue holds, not what it ever held.
func TestDeleteAfterLongLife(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	p.receiver(1, "q", 100)
	p.send("q", "a", "b")
	q := b.m.byName["q"]
	for di := q.queue.links[0].first; di != 0; di = q.queue.links[0].first {
		b.m.consume(q.queue.links[0], di)
	}
	q.lanes[0], q.queue.lanes[0].cursor = 1<<40, 1<<40 // after a trillion messages
	b.m.markPlace(q)
	p.send("q", "c", "d")
	p.do(1, &command.QueueDelete{Conn: p.id, Name: "q"})
	for i := 0; b.m.Next().Job; i++ {
		if i == 3 {
			t.Fatal("the deletion takes more than three entries")
		}
		b.system(&command.Tick{})
	}
	if len(b.m.byInc) != 0 || b.m.messages.live() != 0 {
		t.Fatal("something is left")
	}
}

func TestModifiedAnnotations(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 9)
	p.send("q", "m")
	annotate := func(k, v string) {
		m := wrapMap(appendText(appendSymbol(nil, k), v), 2)
		p.do(1, &command.Settle{
			Conn: p.id, Link: 1, Refs: b.refs(),
			Disposition: command.Disposition{Outcome: command.Modified, Annotations: m},
		})
	}
	annotate("a", "1")
	annotate("b", "2")
	annotate("a", "3")
	want := wrapMap(appendText(appendSymbol(appendText(appendSymbol(nil, "b"), "2"), "a"), "3"), 4)
	if e := b.one(command.EffectDeliver); string(e.Overlay) != string(want) {
		t.Fatalf("overlay %q, want %q", e.Overlay, want)
	}
}

func TestPurgeAndDelete(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 2)
	p.send("q", "a", "b", "c", "d")
	refs := b.refs()
	p.settle(1, command.Released, refs[0])
	p.do(1, &command.QueuePurge{Conn: p.id, Request: 7, Name: "q"}) // a, c, d go; b is held
	if e := b.one(command.EffectQueue); e.Number != 3 || e.Request != 7 {
		t.Fatalf("%+v", e)
	}
	b.wantDepth("q", 1, 1)
	p.send("q", "e")
	p.settle(1, command.Released, refs[1])
	p.allow(1, 5)
	b.wantDelivered("b/0+", "e/0")
	refs = b.refs()
	b.do(2, &command.QueueDelete{Request: 8, Name: "q"})
	if e := b.one(command.EffectQueue); e.Node != 2 || e.Local != 0 || e.Request != 8 || e.Number != 2 {
		t.Fatalf("%+v", e)
	}
	if e := b.one(command.EffectLinkEnded); e.Link != 1 || e.Refusal.Condition != condDeleted {
		t.Fatalf("%+v", e)
	}
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Request: 3, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs})
	if e := b.one(command.EffectSettled); len(e.Refs) != 2 {
		t.Fatalf("%+v", e)
	}
	p.do(1, &command.Send{Conn: p.id, Link: 2, Target: 77, Message: []byte("late")})
	if e := b.one(command.EffectSent); e.Refusal == nil || e.Refusal.Condition != condDeleted {
		t.Fatalf("%+v", e)
	}
}

func TestQueueNames(t *testing.T) {
	b := newBundle(t)
	for name, ok := range map[string]bool{
		"a": true, "ä/ö.ü x": true, "": false, "$oncemq.tx": false, "a\x00": false, "a\u0085": false, "\xff": false,
		string(make([]byte, 300)): false,
	} {
		b.do(1, &command.QueueCreate{Name: name})
		if e := b.one(command.EffectQueue); e.Refusal == nil != ok {
			t.Errorf("%q: %+v", name, e.Refusal)
		}
	}
	b.do(1, &command.QueueCreate{Name: "a"})
	if e := b.one(command.EffectQueue); !e.Existed {
		t.Error("a isn't there")
	}
}

// [4.2] no entry does more than its share; the rest follows with ticks, in order.
func TestLargeWorkIsAJob(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	c := b.connect(2, "c")
	c.receiver(1, "q", 0)
	const n = 25_000
	var cs []command.Command
	for i := range n {
		cs = append(cs, &command.Send{Conn: p.id, Link: 1, Address: "q", Message: []byte(fmt.Sprint(i))})
		if len(cs) == 5000 {
			b.do(1, cs...)
			cs = nil
		}
	}
	c.allow(1, n)
	got := len(b.kind(command.EffectDeliver))
	if got > maxSteps || !b.m.Next().Job {
		t.Fatalf("%d handed out at once", got)
	}
	b.tick(0)
	b.wantDepth("q", n, n)
	b.single = false
	c.do(2, &command.ConnEnd{Conn: c.id, Cause: command.EndReset})
	if q, _ := b.m.Queue("q"); q.InFlight == 0 || !b.m.Next().Job {
		t.Fatal("all returned at once")
	}
	b.single = true
	d := b.connect(3, "d")
	d.receiver(1, "q", 1)
	b.wantDelivered() // nothing goes out while earlier ones are still coming back (C11)
	b.tick(0)
	if e := b.all[len(b.all)-1]; e.Kind != command.EffectDeliver || b.body(e) != "0" || e.Count != 1 {
		t.Fatalf("%+v", e)
	}
	b.do(1, &command.QueuePurge{Name: "q"})
	if e := b.one(command.EffectQueue); e.Number != n-1 {
		t.Fatalf("%+v", e)
	}
	b.wantDepth("q", 1, 1)
	if !b.m.Next().Job {
		t.Fatal("purged at once")
	}
	b.single = false
	p.send("q", "later")
	d.allow(1, 1)
	b.wantDelivered("later/0")
	b.single = true
	b.tick(0)
	b.do(1, &command.QueueDelete{Name: "q"})
	b.tick(0)
	if err := b.m.verify(); err != nil {
		t.Fatal(err)
	}
	if b.m.messages.live() != 0 || b.m.deliveries.live() != 0 || b.m.chunks.live() != 0 {
		t.Fatal("memory is left")
	}
}
