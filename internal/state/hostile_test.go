package state

import (
	"fmt"
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
