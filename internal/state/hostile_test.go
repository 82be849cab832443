package state

import (
	"fmt"
	"math"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// 4.4: nobody can know a message of the same entry; a guess at it names nothing, whatever
// the outcome, and stops no node.
func TestGuessedDeliveryOfTheSameEntry(t *testing.T) {
	for _, d := range []command.Disposition{
		{Outcome: command.Accepted},
		{Outcome: command.Rejected},
		{Outcome: command.Released},
		{Outcome: command.Modified, Failed: true, UndeliverableHere: true, Annotations: wrapMap(appendText(appendSymbol(nil, "a"), "1"), 2)},
	} {
		t.Run(fmt.Sprint(d.Outcome), func(t *testing.T) {
			b := newBundle(t)
			p := b.connect(1, "p")
			p.receiver(1, "q", 5)
			guess := []command.DeliveryRef{{Message: 1, Attempt: 1}}
			p.do(1, &command.Send{Conn: p.id, Link: 9, Address: "q", Message: []byte("a")},
				&command.Settle{Conn: p.id, Link: 1, Request: 1, Disposition: command.Disposition{Outcome: command.Accepted}},
				&command.Settle{Conn: p.id, Link: 1, Request: 2, Disposition: d, Refs: guess},
				&command.Commit{Conn: p.id, Request: 3, Operations: -1, Counted: 1, Settles: []command.TxSettle{{Link: 1, Ref: guess[0], Settled: true, Disposition: d}}},
				&command.Rollback{Conn: p.id, Request: 4, Settles: []command.TxSettle{{Link: 1, Ref: guess[0], Settled: true, Disposition: d}}})
			b.wantDelivered("a/0")
			if e := b.kind(command.EffectSettled); len(e) != 2 || len(e[1].Refs) != 1 {
				t.Fatalf("%+v", e)
			}
			wantOutcome(t, b.kind(command.EffectDecided)[0], command.TxRolledBack, command.ReasonDeliveryLost)
			p.settle(1, command.Accepted, guess...)
			b.wantDepth("q", 0, 0)
		})
	}
}

// What one connection or session may have open is bounded: a client that detaches
// without closing, for ever, is refused at last.
func TestTablesOfOneClientAreBounded(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p, id := goClient(b, 1, 1)
	refused := 0
	for n := range uint32(maxStreams + 10) {
		p.do(1, &command.SenderOpen{Conn: p.id, Link: n + 10, Session: id, Name: fmt.Sprint(n), Address: "q", Numbered: true})
		if b.one(command.EffectSenderOpened).Refusal != nil {
			refused++
		}
	}
	if n := len(b.m.sessions[id].streams); refused != 10 || n != maxStreams {
		t.Fatalf("%d refused, %d numbered links", refused, n)
	}
	refused = 0
	for n := range maxSessions + 9 {
		p.do(1, &command.SessionOpen{Conn: p.id, Request: 1, Nonce: [16]byte{9, byte(n), byte(n >> 8)}})
		if b.one(command.EffectSessionOpened).Refusal != nil {
			refused++
		}
	}
	if n := len(b.m.conns[p.id].sessions); refused != 10 || n != maxSessions {
		t.Fatalf("%d refused, %d sessions", refused, n)
	}
}

// So are the sessions and tokens of one user, other users being none the worse.
func TestSessionsOfOneUserAreBounded(t *testing.T) {
	b := newBundle(t)
	b.single = true
	b.m.maxOfUser = 5
	for k := range byte(3) { // processes that crash and leave a session each
		p := b.connectGo(1, "app", k+1, 1)
		p.session(command.SessionOpen{Nonce: [16]byte{1}})
		p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndReset})
	}
	p := b.connectGo(1, "another", 9, 1)
	p.do(1, &command.TokenOpen{Conn: p.id, Request: 1})
	id := p.session(command.SessionOpen{Nonce: [16]byte{1}})
	p.do(1, &command.TokenOpen{Conn: p.id, Request: 1}, &command.SessionOpen{Conn: p.id, Request: 2, Nonce: [16]byte{2}},
		&command.SessionOpen{Conn: p.id, Request: 3, Nonce: [16]byte{1}})
	if e := b.one(command.EffectTokenOpened); e.Refusal == nil || e.Refusal.Condition != condLimit {
		t.Fatalf("%+v", e)
	}
	if e := b.kind(command.EffectSessionOpened); e[0].Refusal == nil || e[1].Refusal != nil {
		t.Fatalf("%+v", e)
	}
	bob := b.connectAs(2, &command.ConnOpen{Principal: "bob", ContainerID: "app", Nonce: [16]byte{1}})
	bob.session(command.SessionOpen{Nonce: [16]byte{1}})
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id, Known: command.Known{Through: math.MaxUint64}})
	p.session(command.SessionOpen{Nonce: [16]byte{2}})
	b.tick(retention)
	if n := b.m.Sessions(); n != 2 {
		t.Fatalf("%d sessions", n)
	}
}
