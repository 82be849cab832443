package frontend

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// proposed says which commands wait to be applied.
func (l *lone) proposed() string {
	s := ""
	for _, body := range l.queue {
		var d command.Decoder
		d.Reset(body)
		for c := d.Next(); c != nil; c = d.Next() {
			s += fmt.Sprintf(" %T%+v", c, c)
		}
	}
	return s
}

// C8: each end of a link tells how much of what was handed out had come; a connection's end tells it of every link.
func TestEndsTellWhatCame(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3")
	l := c.receiver(s, "q", 2)
	c.want("1 2")
	_ = l.SetCredit(1, false)
	c.want("3")
	c.receiver(s, "other", 5)
	kept := c.receiver(s, "kept", 5)
	r.pump()
	r.log.held = true
	_ = kept.Detach(false, nil)
	_ = l.Detach(true, nil)
	r.pump()
	want := fmt.Sprintf(" *command.LinkEnd&{Conn:%d Link:3 Closed:false Terminus:false Received:0 Unwritten:[] Enlisted:[]}"+
		" *command.LinkEnd&{Conn:%d Link:1 Closed:true Terminus:true Received:3 Unwritten:[] Enlisted:[]}", c.fe.id, c.fe.id)
	if got := r.log.proposed(); got != want {
		t.Fatalf("got %s\nwant%s", got, want)
	}
	r.log.held = false
	r.pump()
	c.receiver(s, "q", 5)
	r.pump()
	r.log.held = true
	c.fe.Lost(command.EndReset, r.now)
	c.cut = true
	var links int
	var d command.Decoder
	d.Reset(r.log.queue[len(r.log.queue)-1])
	for cmd := d.Next(); cmd != nil; cmd = d.Next() {
		if e, ok := cmd.(*command.ConnEnd); ok {
			links = len(e.Links)
		}
	}
	if links != 3 { // other, kept and the new one on q
		t.Fatalf("%d links", links)
	}
	r.log.held = false
	r.pump()
}

// A declare that had to ask is answered, and so is its discharge, also where the transaction was rolled back meanwhile.
func TestRolledBackWhileAsking(t *testing.T) {
	for _, when := range []string{"discharge before the answer", "discharge behind it"} {
		t.Run(when, func(t *testing.T) {
			r := newRig(t, Config{Dev: true, TxIdle: 2 * time.Second})
			c := r.ours()
			k := c.p.coordinator(c.s, tagged)
			two := wantState[*amqp.Declared](t, k.number(2, 0), true).TxnID
			wantState[*amqp.Accepted](t, k.dischargeWith(two, false, 0), true)
			r.log.held = true
			d := k.number(1, 0)
			id := txID(t, c.id, 1)
			r.wait(3 * time.Second) // it times out
			var e *engine.Delivery
			if when == "discharge before the answer" {
				e = k.dischargeWith(id, false, 0)
			}
			r.log.held = false
			r.pump()
			wantState[*amqp.Declared](t, d, true)
			if e == nil {
				e = k.dischargeWith(id, false, 0)
			}
			wantRejected(t, e, amqp.ErrCondTransactionTimeout)
		})
	}
}

// T6 and wire.md: a transaction under a name that is no good holds nothing when it is over, however it ends, and its
// rollback succeeds.
func TestRefusedNameHoldsNothing(t *testing.T) {
	for _, end := range []string{"commit", "rollback", "timeout", "detach"} {
		t.Run(end, func(t *testing.T) {
			r := newRig(t, Config{Dev: true, TxIdle: 2 * time.Second})
			p, s := r.fill("q", "1")
			k := p.coordinator(s)
			p.receiver(s, "q", 1)
			m := p.want("1")[0]
			id := k.declare()
			m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
			p.sendIn(id, p.sender(s, addressTx), fmt.Sprintf("%x/7", r.ours().id)) // a session's id is no token
			r.wantDepth("q", "1/1")
			switch end {
			case "commit":
				wantRejected(t, k.discharge(id, false), amqp.ErrCondNotAllowed)
			case "rollback":
				k.rollback(id)
			case "timeout":
				r.wait(3 * time.Second)
			case "detach":
				_ = k.l.Detach(true, nil)
			}
			r.wantDepth("q", "1/0")
			o := r.open("o")
			o.receiver(o.begin(), "q", 1)
			if g := o.want("1")[0]; g.head.DeliveryCount != 1 {
				t.Fatalf("count %d", g.head.DeliveryCount)
			}
		})
	}
}

// What is settled while its transaction is being decided stays nobody's: neither what comes too late for the discharge, nor
// an enlisted delivery that its receiver lets go of, where the transaction is rolled back (T15, T16).
func TestSettledBehindTheDischarge(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1", "2")
	k := p.coordinator(s)
	p.receiver(s, "q", 2)
	all := p.want("1 2")
	id := k.declare()
	all[0].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	r.pump()
	r.log.held = true
	d := k.discharge(id, true)
	all[0].d.Dispose(&amqp.Accepted{}, true)
	all[1].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	r.pump()
	r.log.held = false
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	r.wantDepth("q", "2/0")
}

// [4.6]: a drain isn't over by what was asked for the one before it: what was accepted between them counts.
func TestDrainBehindDrain(t *testing.T) {
	r := newRig(t)
	c := r.open("c")
	l := c.receiver(c.begin(), "q", 5)
	r.pump()
	_ = l.SetCredit(5, true)
	c.find(engine.Drained)
	_ = l.SetCredit(5, false)
	r.pump()
	p := r.open("p")
	out := p.sender(p.begin(), "q")
	r.log.held = true
	_ = l.SetCredit(5, true)
	r.pump()
	if len(r.log.barriers) != 1 {
		t.Fatalf("%d barriers", len(r.log.barriers))
	}
	first := r.log.barriers
	r.log.barriers = nil
	// Another node has accepted a message meanwhile, which this replica has not applied; the client drains anew.
	p.sendText(out, "1")
	_ = l.SetCredit(5, false)
	_ = l.SetCredit(5, true)
	r.pump()
	first[0](true)
	r.pump()
	c.none(engine.Drained)
	r.log.held = false
	c.want("1")
	c.find(engine.Drained)
}

// A sending link without numbers leaves nothing in the state when it is detached.
func TestDetachedSenderIsForgotten(t *testing.T) {
	r := newRig(t)
	p := r.open("p")
	l := p.sender(p.begin(), "q")
	r.log.held = true
	_ = l.Detach(false, nil)
	r.pump()
	if got, want := r.log.proposed(), fmt.Sprintf(" *command.SenderEnd&{Conn:%d Link:1 Closed:false}", p.fe.id); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	r.log.held = false
}

// C2: outcomes that a client doesn't know stay, in whatever order it names them, and also those for which there is no room.
func TestKnownNeverTakesTooMuch(t *testing.T) {
	var many amqp.Array
	for n := command.MaxUnknown + 5; n > 0; n-- {
		many.Items = append(many.Items, uint64(2*n))
	}
	known, ok := knownOf(amqp.Map{{Key: amqp.AnnotationKnown, Value: uint64(1 << 40)}, {Key: amqp.AnnotationUnknown, Value: many}})
	if !ok || len(known.Unknown) != command.MaxUnknown || known.Through != 2*(command.MaxUnknown+1)-1 || known.Unknown[0] != 2 {
		t.Fatalf("through %d, %d unknown", known.Through, len(known.Unknown))
	}
}
