package state

import (
	"fmt"
	"math"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

func accept(link uint32, refs ...command.DeliveryRef) (s []command.TxSettle) {
	for _, ref := range refs {
		s = append(s, command.TxSettle{Link: link, Ref: ref, Settled: true, Disposition: command.Disposition{Outcome: command.Accepted}})
	}
	return s
}

func send(queue, body string) command.TxSend {
	return command.TxSend{Address: queue, Message: []byte(body)}
}

// C1, C2: all or nothing, and a repeat gets the first result.
func TestCommitIsIdempotent(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.do(1, &command.QueueCreate{Name: "out"})
	p.send("q", "a")
	tx := command.NewTxID(id, 1)
	c := command.Commit{Tx: tx, Operations: 2, Sends: []command.TxSend{send("out", "b")}, Settles: accept(1, b.refs()...)}
	wantOutcome(t, p.commit(c), command.TxCommitted, "")
	b.wantDepth("q", 0, 0)
	b.wantDepth("out", 1, 0)
	// Again on another home, which has collected nothing (2.1).
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	p, _ = again(b, 2, 1, 2, id)
	wantOutcome(t, p.commit(command.Commit{Tx: tx, Operations: 2}), command.TxCommitted, "")
	wantOutcome(t, p.commit(c), command.TxCommitted, "")
	wantOutcome(t, p.rollback(command.Rollback{Tx: tx}), command.TxCommitted, "") // C10
	wantOutcome(t, p.outcome(tx, true), command.TxCommitted, "")
	b.wantDepth("out", 1, 0)
}

// 2.1: a repeated commit that isn't whole is recorded as incomplete, never committed.
func TestIncompleteCommit(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.do(1, &command.QueueCreate{Name: "out"})
	tx := command.NewTxID(id, 1)
	wantOutcome(t, p.commit(command.Commit{Tx: tx, Operations: 5, Counted: 3, Sends: []command.TxSend{send("out", "b")}}),
		command.TxRolledBack, command.ReasonIncomplete)
	b.wantDepth("out", 0, 0)
	wantOutcome(t, p.commit(command.Commit{Tx: tx, Operations: 1, Sends: []command.TxSend{send("out", "b")}}),
		command.TxRolledBack, command.ReasonIncomplete)
	b.wantDepth("out", 0, 0)
}

func TestCommitThatCant(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 1)
	p.send("q", "a")
	ref := b.refs()[0]
	old := command.DeliveryRef{Message: ref.Message, Attempt: ref.Attempt + 1}
	many := make([]command.TxSend, command.MaxTxOperations+1)
	for i := range many {
		many[i] = send("q", "x")
	}
	for _, c := range []struct {
		c    command.Commit
		want string
	}{
		{command.Commit{Sends: []command.TxSend{send("q", "b")}, Settles: accept(1, old)}, command.ReasonDeliveryLost},
		{command.Commit{Settles: accept(2, ref)}, command.ReasonDeliveryLost},
		{command.Commit{Settles: accept(1, ref, ref)}, command.ReasonDeliveryLost},
		{command.Commit{Sends: []command.TxSend{send("q", "b"), send("nowhere", "b")}}, command.ReasonRefused},
		{command.Commit{Sends: many}, command.ReasonTooLarge},
	} {
		wantOutcome(t, p.commit(c.c), command.TxRolledBack, c.want)
	}
	b.wantDepth("q", 1, 0) // the one that named it twice has returned it
	p.allow(1, 1)
	b.wantDelivered("a/1+")
}

// T15, T16: what a rollback does with what was settled in the transaction.
func TestRollback(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 2)
	p.send("q", "a", "b", "c")
	s := accept(1, b.refs()...)
	s[1].Settled = false
	wantOutcome(t, p.rollback(command.Rollback{Settles: s}), command.TxRolledBack, command.ReasonClient)
	b.wantDepth("q", 3, 1)
	p.settle(1, command.Released, s[1].Ref)
	p.allow(1, 5)
	b.wantDelivered("a/1+", "b/1+", "c/0") // the rollback counts for b too
}

