package frontend

import (
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// flow has the node take a flow that the client's engine knows nothing of.
func (p *pair) flow(s *engine.Session, had, window uint32, link func(*amqp.Flow)) {
	p.r.t.Helper()
	p.r.pump()
	f := amqp.Flow{NextIncomingID: amqp.Some(had), IncomingWindow: window, OutgoingWindow: 1000}
	if link != nil {
		f.Handle, f.DeliveryCount = amqp.Some(uint32(0)), amqp.Some(uint32(0))
		link(&f)
	}
	p.fe.Input(amqp.AppendFlow(nil, s.Channel(), &f), p.r.now)
	p.r.pump()
}

func credit(n uint32) func(*amqp.Flow) { return func(f *amqp.Flow) { f.LinkCredit = amqp.Some(n) } }

// [3.4]: a link is handed no more than its session's window lets through, and what was handed to it before the window closed
// goes back after a second; a drain waits for the window. All goes on when it opens.
func TestSessionWindow(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1", "2", "3", "4", "5", "6")
	c := r.open("c")
	s := c.begin()
	c.receiver(s, "q", 0)
	c.deaf = true
	c.flow(s, 0, 2, credit(5))
	r.wantDepth("q", "6/2")
	r.log.lease = 0
	c.flow(s, 2, 2, nil)
	r.wantDepth("q", "6/4")
	c.flow(s, 2, 0, nil)
	r.log.lease = time.Hour
	r.wait(1200 * time.Millisecond)
	r.wantDepth("q", "6/2")
	c.flow(s, 2, 0, func(f *amqp.Flow) { credit(5)(f); f.Drain = true })
	r.wait(2 * time.Second)
	c.flow(s, 2, 100, nil)
	r.wantDepth("q", "6/5")
	c.deaf = false
	c.cl.Sessions(func(s *engine.Session) { s.Links(func(l *engine.Link) { _ = l.SetCredit(5, false) }) })
	c.want("1 2 3 4 5")
}

// A session whose window is closed, in the middle of a message perhaps, doesn't hold up the others of its connection.
func TestClosedWindowOfAnotherSession(t *testing.T) {
	r := newRig(t)
	huge := strings.Repeat("x", 3<<20)
	r.fill("big", huge, huge)
	r.fill("q", "1")
	c := r.open("c")
	blocked, s := c.begin(), c.begin()
	c.receiver(blocked, "big", 0)
	c.receiver(s, "q", 0)
	c.deaf = true
	c.flow(blocked, 0, 1, credit(2))
	wrote := c.wrote
	c.flow(s, 0, 100, credit(1))
	if c.wrote == wrote {
		t.Fatal("held up")
	}
	r.wantDepth("q", "1/1")
}

// [3.4]: what is handed out while a withdrawal is on its way through the log must not overtake what was withdrawn: it goes back as well.
func TestHandedOutDuringWithdrawal(t *testing.T) {
	r := newRig(t)
	sender := r.open("sender")
	l := sender.sender(sender.begin(), "q")
	c := r.open("c")
	c.receiver(c.begin(), "q", 10)
	r.log.lease = 0 // 1 is handed out, and waits at home
	sender.sendText(l, "1")
	r.log.held = true
	sender.sendText(l, "2", "3")
	sends := r.log.queue
	r.log.queue = nil
	r.log.lag = 3 * time.Second // as a node finds when it wakes up: it takes back what it can
	r.wait(time.Second)
	withdrawal := r.log.queue
	if len(sends) == 0 || len(withdrawal) == 0 {
		t.Fatalf("%d records of sends, %d of the withdrawal", len(sends), len(withdrawal))
	}
	r.log.lag, r.log.lease, r.log.held = 0, time.Hour, false
	r.log.queue = sends
	r.log.step(t)
	r.log.queue = append(withdrawal, r.log.queue...)
	r.wait(time.Second)
	c.want("1 2 3")
	r.wantDepth("q", "3/3")
}
