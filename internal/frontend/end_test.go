package frontend

import (
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// C8: a message of which a part was written may have been seen; the connection's end doesn't call it unwritten.
func TestPartlyWrittenIsWritten(t *testing.T) {
	r := newRig(t)
	r.fill("big", strings.Repeat("x", 3<<20))
	c := r.open("c")
	s := c.begin()
	c.receiver(s, "big", 0)
	c.deaf = true
	c.flow(s, 0, 1, credit(1)) // one frame of several
	r.wantDepth("big", "1/1")
	c.lose(command.EndReset)
	r.wantDepth("big", "1/0")
	o := r.open("o")
	o.receiver(o.begin(), "big", 1)
	if g := o.received()[0]; g.head.DeliveryCount != 1 || g.head.FirstAcquirer {
		t.Fatalf("%+v", g.head)
	}
}

// C8: a resumed delivery that this home had no time to name again was seen on the connection before.
func TestResumedIsNeverUnwritten(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1")
	c := r.ours()
	c.p.receiver(c.s, "q", 1, second)
	m := c.p.want("1")[0]
	c.back()
	r.log.lease = 0
	a := receiverAttach("r", "q")
	second(a)
	a.Unsettled = []amqp.Unsettled{{Tag: m.d.Tag()}}
	l, _ := c.p.attach(c.s, a)
	_ = l.SetCredit(1, false)
	r.pump()
	r.log.held = true
	_ = l.Detach(true, nil)
	r.pump()
	if got := r.log.proposed(); !strings.Contains(got, "LinkEnd") || !strings.Contains(got, "Unwritten:[]") {
		t.Fatalf("%s", got)
	}
	r.log.held = false
	r.wantDepth("q", "1/0")
}

// C6: a client that fell silent has its full grace; one whose side broke the connection or the protocol has less.
func TestCauseOfTheEnd(t *testing.T) {
	for want, end := range map[command.EndCause]func(r *rig, p *pair){
		command.EndSilent: func(r *rig, p *pair) {
			p.deaf = true
			r.log.lease = time.Hour
			r.now = r.now.Add(41 * time.Second)
			p.fe.Tick(r.now)
		},
		command.EndReset: func(r *rig, p *pair) { p.fe.Input([]byte{0, 0, 0, 4, 2, 0, 0, 0}, r.now) },
		command.EndClosed: func(_ *rig, p *pair) {
			_ = p.cl.Close(nil)
			p.move()
		},
		command.EndFailed: func(_ *rig, p *pair) {
			_ = p.cl.Close(&amqp.Error{Condition: amqp.ErrCondInternalError})
			p.move()
		},
		command.EndForced: func(r *rig, p *pair) { p.fe.Stop("test", r.now) },
	} {
		r := newRig(t)
		p := r.open("c")
		r.log.held = true
		end(r, p)
		p.fe.Lost(command.EndReset, r.now) // the socket goes next: no second end
		var ends []command.EndCause
		for _, body := range r.log.queue {
			var d command.Decoder
			d.Reset(body)
			for c := d.Next(); c != nil; c = d.Next() {
				if e, ok := c.(*command.ConnEnd); ok {
					ends = append(ends, e.Cause)
				}
			}
		}
		if len(ends) != 1 || ends[0] != want {
			t.Errorf("ended %v, want once %v", ends, want)
		}
	}
}

// wire.md: a reply-to is checked as the asker's own send.
func TestReplyToIsTheAskersSend(t *testing.T) {
	r := newRig(t, Config{Access: func(_ string, right Right, address string) bool {
		return address != "secret" || right != RightSend
	}})
	p := r.open("c")
	l := p.sender(p.begin(), addressOutcome)
	b := amqp.AppendProperties(nil, &amqp.Properties{ReplyTo: "secret"})
	d := p.send(l, engine.Transfer{Payload: [][]byte{amqp.AppendApplicationProperties(b, amqp.Map{{Key: "token", Value: true}})}})
	r.pump()
	wantRejected(t, d, amqp.ErrCondUnauthorizedAccess)
	r.wantDepth("secret", "none")
}

// T20: what is done in a transaction keeps it from being idle.
func TestWorkKeepsATransaction(t *testing.T) {
	r := newRig(t, Config{Dev: true, TxIdle: 2 * time.Second})
	p, s := r.fill("q", "1", "2", "3")
	k := p.coordinator(s)
	p.receiver(s, "q", 3)
	in, out := p.want("1 2 3"), p.sender(s, "out")
	id := k.declare()
	for i := range 3 {
		r.wait(1500 * time.Millisecond)
		p.sendIn(id, out, "x")
		r.wait(1500 * time.Millisecond)
		in[i].d.Dispose(inTx(id, &amqp.Accepted{}), true)
		r.pump()
	}
	k.commit(id)
	r.wantDepth("out", "3/0")
	r.wantDepth("q", "0/0")
}

// What a connection's transactions hold together is bounded as well.
func TestMemoryOfAllTransactions(t *testing.T) {
	r := newRig(t)
	p := r.open("c")
	s := p.begin()
	k, l := p.coordinator(s), p.sender(s, "q")
	id := k.declare()
	p.fe.txBytes = 2*command.MaxTxBytes - 3 // as if others held so much
	p.sendIn(id, l, "x")
	err := wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
	if reason, _ := err.Info.Lookup("reason"); reason != command.ReasonTooLarge {
		t.Fatalf("reason %v", reason)
	}
}