// A receiver closed between accept and commit: its enlisted delivery stays, the others
// return; whatever the transaction's end.
func TestReceiverClosedBetweenAcceptAndCommit(t *testing.T) {
	for _, end := range []string{"commit", "rollback", "connection"} {
		t.Run(end, func(t *testing.T) {
			b := newBundle(t)
			p := b.connect(1, "p")
			p.receiver(1, "q", 3)
			p.send("q", "a", "b", "c")
			refs := b.refs()
			p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true, Unwritten: refs[2:], Enlisted: refs[:1]})
			b.wantDepth("q", 3, 1)
			p.receiver(2, "q", 5)
			b.wantDelivered("b/0+", "c/0")
			switch end {
			case "commit":
				wantOutcome(t, p.commit(command.Commit{Settles: accept(1, refs[0])}), command.TxCommitted, "")
				b.wantDepth("q", 2, 2)
			case "rollback":
				s := accept(1, refs[0])
				s[0].Settled = false
				wantOutcome(t, p.rollback(command.Rollback{Settles: s}), command.TxRolledBack, command.ReasonClient)
				b.wantDelivered("a/1+")
			case "connection":
				p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndReset})
				b.wantDepth("q", 3, 0)
			}
			if len(b.m.linkByID) > 1 {
				t.Fatal("the closed link is left")
			}
		})
	}
}

// The same for a session that resumes: the transaction survives the home (C6).
func TestEnlistedSurvivesLostHome(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a", "b")
	refs := b.refs()
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true, Enlisted: refs[:1]})
	b.wantDepth("q", 2, 1)
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	b.wantDepth("q", 2, 1)
	p, o := again(b, 2, 1, 2, id, refs[0])
	if s := states(o); s[0] != command.StillHeld {
		t.Fatalf("%v", s)
	}
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 1), Operations: 1, Settles: accept(1, refs[0])}), command.TxCommitted, "")
	b.wantDepth("q", 1, 0)
}

// C3: Outcome decides an undecided one; the late commit can't apply; Peek decides
// nothing.
func TestOutcomeDecides(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	refs := b.refs()
	other := b.connect(3, "elsewhere")
	tx := command.NewTxID(id, 4)
	wantOutcome(t, other.outcome(tx, false), command.TxOpen, "")
	wantOutcome(t, other.outcome(tx, true), command.TxRolledBack, command.ReasonResolved)
	if e := b.one(command.EffectOutcome); e.Civil != b.civil {
		t.Fatalf("%+v", e)
	}
	wantOutcome(t, other.outcome(tx, false), command.TxRolledBack, command.ReasonResolved)
	wantOutcome(t, p.commit(command.Commit{Tx: tx, Settles: accept(1, refs...)}), command.TxRolledBack, command.ReasonResolved)
	b.wantDelivered("a/1+") // its settlement went back
	// 2.4: another user can't; the node itself can (manage).
	bob := b.connectAs(2, &command.ConnOpen{Principal: "bob", ContainerID: "x"})
	for _, n := range []uint64{4, 5} {
		if e := bob.outcome(command.NewTxID(id, n), true); e.Refusal == nil || e.Refusal.Condition != condUnauthorized {
			t.Fatalf("%+v", e)
		}
		if e := bob.commit(command.Commit{Tx: command.NewTxID(id, n)}); e.Refusal == nil || e.Refusal.Condition != condUnauthorized {
			t.Fatalf("%+v", e)
		}
	}
	b.do(1, &command.Outcome{Request: 3, Tx: command.NewTxID(id, 5), Decide: true})
	if e := b.one(command.EffectOutcome); e.Local != 0 || e.Node != 1 || e.Outcome != command.TxRolledBack {
		t.Fatalf("%+v", e)
	}
	// 2.4: a session open on another connection of the same user decides only there.
	if e := other.commit(command.Commit{Tx: command.NewTxID(id, 6)}); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
}

