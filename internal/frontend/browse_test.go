package frontend

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

func copying(a *amqp.Attach) { a.Source.DistributionMode = amqp.DistributionCopy }

func presettled(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleSettled }

// numbers are the texts from a on, before b.
func numbers(a, b int) (list []string) {
	for i := a; i < b; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// drainNow asks for all that there is, and checks that the node gives the credit back.
func (p *pair) drainNow(l *engine.Link, credit uint32) {
	p.r.t.Helper()
	if err := l.SetCredit(credit, true); err != nil {
		p.r.t.Fatal(err)
	}
	p.find(engine.Drained)
	if l.Credit() != 0 {
		p.r.t.Fatalf("%d credits are left behind a drain", l.Credit())
	}
}

// Checklist 72: a browser gets what is in the queue, also what others hold, once and in order; what it says about that does nothing,
// nothing is locked, and no entry of the log is made for it.
func TestBrowserLeavesEverything(t *testing.T) {
	for _, state := range []amqp.DeliveryState{
		&amqp.Accepted{}, &amqp.Rejected{}, &amqp.Released{}, &amqp.Modified{DeliveryFailed: true, UndeliverableHere: true},
		&amqp.TransactionalState{TxnID: []byte("none"), Outcome: &amqp.Accepted{}}, nil,
	} {
		for _, settled := range []bool{true, false} {
			if state == nil && !settled {
				continue // says nothing
			}
			r := newRig(t)
			c, s := r.fill("q", "1", "2", "3")
			c.receiver(s, "q", 1)
			held := c.want("1")[0]
			b := r.open("browser")
			bl := b.receiver(b.begin(), "q", 2, copying)
			bodies := r.log.bodies
			all := b.want("1 2")
			for _, m := range all {
				if m.d.Settled || len(m.d.Tag()) != 16 || m.head.DeliveryCount != 0 {
					t.Fatalf("a copy comes settled %v, with the tag %x and the header %+v", m.d.Settled, m.d.Tag(), m.head)
				}
				if _, ok := parseTag(m.d.Tag()); ok {
					t.Fatal("the tag may be one of a hand-out")
				}
				m.d.Dispose(state, settled)
			}
			r.pump()
			if bl.Unsettled() != 0 || !all[0].d.Settled {
				t.Fatalf("%T: we don't settle", state)
			}
			if err := bl.SetCredit(5, false); err != nil {
				t.Fatal(err)
			}
			b.want("3")
			if r.log.bodies != bodies {
				t.Fatalf("%T: %d records for a browser", state, r.log.bodies-bodies)
			}
			r.wantDepth("q", "3/1")
			held.d.Dispose(&amqp.Accepted{}, true)
			other := r.open("other")
			other.receiver(other.begin(), "q", 5)
			for _, m := range other.want("2 3") {
				if m.head.DeliveryCount != 0 || !m.head.FirstAcquirer {
					t.Fatalf("%T: behind a browser: %+v", state, m.head)
				}
			}
			b.none(engine.LinkDetached)
		}
	}
}

// Checklist 72: a drain gives everything and then the credit back, however many slices and windows it takes; a further one finds what has come since.
func TestBrowserDrain(t *testing.T) {
	for _, window := range []uint32{2048, 7} {
		r := newRig(t)
		n := 2*command.MaxBrowsed + 3
		c, _ := r.fill("q", numbers(0, n)...)
		s := c.begin(func(b *amqp.Begin) { b.IncomingWindow = window })
		l := c.receiver(s, "q", 0, copying, presettled)
		if err := l.SetCredit(uint32(n+10), true); err != nil {
			t.Fatal(err)
		}
		r.pump()
		c.want(strings.Join(numbers(0, n), " "))
		c.find(engine.Drained)
		c.drainNow(l, 10)
		c.want("")
		p := r.open("filler2")
		p.sendText(p.sender(p.begin(), "q"), "late")
		c.drainNow(l, 1)
		c.drainNow(l, 1)
		r.wantDepth("q", fmt.Sprintf("%d/0", n+1))
	}
}

// A drain that ends with the last credit is over: nothing is looked for that nobody may get.
func TestBrowserDrainByCredit(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3")
	l := c.receiver(s, "q", 0, copying, presettled)
	if err := l.SetCredit(2, true); err != nil {
		t.Fatal(err)
	}
	c.want("1 2")
	if l.Credit() != 0 {
		t.Fatalf("%d credits are left", l.Credit())
	}
	if err := l.SetCredit(2, false); err != nil {
		t.Fatal(err)
	}
	c.want("3")
}

// A drain must see all that its connection has said before, though it is still on its way through the log: JMS acknowledges and browses.
func TestBrowserSeesItsConnection(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2")
	c.receiver(s, "q", 1)
	m := c.want("1")[0]
	r.log.held = true
	m.d.Dispose(&amqp.Accepted{}, true)
	r.pump()
	bl := c.mustAttach(s, "b", copying)
	if err := bl.SetCredit(10, true); err != nil {
		t.Fatal(err)
	}
	r.reads()
	r.log.held = false
	c.want("2")
	c.find(engine.Drained)

	l := c.receiver(s, "q", 1)
	held := c.want("2")[0]
	r.log.held = true
	held.d.Dispose(&amqp.Accepted{}, true)
	again := c.mustAttach(s, "again", copying)
	if err := again.SetCredit(10, true); err != nil {
		t.Fatal(err)
	}
	r.reads()
	r.log.held = false
	c.want("")
	if l.Credit() != 0 || again.Credit() != 0 {
		t.Fatal("not drained")
	}
	bodies := r.log.bodies
	c.drainNow(again, 10)
	if r.log.bodies != bodies {
		t.Fatal("a drain went to the log that has nothing to wait for there")
	}
}

// reads has everybody go on as far as a replica lets them that answers questions and barriers and gets no entry.
func (r *rig) reads() {
	r.t.Helper()
	for range 5 {
		r.pump()
		r.log.reads()
	}
}

// A barrier of one drain says nothing about the next one.
func TestBrowserDrainsAgain(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q")
	l := c.receiver(s, "q", 0, copying, presettled)
	r.log.held = true
	for credit := range uint32(2) {
		if err := l.SetCredit(5+credit, true); err != nil {
			t.Fatal(err)
		}
		r.pump()
	}
	if len(r.log.barriers) != 1 {
		t.Fatalf("%d barriers at a time", len(r.log.barriers))
	}
	r.log.barriers[0](true)
	r.log.barriers = nil
	r.pump()
	if len(r.log.barriers) != 1 {
		t.Fatal("the second drain has no barrier of its own")
	}
	r.log.held = false
	r.pump()
	c.find(engine.Drained)
}

// mustAttach attaches a receiver of q and waits for nothing.
func (p *pair) mustAttach(s *engine.Session, name string, change ...func(*amqp.Attach)) *engine.Link {
	p.r.t.Helper()
	a := receiverAttach(name, "q")
	for _, f := range change {
		f(a)
	}
	l, err := s.Attach(*a)
	if err != nil {
		p.r.t.Fatal(err)
	}
	return l
}

// A browser at the end learns of what comes later, by one question that waits, and asks nothing of the log.
func TestBrowserWaits(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1")
	l := c.receiver(s, "q", 10, copying, presettled)
	c.want("1")
	p := r.open("filler2")
	out := p.sender(p.begin(), "q")
	bodies, questions := r.log.bodies, r.log.questions
	r.wait(3e9)
	if r.log.bodies != bodies || r.log.questions != questions {
		t.Fatalf("an idle browser made %d records and asked %d times", r.log.bodies-bodies, r.log.questions-questions)
	}
	p.sendText(out, "2", "3")
	c.want("2 3")
	c.drainNow(l, 5) // takes the place of the question that waits
	p.sendText(out, "4")
	c.want("")
	if err := l.SetCredit(5, false); err != nil {
		t.Fatal(err)
	}
	c.want("4")
	bodies = r.log.bodies
	if err := l.Detach(true, nil); err != nil {
		t.Fatal(err)
	}
	r.pump()
	if r.log.bodies != bodies {
		t.Fatal("a browser's end went to the log")
	}
	if n := len(r.log.browsers); n != 0 {
		t.Fatalf("%d questions wait for a browser that is gone", n)
	}
	c.receiver(s, "q", 10, copying, presettled)
	c.want("1 2 3 4")
	c.lose(command.EndReset)
	if n := len(r.log.browsers); n != 0 {
		t.Fatalf("%d questions wait for a connection that is gone", n)
	}
}

// An answer that was on its way when another question was asked is none: its messages come once.
func TestBrowserLateAnswer(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q")
	l := c.receiver(s, "q", 10, copying, presettled)
	r.pump()
	if len(r.log.browsers) != 1 {
		t.Fatal("it doesn't wait")
	}
	p := r.open("filler2")
	out := p.sender(p.begin(), "q")
	var late *command.BrowseSlice
	b := r.log.browsers[0]
	done := b.done
	b.done = func(s *command.BrowseSlice) { late = s }
	p.sendText(out, "1", "2")
	if late == nil {
		t.Fatal("no answer")
	}
	if err := l.SetCredit(10, true); err != nil {
		t.Fatal(err)
	}
	c.want("1 2")
	done(late)
	if err := l.SetCredit(10, false); err != nil {
		t.Fatal(err)
	}
	c.want("")
}

// Checklist 72, 32: a selector says what a browser sees; where nothing fits for long, a drain ends all the same.
func TestBrowserSelector(t *testing.T) {
	r := newRig(t)
	p := r.open("filler")
	out := p.sender(p.begin(), "q")
	for i := range 3000 {
		colour := "blue"
		if i%1000 == 999 {
			colour = "red"
		}
		b := amqp.AppendApplicationProperties(nil, amqp.Map{{Key: "colour", Value: colour}})
		if out.Credit() == 0 {
			r.pump()
		}
		p.send(out, engine.Transfer{Payload: [][]byte{append(b, text(fmt.Sprint(i))...)}})
	}
	r.pump()
	c := r.open("browser")
	a := func(a *amqp.Attach) {
		a.Source.Filter = amqp.Map{{Key: amqp.Symbol("s"), Value: &amqp.Described{Descriptor: amqp.FilterSelector, Value: "colour = 'red'"}}}
	}
	l := c.receiver(c.begin(), "q", 0, copying, presettled, a)
	if src := l.Remote().Source; src.DistributionMode != amqp.DistributionCopy || len(src.Filter) != 1 {
		t.Fatalf("the answer's source is %+v", src)
	}
	if err := l.SetCredit(10, true); err != nil {
		t.Fatal(err)
	}
	c.want("999 1999 2999")
	c.find(engine.Drained)
	if l.Credit() != 0 {
		t.Fatal("not drained")
	}
}

// What goes while a browser is on its way isn't seen: consumed, purged or deleted with its queue.
func TestBrowserBesideOthers(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3", "4", "5")
	c.stuck = true // the slice is here, and nothing of it is written
	l := c.mustAttach(s, "b", copying, presettled)
	r.pump()
	c.stuck = false
	r.pump()
	c.find(engine.LinkAttached)
	c.stuck = true
	if err := l.SetCredit(10, false); err != nil {
		t.Fatal(err)
	}
	r.pump()
	other := r.open("other")
	other.receiver(other.begin(), "q", 2)
	for _, m := range other.want("1 2") {
		m.d.Dispose(&amqp.Accepted{}, true)
	}
	r.pump()
	c.stuck = false
	c.want("3 4 5")
	r.log.queue = append(r.log.queue, command.Append(nil, &command.QueuePurge{Request: 1, Name: "q"}))
	r.pump()
	late := r.open("late")
	late.sendText(late.sender(late.begin(), "q"), "6")
	c.want("6")
	r.log.queue = append(r.log.queue, command.Append(nil, &command.QueueDelete{Request: 2, Name: "q"}), command.Append(nil, &command.QueueCreate{Request: 3, Name: "q"}))
	c.wantDetached(l, amqp.ErrCondResourceDeleted)
}

// A browser's queue is made as a receiver's is, and a user who may not do that is told that there is none.
func TestBrowserMakesItsQueue(t *testing.T) {
	may := map[Right]bool{RightConsume: true, RightCreate: true}
	r := newRig(t, Config{Access: func(_ string, right Right, address string) bool {
		return may[right] || right == RightSend
	}})
	c := r.open("browser")
	s := c.begin()
	l := c.receiver(s, "q", 3, copying)
	p := r.open("filler")
	p.sendText(p.sender(p.begin(), "q"), "1")
	c.want("1")
	if err := l.Detach(true, nil); err != nil {
		t.Fatal(err)
	}
	r.pump()
	delete(may, RightCreate)
	c.events = nil
	c.receiver(s, "q", 3, copying)
	c.want("1")
	for _, condition := range []amqp.Symbol{amqp.ErrCondNotFound, amqp.ErrCondUnauthorizedAccess} {
		may[RightConsume] = condition == amqp.ErrCondNotFound
		a := receiverAttach(string(condition), "none")
		copying(a)
		none, ev := c.attach(s, a)
		if !ev.Refused {
			t.Fatal("attached to a queue that isn't there")
		}
		c.wantDetached(none, condition)
	}
}

// The end of a connection has nothing to say about its browsers' copies.
func TestBrowserLost(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2")
	c.receiver(s, "q", 1)
	c.want("1")
	c.receiver(s, "q", 2, copying)
	c.want("1 2")
	c.lose(command.EndReset)
	r.wantDepth("q", "2/0")
	other := r.open("other")
	other.receiver(other.begin(), "q", 2)
	other.want("1 2")
}

// A message larger than the browser takes is passed over.
func TestBrowserTooLarge(t *testing.T) {
	r := newRig(t)
	large := strings.Repeat("x", 2000)
	c, s := r.fill("q", "1", large, "2")
	c.receiver(s, "q", 10, copying, func(a *amqp.Attach) { a.MaxMessageSize = 1000 })
	c.want("1 2")
	r.wantDepth("q", "3/0")
}

// Annotations that came with an outcome, and the delivery-count, are those of the moment.
func TestBrowserShowsWhatHasChanged(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "m")
	l := c.receiver(s, "q", 1)
	c.want("m")[0].d.Dispose(&amqp.Modified{DeliveryFailed: true, MessageAnnotations: amqp.Map{{Key: amqp.Symbol("x-opt-a"), Value: "b"}}}, true)
	r.pump()
	if err := l.Detach(true, nil); err != nil {
		t.Fatal(err)
	}
	r.pump()
	c.receiver(s, "q", 5, copying)
	m := c.want("m")[0]
	if m.head.DeliveryCount != 1 || !bytes.Contains(m.d.Payload, []byte("x-opt-a")) {
		t.Fatalf("header %+v, payload %q", m.head, m.d.Payload)
	}
}

// Many unsettled copies hold a browser back, as they do a consumer, until some are settled.
func TestBrowserUnsettledBound(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 messages")
	}
	r := newRig(t)
	c, _ := r.fill("q", numbers(0, maxUnsettled+2)...)
	s := c.begin(func(b *amqp.Begin) { b.IncomingWindow = 1 << 20 })
	l := c.receiver(s, "q", 0, copying)
	if err := l.SetCredit(maxUnsettled+100, true); err != nil {
		t.Fatal(err)
	}
	all := c.received()
	c.find(engine.Drained) // it can't take more
	if len(all) != maxUnsettled {
		t.Fatalf("%d messages came unsettled", len(all))
	}
	all[len(all)-1].d.DisposeThrough(&amqp.Accepted{}, true)
	r.pump()
	if err := l.SetCredit(2, true); err != nil {
		t.Fatal(err)
	}
	c.want(strings.Join(numbers(maxUnsettled, maxUnsettled+2), " "))
}
