package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// newHistory begins the next history, with nodes 1 to 3 up.
func (b *bundle) newHistory() {
	b.Helper()
	_, history, _ := b.m.Cluster()
	b.system(&command.ClusterInit{Cluster: [16]byte{77}, History: history + 1, Voters: []command.NodeID{1, 2, 3}})
	if len(b.m.conns) != 0 || len(b.m.Nodes()) != 0 {
		b.Fatal("a connection or a node's epoch has lived on")
	}
	for n := command.NodeID(1); n <= 3; n++ {
		b.up(n)
	}
}

// TestNewHistory [2.2, 8.7]: in a new history messages and users are there, and nothing is known of any session of the old one.
func TestNewHistory(t *testing.T) {
	b := newBundle(t)
	b.do(1, &command.UserPut{Request: 1, Rule: command.UserNew, Name: "alice", Seed: [32]byte{5}})
	p, id := goClient(b, 1, 1)
	p.do(1, &command.TokenOpen{Conn: p.id, Request: p.next(), Nonce: [4]byte{9}})
	token := b.one(command.EffectTokenOpened).Tx.Session()
	p.send("q", "a", "b", "c")
	p.settle(1, command.Accepted, b.refs()[0])
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(id, 1), Sends: []command.TxSend{send("q", "d")}}), command.TxCommitted, "")
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(token, 1), Named: true}), command.TxCommitted, "")
	b.wantDepth("q", 3, 3)

	b.system(&command.ClusterInit{Cluster: [16]byte{99}, History: 5}) // late, or repeated
	b.wantDepth("q", 3, 3)

	b.newHistory()
	if cluster, history, ok := b.m.Cluster(); cluster != [16]byte{77} || history != 6 || !ok {
		t.Fatalf("cluster %x, history %d, %v", cluster, history, ok)
	}
	b.tick(0)
	b.wantDepth("q", 3, 0)
	if n := b.m.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	p = b.connectGo(2, "app", 1, 2) // the same process
	for _, tx := range []command.TxID{command.NewTxID(id, 1), command.NewTxID(id, 2), command.NewTxID(token, 1)} {
		wantOutcome(t, p.outcome(tx, true), command.TxExpired, "")
		wantOutcome(t, p.outcome(tx, false), command.TxExpired, "")
		wantOutcome(t, p.commit(command.Commit{Tx: tx, Sends: []command.TxSend{send("q", "twice")}}), command.TxExpired, "")
	}
	p.do(2, &command.SessionOpen{Conn: p.id, Session: id})
	if e := b.one(command.EffectSessionOpened); e.Refusal == nil || e.Refusal.Condition != condNotFound {
		t.Fatalf("a session of the old history was resumed: %+v", e)
	}
	next := p.session(command.SessionOpen{Nonce: [16]byte{1, 1}}) // the nonces of the old one
	if next.History() != 6 || next == id {
		t.Fatalf("the new session is %s", next)
	}
	// The client may have seen all that it had: the home that knew better is lost (C8).
	o := p.attach(&command.LinkOpen{Link: 1, Session: next, Name: "in", Address: "q"}, 10)
	if len(o.Resumed) != 0 {
		t.Errorf("resumed %+v", o.Resumed)
	}
	got := ""
	for _, e := range b.kind(command.EffectDeliver) {
		got += b.body(e)
		if body := b.body(e); e.FirstAcquirer || e.Count != 1 {
			t.Errorf("%s: first acquirer %v, delivery-count %d; want false, 1", body, e.FirstAcquirer, e.Count)
		}
	}
	if got != "bcd" {
		t.Errorf("handed out: %q; want b, c, d, in their order", got)
	}
	if _, ok := b.m.User("alice"); !ok {
		t.Error("the user is gone")
	}
}

// TestNewHistoryInSteps [4.2]: whatever the number of sessions, no entry forgets more than its share of them; that they are gone is
// true at once, and another history may begin meanwhile.
func TestNewHistoryInSteps(t *testing.T) {
	b := newBundle(t)
	b.m.maxSteps, b.m.leastSteps = 40, 10
	p := b.connectGo(1, "app", 1, 1)
	var ids []command.SessionID
	for n := range 100 {
		ids = append(ids, p.session(command.SessionOpen{Nonce: [16]byte{byte(n), 1}}))
		wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(ids[n], 1)}), command.TxCommitted, "")
	}
	b.newHistory()
	if left := len(b.m.former); left < 20 {
		t.Fatalf("%d of 100 sessions are left after four entries of 40 steps", left)
	}
	p = b.connectGo(1, "app", 1, 2)
	for _, id := range ids {
		wantOutcome(t, p.outcome(command.NewTxID(id, 1), true), command.TxExpired, "")
	}
	last := p.session(command.SessionOpen{Nonce: [16]byte{byte(99), 1}})
	wantOutcome(t, p.commit(command.Commit{Tx: command.NewTxID(last, 1)}), command.TxCommitted, "")
	b.system(&command.ClusterInit{Cluster: [16]byte{78}, History: 7, Voters: []command.NodeID{1, 2, 3}})
	for n := command.NodeID(1); n <= 3; n++ {
		b.up(n)
	}
	p = b.connectGo(1, "app", 1, 3)
	wantOutcome(t, p.outcome(command.NewTxID(last, 1), true), command.TxExpired, "")
	for i := 0; len(b.m.former) > 0; i++ {
		if i > 100 {
			t.Fatal("the work has no end")
		}
		before := len(b.m.former)
		b.system(&command.Tick{})
		if n := before - len(b.m.former); n > 40 {
			t.Fatalf("%d sessions were forgotten in one entry", n)
		}
	}
	left := 0
	for k := range b.disk.kv {
		if kind := k[2]; kind == keySession || kind == keyProgress || kind == keyOutcome {
			left++
		}
	}
	if left != 0 || len(b.m.ofUser) != 0 {
		t.Errorf("%d keys of sessions are left; users with sessions: %v", left, fmt.Sprint(b.m.ofUser))
	}
}