// 2.2, C5: absence proves nothing.
func TestExpired(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	foreign := id
	foreign[1]++ // another history
	unknown := id
	unknown[10]++
	for _, s := range []command.SessionID{foreign, unknown} {
		wantOutcome(t, p.outcome(command.NewTxID(s, 1), true), command.TxExpired, "")
		wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(s, 1)}), command.TxExpired, "")
	}
	for n := uint64(1); n <= 5; n++ {
		p.commit(command.Commit{Tx: command.NewTxID(id, n)})
	}
	p.commit(command.Commit{Tx: command.NewTxID(id, 9), Known: command.Known{Through: 8, Unknown: []uint64{2, 7}}})
	for n, want := range map[uint64]command.TxOutcome{
		1: command.TxExpired, 2: command.TxCommitted, 3: command.TxExpired, 6: command.TxExpired,
		7: command.TxOpen, 8: command.TxExpired, 9: command.TxCommitted, 10: command.TxOpen,
	} {
		if e := p.outcome(command.NewTxID(id, n), false); e.Outcome != want {
			t.Errorf("%d: %v, want %v", n, e.Outcome, want)
		}
	}
	// What was forgotten doesn't come back, and "through" doesn't sink.
	p.commit(command.Commit{Tx: command.NewTxID(id, 11), Known: command.Known{Through: 9, Unknown: []uint64{1, 2}}})
	p.commit(command.Commit{Tx: command.NewTxID(id, 12), Known: command.Known{Through: 3}})
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxExpired, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 2), true), command.TxCommitted, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 7), true), command.TxExpired, "")
}

// 2.3, C2: one Unknown followed by 2,000 commits keeps its record, and nothing else.
func TestOneUnknownAndManyCommits(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	for n := uint64(1); n <= 2001; n++ {
		k := command.Known{Through: n - 1}
		if n > 1 {
			k.Unknown = []uint64{1}
		}
		wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, n), Known: k}), command.TxCommitted, "")
		if n == 5 { // the twin is slow; the rest alone
			b.single = true
		}
	}
	b.single = false
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxCommitted, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 2), true), command.TxExpired, "")
	if n := len(b.m.sessions[id].outcomes); n != 2 {
		t.Fatalf("%d records", n)
	}
	// The end with one unknown: 24 h; then nothing is known.
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id, Known: command.Known{Through: 2001, Unknown: []uint64{1}}})
	b.tick(retention - 1)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxCommitted, "")
	b.tick(1)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxExpired, "")
}

// A client that never acknowledges is stopped, not the broker.
func TestUnacknowledgedOutcomesAreBounded(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p, id := goClient(b, 1, 1)
	for n := uint64(1); n <= maxOutcomes; n++ {
		wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, n)}), command.TxCommitted, "")
	}
	if e := p.commit(command.Commit{Tx: command.NewTxID(id, 5000)}); e.Refusal == nil || e.Refusal.Condition != condLimit {
		t.Fatalf("%+v", e)
	}
	if e := p.outcome(command.NewTxID(id, 5000), true); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
}

// 1.6: a session that has ended takes nothing; what has no record did not happen.
func TestEndedSession(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.commit(command.Commit{Tx: command.NewTxID(id, 1)})
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id})
	wantOutcome(t, p.outcome(command.NewTxID(id, 2), true), command.TxRolledBack, command.ReasonSessionEnded)
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 2)}), command.TxRolledBack, command.ReasonSessionEnded)
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 1)}), command.TxCommitted, "")
	p.do(1, &command.SessionOpen{Conn: p.id, Session: id})
	if e := b.one(command.EffectSessionOpened); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
	// A clean end that acknowledges everything leaves nothing.
	id = p.session(command.SessionOpen{Nonce: [16]byte{44}})
	p.commit(command.Commit{Tx: command.NewTxID(id, 1)})
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id, Known: command.Known{Through: math.MaxUint64}})
	if b.m.sessions[id] != nil {
		t.Fatal("the session is left")
	}
	// An end that leaves something unknown keeps the session for a day, also where nothing of it has come here.
	id = p.session(command.SessionOpen{Nonce: [16]byte{45}})
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id})
	b.tick(retention - 1)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxRolledBack, command.ReasonSessionEnded)
	b.tick(1)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxExpired, "")
}

