package state

import (
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// numbered attaches a numbered sender to q as link 2.
func (p *peer) numbered(id command.SessionID, held ...uint64) *command.SenderOpened {
	p.Helper()
	p.do(p.node, &command.SenderOpen{Conn: p.id, Request: p.next(), Link: 2, Session: id, Name: "out", Address: "q", Create: true, Numbered: true, Held: held})
	e := p.one(command.EffectSenderOpened)
	if e.Refusal != nil {
		p.Fatalf("%+v", *e.Refusal)
	}
	return e.Detail.(*command.SenderOpened)
}

// sendNumber returns the refusal's condition, "" where the send was stored.
func (p *peer) sendNumber(number uint64, target command.Incarnation, body string) string {
	p.Helper()
	p.do(p.node, &command.Send{Conn: p.id, Link: 2, Request: p.next(), Number: number, Target: target, Message: []byte(body)})
	e := p.one(command.EffectSent)
	if e.Number != number {
		p.Fatalf("%+v", e)
	}
	if e.Refusal != nil {
		return e.Refusal.Condition
	}
	return ""
}

// 1.6: sends 5, 6, 7; 6 is refused; the replies are lost; each repeat gets its first
// outcome, and the map says the same.
func TestRefusedSendIsNotARepeat(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	inc := p.numbered(id).Incarnation
	if got := p.sendNumber(5, inc, "five"); got != "" {
		t.Fatal(got)
	}
	if got := p.sendNumber(6, 12345, "six"); got != condDeleted {
		t.Fatal(got)
	}
	if got := p.sendNumber(7, inc, "seven"); got != "" {
		t.Fatal(got)
	}
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	b.tick(graceLost + 1000) // also after the grace
	p, _ = again(b, 2, 1, 2, id)
	o := p.numbered(id, 5, 6, 7, 8)
	if o.LastNumber != 7 || !o.Held[0].Stored || o.Held[1].Refusal == nil || o.Held[1].Stored || !o.Held[2].Stored || o.Held[3].Stored || o.Held[3].Refusal != nil {
		t.Fatalf("%+v", o)
	}
	for n, want := range map[uint64]string{5: "", 6: condDeleted, 7: ""} {
		if got := p.sendNumber(n, inc, "again"); got != want {
			t.Fatalf("%d: %q", n, got)
		}
	}
	b.wantDepth("q", 2, 0)
	p.do(2, &command.SendForget{Conn: p.id, Link: 2, Numbers: []uint64{5, 6, 7}})
	for k := range b.disk.kv {
		if k[2] == keyRefusal {
			t.Fatal("a refusal is left")
		}
	}
	p.do(2, &command.SenderEnd{Conn: p.id, Link: 2})
	if len(b.m.streams) != 0 {
		t.Fatal("numbers are left")
	}
}

// 1.7, wire.md: an unwritten send is known not to be stored; Resend takes a new number,
// and its old number, should it come late, is a repeat that stores nothing.
func TestResendOfAnUnwrittenSend(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	inc := p.numbered(id).Incarnation
	p.sendNumber(1, inc, "one") // 2 was never written
	if got := p.sendNumber(3, inc, "two"); got != "" {
		t.Fatal(got)
	}
	p.sendNumber(2, inc, "two, late")
	b.wantDepth("q", 2, 2)
}

// A plain send during an open transaction on one session: independent of it, whatever
// becomes of the transaction, and a transacted send never counts as a number.
func TestPlainSendDuringOpenTransaction(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1})
	inc := p.numbered(id).Incarnation
	tx := command.NewTxID(id, 1)
	// Numbers 1 and 3 travel in the transaction, which is collected at the home; 2 is plain.
	if got := p.sendNumber(2, inc, "plain"); got != "" {
		t.Fatal(got)
	}
	b.wantDepth("q", 1, 0)
	wantOutcome(t, p.outcome(tx, false), command.TxOpen, "")
	e := p.commit(command.Commit{Tx: tx, Operations: 2, Sends: []command.TxSend{{Target: inc, Message: []byte("tx1")}, {Target: inc, Message: []byte("tx3")}}})
	wantOutcome(t, e, command.TxCommitted, "")
	b.wantDepth("q", 3, 0)
	if got := p.sendNumber(4, inc, "plain too"); got != "" {
		t.Fatal(got)
	}
	p.allow(1, 10)
	b.wantDelivered("plain/0", "tx1/0", "tx3/0", "plain too/0")
}

// 4.3: what is stored doesn't depend on the Unicode tables of a toolchain.
func TestStoredRefusalsAreASCII(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.do(1, &command.SenderOpen{Conn: p.id, Link: 2, Session: id, Name: "out", Numbered: true},
		&command.Send{Conn: p.id, Link: 2, Number: 1, Address: "\u1c8a\xff"})
	if e := b.one(command.EffectSent); e.Refusal == nil || e.Refusal.Description != `there is no queue "\u1c8a\xff"` {
		t.Fatalf("%+v", e.Refusal)
	}
}

func TestPlainSendRefusals(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	for _, c := range []struct {
		send command.Send
		want string
	}{
		{command.Send{Address: "nowhere"}, condNotFound},
		{command.Send{Address: "$oncemq.tx"}, condNotFound},
		{command.Send{Target: 5}, condDeleted},
		{command.Send{Address: "nowhere", Number: 4}, condIllegal},
	} {
		c.send.Conn, c.send.Request = p.id, 8
		p.do(1, &c.send)
		if e := b.one(command.EffectSent); e.Refusal == nil || e.Refusal.Condition != c.want || e.Request != 8 {
			t.Errorf("%+v: %+v", c.send, e)
		}
	}
}
