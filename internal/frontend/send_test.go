package frontend

import (
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// A message goes in at one client and comes out at another, unchanged (checklist 46, 47, 57, 65).
func TestSendReceiveAccept(t *testing.T) {
	r := newRig(t)
	a := r.open("a")
	sa := a.begin()
	s := a.sender(sa, "q")
	if s.Credit() == 0 {
		t.Fatal("no credit for a new sender")
	}
	r.log.held = true
	d := a.sendText(s, "one")[0]
	if d.State != nil {
		t.Fatal("answered before it is applied (C14)")
	}
	r.log.held = false
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	r.wantDepth("q", "1/0")

	b := r.open("b")
	rb := b.receiver(b.begin(), "q", 10)
	m := b.want("one")[0]
	if !m.head.FirstAcquirer || m.head.DeliveryCount != 0 {
		t.Fatalf("header %+v", m.head)
	}
	if len(m.d.Tag()) != tagSize {
		t.Fatalf("tag %x", m.d.Tag())
	}
	r.wantDepth("q", "1/1")
	m.d.Dispose(&amqp.Accepted{}, true)
	r.wantDepth("q", "0/0")
	_ = rb
	_ = engine.Received
}