// C4, wire.md: tokens.
func TestToken(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "jms")
	p.do(1, &command.QueueCreate{Name: "q"})
	p.do(1, &command.TokenOpen{Conn: p.id, Request: 4, Nonce: [4]byte{1, 2, 3, 4}})
	token := b.one(command.EffectTokenOpened).Tx.Session()
	commit := func(n uint64) command.Effect {
		return p.commit(command.Commit{Tx: command.NewTxID(token, n), Named: true, Sends: []command.TxSend{send("q", fmt.Sprint(n))}})
	}
	wantOutcome(t, commit(1), command.TxCommitted, "")
	// A second use of n is other work: refused, the record stays, nothing is stored.
	wantOutcome(t, commit(1), command.TxRolledBack, command.ReasonReused)
	wantOutcome(t, p.rollback(command.Rollback{Tx: command.NewTxID(token, 1), Named: true}), command.TxRolledBack, command.ReasonReused)
	b.wantDepth("q", 1, 0)
	wantOutcome(t, b.connect(2, "x").outcome(command.NewTxID(token, 1), true), command.TxCommitted, "")
	// Naming n acknowledges n−1,000 and below.
	wantOutcome(t, commit(1500), command.TxCommitted, "")
	wantOutcome(t, commit(500), command.TxRolledBack, command.ReasonReused)
	wantOutcome(t, p.outcome(command.NewTxID(token, 1), true), command.TxExpired, "")
	wantOutcome(t, commit(501), command.TxCommitted, "")
	// A session's number can't be named, nor a token's declared.
	if e := p.commit(command.Commit{Tx: command.NewTxID(token, 7000)}); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
	// 24 h after its last use it ends; its outcomes stay as long again.
	b.tick(retention / 2)
	wantOutcome(t, commit(1501), command.TxCommitted, "")
	b.tick(retention)
	wantOutcome(t, commit(1502), command.TxRolledBack, command.ReasonSessionEnded)
	wantOutcome(t, p.outcome(command.NewTxID(token, 1501), true), command.TxCommitted, "")
	b.tick(retention)
	wantOutcome(t, p.outcome(command.NewTxID(token, 1501), true), command.TxExpired, "")
	if b.m.Sessions() != 0 {
		t.Fatal("the token is left")
	}
}

// S1: OnFailover Rollback: deliveries return at once, the session and its outcomes stay.
func TestOnFailoverRollback(t *testing.T) {
	b := newBundle(t)
	p := b.connectGo(1, "app", 1, 1)
	id := p.session(command.SessionOpen{Nonce: [16]byte{1}, Rollback: true})
	p.attach(&command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q", Create: true}, 10)
	p.send("q", "a")
	refs := b.refs()
	p.commit(command.Commit{Tx: command.NewTxID(id, 1)})
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	b.wantDepth("q", 1, 0)
	p = b.connectGo(2, "app", 1, 2)
	p.session(command.SessionOpen{Session: id, Rollback: true})
	if d := b.one(command.EffectSessionOpened).Detail.(*command.SessionOpened); d.LastNumber != 1 || !d.Resumed {
		t.Fatalf("%+v", d)
	}
	p.attach(&command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q"}, 10)
	b.wantDelivered("a/1+")
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 2), Settles: accept(1, refs...)}), command.TxRolledBack, command.ReasonDeliveryLost)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxCommitted, "")
}

// 1.6, C2: a number that the client called unknown has an answer after its session's end
// too, also where nothing was ever decided under it.
func TestUnknownOutlivesItsSession(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 2)}), command.TxCommitted, "")
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id, Known: command.Known{Through: 2, Unknown: []uint64{1}}})
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxRolledBack, command.ReasonSessionEnded)
	wantOutcome(t, p.outcome(command.NewTxID(id, 2), true), command.TxExpired, "")
	b.tick(retention)
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxExpired, "")
}

// C2: a rolled-back commit said again changes nothing: the failure of a delivery that
// stayed with its link is counted once.
func TestRepeatedRollbackCountsOnce(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	ref := b.refs()[0]
	tx := command.NewTxID(id, 1)
	settles := accept(1, ref)
	settles[0].Settled = false
	for range 3 {
		wantOutcome(t, p.rollback(command.Rollback{Tx: tx, Settles: settles}), command.TxRolledBack, command.ReasonClient)
		wantOutcome(t, p.commit(command.Commit{Tx: tx, Settles: settles}), command.TxRolledBack, command.ReasonClient)
	}
	p.settle(1, command.Released, ref)
	b.wantDelivered("a/1+")
}

// C2: a session with as many outcomes as it may keep goes on once it acknowledges some,
// with the very commit that does.
func TestAcknowledgingMakesRoom(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p, id := goClient(b, 1, 1)
	for n := range uint64(maxOutcomes) {
		wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, n+1)}), command.TxCommitted, "")
	}
	if e := p.commit(command.Commit{Tx: command.NewTxID(id, maxOutcomes+1)}); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
	unknown := command.Known{Through: 2, Unknown: []uint64{1, 2}}
	if e := p.commit(command.Commit{Tx: command.NewTxID(id, maxOutcomes+1), Known: unknown}); e.Refusal == nil {
		t.Fatalf("%+v", e)
	}
	e := p.commit(command.Commit{Tx: command.NewTxID(id, maxOutcomes+1), Known: command.Known{Through: 2, Unknown: []uint64{1}}})
	wantOutcome(t, e, command.TxCommitted, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxCommitted, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 2), true), command.TxExpired, "")
	// What was said before, and what isn't in order, makes none.
	for _, k := range []command.Known{{}, {Through: 1}, {Through: 2, Unknown: []uint64{1}}, {Through: 3, Unknown: []uint64{3, 1, 2}}} {
		for n := range uint64(3) {
			p.commit(command.Commit{Tx: command.NewTxID(id, 2*maxOutcomes+n), Known: k})
		}
		if n := len(b.m.sessions[id].outcomes); n > maxOutcomes {
			t.Fatalf("%d outcomes", n)
		}
	}
	wantOutcome(t, p.rollback(command.Rollback{Tx: command.NewTxID(id, maxOutcomes+2), Known: command.Known{Through: 100}}),
		command.TxRolledBack, command.ReasonClient)
}

// C2, C4: a token keeps its newest 1,000 outcomes, also where they come from asking
// alone, and goes on.
func TestTokenAskedManyTimes(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	p.do(1, &command.TokenOpen{Conn: p.id, Request: 1})
	id := b.one(command.EffectTokenOpened).Tx.Session()
	for n := uint64(1); n <= 3*command.MaxUnknown; n++ {
		wantOutcome(t, p.outcome(command.NewTxID(id, n), true), command.TxRolledBack, command.ReasonResolved)
	}
	if n := len(b.m.sessions[id].outcomes); n != command.MaxUnknown {
		t.Fatalf("%d outcomes are kept", n)
	}
	wantOutcome(t, p.outcome(command.NewTxID(id, 2*command.MaxUnknown), true), command.TxExpired, "")
	wantOutcome(t, p.outcome(command.NewTxID(id, 2*command.MaxUnknown+1), true), command.TxRolledBack, command.ReasonResolved)
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 3*command.MaxUnknown+1), Named: true}), command.TxCommitted, "")
}
