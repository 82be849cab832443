package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// goClient is a client that can resume: a connection, a session, a consumer of q with
// allowance 10 on link 1.
func goClient(b *bundle, n command.NodeID, nonce byte) (*peer, command.SessionID) {
	b.Helper()
	p := b.connectGo(n, "app", nonce, 1)
	id := p.session(command.SessionOpen{Nonce: [16]byte{nonce, 1}})
	p.attach(&command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q", Create: true}, 10)
	return p, id
}

// again is the client's next connection, session and consumer, with its unsettled map.
func again(b *bundle, n command.NodeID, nonce byte, attempt uint32, id command.SessionID, unsettled ...command.DeliveryRef) (*peer, *command.LinkOpened) {
	b.Helper()
	p := b.connectGo(n, "app", nonce, attempt)
	p.session(command.SessionOpen{Session: id})
	c := &command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q", Resume: true}
	q, _ := b.m.Queue("q")
	for _, ref := range unsettled {
		c.Unsettled = append(c.Unsettled, command.Unsettled{Incarnation: q.Incarnation, Ref: ref})
	}
	return p, p.attach(c, 0)
}

func states(o *command.LinkOpened) (all []command.UnsettledState) {
	for _, r := range o.Resumed {
		all = append(all, r.State)
	}
	return all
}

// 2.2, C1: the log gives the identity; opening is idempotent by nonce.
func TestSessionOpenIsIdempotent(t *testing.T) {
	b := newBundle(t)
	p := b.connectGo(1, "app", 9, 1)
	id := p.session(command.SessionOpen{Nonce: [16]byte{1, 2, 3, 4, 5}})
	if id.History() != 5 || id.Group() != testGroup || id[15] != 4 {
		t.Fatalf("id %s", id)
	}
	p = b.connectGo(2, "app", 9, 2) // the reply was lost
	if again := p.session(command.SessionOpen{Nonce: [16]byte{1, 2, 3, 4, 5}}); again != id {
		t.Fatalf("another session: %s, %s", id, again)
	}
	if !b.one(command.EffectSessionOpened).Detail.(*command.SessionOpened).Resumed {
		t.Fatal("not resumed")
	}
	// Another process, and another user, can't have it.
	for _, c := range []*command.ConnOpen{
		{Principal: "alice", ContainerID: "app", Nonce: [16]byte{8}},
		{Principal: "bob", ContainerID: "app", Nonce: [16]byte{9}},
	} {
		o := b.connectAs(1, c)
		o.do(1, &command.SessionOpen{Conn: o.id, Session: id})
		if e := b.one(command.EffectSessionOpened); e.Refusal == nil || e.Refusal.Condition != condNotFound {
			t.Fatalf("%+v", e)
		}
	}
}

// C6, C8: the home is lost; what the client has seen is still its own, what it has not
// is sent whole as a first delivery.
func TestResumeAfterLostHome(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a", "b", "c")
	refs := b.refs()
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	b.wantDepth("q", 3, 3)
	p, o := again(b, 2, 1, 2, id, refs[1])
	if s := states(o); len(s) != 1 || s[0] != command.StillHeld {
		t.Fatalf("%v", s)
	}
	b.wantDelivered("a/0", "c/0")
	if got := b.refs(); got[0] != refs[0] {
		t.Fatalf("%v", got)
	}
	p.settle(1, command.Accepted, refs...)
	b.tick(100_000)
	b.wantDepth("q", 0, 0)
}

// C6, C8, C13: the grace ends; how it is counted depends on who was lost.
func TestGrace(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace int64
		want  []string
		lose  func(b *bundle, p *peer)
	}{
		{"home", 60_000, []string{"a/1+", "b/1+"}, func(b *bundle, p *peer) {
			b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
		}},
		{"silent", 60_000, []string{"a/1+", "b/0+"}, func(b *bundle, p *peer) {
			p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent, Links: []command.LinkUnwritten{{Link: 1, Unwritten: b.refs()[1:]}}})
		}},
		{"forced", 60_000, []string{"a/1+", "b/1+"}, func(b *bundle, p *peer) {
			p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndForced})
		}},
		{"reset", 5_000, []string{"a/1+", "b/1+"}, func(b *bundle, p *peer) {
			p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndReset})
		}},
		{"close", 0, []string{"a/0+", "b/0+"}, func(b *bundle, p *peer) {
			p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndClosed})
		}},
		{"another process", 0, []string{"a/1+", "b/1+"}, func(b *bundle, p *peer) {
			p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
			b.connectGo(2, "app", 2, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBundle(t)
			p, _ := goClient(b, 1, 1)
			p.send("q", "a", "b")
			refs := b.refs()
			b.effects = append(b.effects[:0], b.kind(command.EffectDeliver)...)
			c.lose(b, p)
			other := b.connect(3, "other")
			_ = refs
			if c.grace > 0 {
				other.receiver(1, "q", 1)
				got := len(b.refs())
				if c.name == "silent" { // b had not been written: it is free at once
					b.wantDelivered("b/0")
					other.settle(1, command.Released, b.refs()...)
				} else if got != 0 {
					t.Fatal("reserved deliveries went elsewhere")
				}
				b.tick(c.grace - 1)
				if n := b.m.Next().Running; n != b.running+1 {
					t.Fatalf("next %d, now %d", n, b.running)
				}
				b.all = nil
				b.tick(1)
				other.do(3, &command.Withdraw{Conn: other.id, Link: 1})
			}
			second := b.connect(2, "second")
			if c.grace > 0 {
				other.do(3, &command.ConnEnd{Conn: other.id, Cause: command.EndClosed, Links: []command.LinkUnwritten{{Link: 1, Unwritten: all(b)}}})
			}
			second.receiver(1, "q", 5)
			b.wantDelivered(c.want...)
		})
	}
}

// all names every delivery ever told, newest attempts included.
func all(b *bundle) (refs []command.DeliveryRef) {
	for _, e := range b.all {
		if e.Kind == command.EffectDeliver {
			refs = append(refs, e.Ref)
		}
	}
	return refs
}

// A client that resumes its session and not its link doesn't keep the deliveries.
func TestResumedWithoutItsLink(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	b.tick(graceLost - 1)
	p = b.connectGo(2, "app", 1, 2)
	p.session(command.SessionOpen{Session: id})
	b.tick(graceLost - 1)
	b.wantDepth("q", 1, 1)
	b.tick(1)
	b.wantDepth("q", 1, 0)
	p.attach(&command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q", Resume: true}, 1)
	b.wantDelivered("a/1+")
	b.tick(2 * graceLost)
	b.wantDepth("q", 1, 1)
}

// 3.3: absent is not accepted: after the grace the map is answered truly.
func TestResumeAfterGrace(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a", "b", "c")
	refs := b.refs()
	keep := func(outcome command.Disposed, ref command.DeliveryRef) {
		p.do(1, &command.Settle{Conn: p.id, Link: 1, Keep: true, Disposition: command.Disposition{Outcome: outcome}, Refs: []command.DeliveryRef{ref}})
	}
	keep(command.Accepted, refs[0])
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1})
	keep(command.Released, refs[1])
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	b.tick(graceLost)
	b.wantDepth("q", 2, 0)
	p, o := again(b, 2, 1, 2, id, refs...)
	if s := states(o); s[0] != command.WasAccepted || s[1] != command.WasReturned || s[2] != command.WasLost {
		t.Fatalf("%v", s)
	}
	// The repeat of a settlement that was applied isn't a lost one.
	p.settle(1, command.Accepted, refs[0])
	p.do(2, &command.Settle{Conn: p.id, Link: 1, Request: 9, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs[1:]})
	if e := b.one(command.EffectSettled); len(e.Refs) != 2 {
		t.Fatalf("%+v", e)
	}
	p.do(2, &command.Forget{Conn: p.id, Link: 1, Refs: refs[:2]})
	for k := range b.disk.kv {
		if k[2] == keyResult {
			t.Fatal("a result is left")
		}
	}
	// A day after its loss the session is gone.
	p.do(2, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	b.tick(retention)
	if b.m.Sessions() != 0 || len(b.m.clients) != 0 {
		t.Fatal("the session is left")
	}
}

// A result that is forgotten, and the end of its link in the same entry: nothing is left that refers to the link's list.
func TestForgetAndEndInOneEntry(t *testing.T) {
	b := newBundle(t)
	p, _ := goClient(b, 1, 1)
	p.send("q", "a", "b")
	refs := b.refs()
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Keep: true, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs})
	p.do(1, &command.Forget{Conn: p.id, Link: 1, Refs: refs[:1]}, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	for k := range b.disk.kv {
		if k[2] == keyResult || k[2] == keyResults {
			t.Fatalf("key %x is left", k)
		}
	}
	b.tick(0)
}

// 1.4: late frames of an ended connection change nothing; a lower attempt is refused.
func TestConnectionsAreFenced(t *testing.T) {
	b := newBundle(t)
	p1, id := goClient(b, 1, 1)
	p1.send("q", "a", "b")
	refs := b.refs()
	p2, _ := again(b, 2, 1, 5, id, refs...)
	for _, e := range b.all {
		if e.Kind == command.EffectConnEnded && (e.Node != 1 || e.Local != p1.local) {
			t.Fatalf("%+v", e)
		}
	}
	p1.do(1, &command.Settle{Conn: p1.id, Link: 1, Request: 4, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs},
		&command.Send{Conn: p1.id, Request: 5, Address: "q", Message: []byte("late")},
		&command.Commit{Conn: p1.id, Request: 6, Operations: -1})
	if len(b.effects) != 0 {
		t.Fatalf("%+v", b.effects)
	}
	b.wantDepth("q", 2, 2)
	b.do(3, &command.ConnOpen{Local: 77, Principal: "alice", ContainerID: "app", Nonce: [16]byte{1}, Attempt: 4})
	if e := b.one(command.EffectConnOpened); e.Refusal == nil || e.Local != 77 || e.Node != 3 {
		t.Fatalf("%+v", e)
	}
	p2.settle(1, command.Accepted, refs...)
	// Within one entry too: behind the take-over the old one is nobody.
	b.entry(b.record(3, &command.ConnOpen{Local: 78, Principal: "alice", ContainerID: "app", Nonce: [16]byte{1}, Attempt: 6}),
		b.record(2, &command.Send{Conn: p2.id, Request: 5, Address: "q", Message: []byte("late")}))
	b.wantDepth("q", 0, 0)
}

// 1.2, 1.4: a connection listens to its own node and epoch alone.
func TestForeignNodesChangeNothing(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a")
	ref := b.refs()[0]
	b.do(2, &command.Settle{Conn: p.id, Link: 1, Request: 1, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: []command.DeliveryRef{ref}},
		&command.Send{Conn: p.id, Request: 2, Address: "q", Message: []byte("b")}, &command.ConnEnd{Conn: p.id, Cause: command.EndClosed})
	if len(b.effects) != 0 {
		t.Fatalf("%+v", b.effects)
	}
	b.wantDepth("q", 1, 1)
	p.settle(1, command.Accepted, ref)
}

// C6, 1.5: a session belongs to one client process of one user.
func TestSessionsOfOthers(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	for _, c := range []*command.ConnOpen{
		{Principal: "bob", ContainerID: "app", Nonce: [16]byte{1}, Attempt: 2},
		{Principal: "alice", ContainerID: "another", Nonce: [16]byte{1}, Attempt: 2},
		{Principal: "alice", ContainerID: "app"},
		{Principal: "alice", ContainerID: "app", Nonce: [16]byte{2}, Attempt: 2},
	} {
		x := b.connectAs(2, c)
		x.do(2, &command.SessionOpen{Conn: x.id, Request: 1, Session: id, Nonce: [16]byte{9}})
		if e := b.one(command.EffectSessionOpened); e.Refusal == nil {
			t.Fatalf("%+v resumed it", c)
		}
		x.do(2, &command.LinkOpen{Conn: x.id, Request: 2, Link: 5, Session: id, Name: "in", Address: "q", Resume: true},
			&command.SenderOpen{Conn: x.id, Request: 3, Link: 6, Session: id, Name: "out", Address: "q", Numbered: true},
			&command.SessionEnd{Conn: x.id, Session: id})
		if b.one(command.EffectLinkOpened).Refusal == nil || b.one(command.EffectSenderOpened).Refusal == nil {
			t.Fatalf("%+v attached to it", c)
		}
	}
	p = b.connectGo(3, "app", 1, 2)
	if got := p.session(command.SessionOpen{Session: id}); got != id {
		t.Fatal("its owner lost it")
	}
}

// 1.5: equal container-ids live together; two that want it alone clash.
func TestSoleConnection(t *testing.T) {
	b := newBundle(t)
	b.connect(1, "app")
	sole := b.connectAs(2, &command.ConnOpen{Principal: "alice", ContainerID: "app", SoleConnection: true})
	b.connectAs(1, &command.ConnOpen{Principal: "bob", ContainerID: "app", SoleConnection: true})
	b.do(3, &command.ConnOpen{Local: 9, Principal: "alice", ContainerID: "app", SoleConnection: true})
	if e := b.one(command.EffectConnOpened); e.Refusal == nil || e.Refusal.Condition != condInvalid {
		t.Fatalf("%+v", e)
	}
	if e := b.one(command.EffectProbe); e.Node != 2 || e.Local != sole.local {
		t.Fatalf("%+v", e)
	}
	b.do(2, &command.ConnEnd{Conn: sole.id, Cause: command.EndSilent})
	b.connectAs(3, &command.ConnOpen{Principal: "alice", ContainerID: "app", SoleConnection: true})
}

// 3.2: the limit counts failures: the oldest of a lost connection, none of a lost home.
func TestInnocentNeighboursAreNoDeadLetters(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.send2("q", "poison", "x", "y")
	for range 9 {
		c := b.connect(2, "c")
		c.receiver(1, "q", 10)
		c.do(2, &command.ConnEnd{Conn: c.id, Cause: command.EndReset})
	}
	for range 20 {
		c := b.connect(3, "c")
		c.receiver(1, "q", 10)
		b.up(3)
	}
	b.wantDepth("q", 3, 0)
	c := b.connect(2, "c")
	c.receiver(1, "q", 10)
	b.wantDelivered("poison/29+", "x/29+", "y/29+")
	c.do(2, &command.ConnEnd{Conn: c.id, Cause: command.EndReset})
	b.wantDepth("q", 2, 0)
	b.wantDepth("DLQ.q", 1, 0)
}

// send2 makes the queue first.
func (p *peer) send2(queue string, bodies ...string) {
	p.Helper()
	p.do(p.node, &command.QueueCreate{Conn: p.id, Name: queue})
	p.send(queue, bodies...)
}

// 3.6: pre-settled links.
func TestPresettled(t *testing.T) {
	open := func(b *bundle, n command.NodeID) *peer {
		p := b.connect(n, "c")
		p.attach(&command.LinkOpen{Link: 1, Name: "r", Address: "q", Create: true, Presettled: true}, 10)
		return p
	}
	b := newBundle(t)
	p := open(b, 1)
	p.send("q", "a", "b", "c")
	refs := b.refs()
	p.settle(1, command.Accepted, refs[0])
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndReset, Links: []command.LinkUnwritten{{Link: 1, Unwritten: refs[2:]}}})
	b.wantDepth("q", 1, 0)
	if n := b.m.Counters().LostPresettled; n != 0 {
		t.Fatalf("%d lost", n)
	}
	open(b, 2)
	b.wantDelivered("c/0")
	b.system(&command.NodeDown{Node: 2, Epoch: b.epochs[2]})
	b.wantDepth("q", 0, 0)
	if n := b.m.Counters().LostPresettled; n != 1 {
		t.Fatalf("%d lost", n)
	}
}

// C8, C13: what is handed out while the end of a link or connection is on its way goes
// back untouched, on pre-settled links too; what was received and written doesn't.
func TestHandedOutWhileTheEndIsOnItsWay(t *testing.T) {
	for _, c := range []struct {
		name       string
		presettled bool
		received   uint64
		end        func(p *peer, received uint64) command.Command
		want       []string
	}{
		{"link closed", false, 2, endLinkWith(true), []string{"a/0+", "b/0+", "c/0", "d/0"}},
		{"link detached", false, 2, endLinkWith(false), []string{"c/0", "d/0"}},
		{"connection reset", false, 2, endConnWith(command.EndReset), []string{"a/1+", "b/1+", "c/0", "d/0"}},
		{"connection closed", false, 3, endConnWith(command.EndClosed), []string{"a/0+", "b/0+", "c/0+", "d/0"}},
		{"nothing received", false, noneReceived, endConnWith(command.EndForced), []string{"a/0", "b/0", "c/0", "d/0"}},
		{"pre-settled link closed", true, 2, endLinkWith(true), []string{"c/0", "d/0"}},
		{"pre-settled link detached", true, 2, endLinkWith(false), []string{"c/0", "d/0"}},
		{"pre-settled connection reset", true, 1, endConnWith(command.EndReset), []string{"b/0", "c/0", "d/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBundle(t)
			p := b.connect(1, "p")
			p.attach(&command.LinkOpen{Link: 1, Name: "in", Address: "q", Create: true, Presettled: c.presettled}, 3)
			p.send("q", "a", "b", "c")
			p.send("q", "d")
			p.do(1, &command.Allow{Conn: p.id, Link: 1, Messages: 1, Bytes: 100}, c.end(p, c.received))
			b.connect(2, "other").receiver(1, "q", 9)
			b.wantDelivered(c.want...)
		})
	}
}

func endLinkWith(closed bool) func(*peer, uint64) command.Command {
	return func(p *peer, n uint64) command.Command {
		return &command.LinkEnd{Conn: p.id, Link: 1, Closed: closed, Received: n}
	}
}

func endConnWith(cause command.EndCause) func(*peer, uint64) command.Command {
	return func(p *peer, n uint64) command.Command {
		return &command.ConnEnd{Conn: p.id, Cause: cause, Links: []command.LinkUnwritten{{Link: 1, Received: n}}}
	}
}

// A queue that was deleted and made again is another one: what the client held of the
// former is lost, whatever numbers the new one has (C5).
func TestResumeOnAQueueMadeAgain(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	old := command.Unsettled{Incarnation: b.m.byName["q"].inc, Ref: b.refs()[0]}
	p.do(1, &command.QueueDelete{Conn: p.id, Name: "q"})
	p.attach(&command.LinkOpen{Link: 2, Session: id, Name: "in", Address: "q", Create: true}, 5)
	p.send("q", "b")
	if ref := b.refs()[0]; ref != old.Ref {
		t.Fatalf("%+v", ref)
	}
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	p = b.connectGo(2, "app", 1, 2)
	p.session(command.SessionOpen{Session: id})
	o := p.attach(&command.LinkOpen{Link: 1, Session: id, Name: "in", Address: "q", Resume: true, Unsettled: []command.Unsettled{old}}, 0)
	if s := states(o); s[0] != command.WasLost {
		t.Fatalf("%v", s)
	}
	b.wantDelivered("b/0") // it has not seen this one
}

// The count of what the home has had begins anew with each attaching: what the client
// has named as seen isn't told again, and stays its own; the rest is.
func TestReceivedAfterResume(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a", "b", "c", "d")
	refs := b.refs()
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	p, _ = again(b, 2, 1, 2, id, refs[1], refs[3])
	b.wantDelivered("a/0", "c/0")
	p.send("q", "e", "f")
	p.allow(1, 5)
	b.wantDelivered("e/0", "f/0")
	p.do(2, &command.ConnEnd{Conn: p.id, Cause: command.EndReset, Links: []command.LinkUnwritten{{Link: 1, Received: 1}}})
	b.wantDepth("q", 6, 3)
	other := b.connect(3, "other")
	other.receiver(1, "q", 9)
	b.wantDelivered("c/0", "e/0", "f/0")
	b.tick(graceReset)
	b.wantDelivered("a/1+", "b/1+", "d/1+")
}

// C11: whatever brings messages back (a rollback, a release, a home's loss, the end of a
// grace), and whatever leaves for the dead letters, the rest comes in the queue's order.
func TestOrderOverEverything(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1})
	p.send("q", "a", "b", "c", "d", "e", "f")
	p.allow(1, 4)
	b.wantDelivered("a/0", "b/0", "c/0", "d/0")
	refs := b.refs()
	p.do(1, &command.Rollback{Conn: p.id, Request: 1, Tx: command.NewTxID(id, 1), Settles: accept(1, refs[3], refs[0])},
		&command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Rejected}, Refs: refs[1:2]})
	b.wantDepth("DLQ.q", 1, 0)
	p.allow(1, 3)
	b.wantDelivered("a/1+", "d/1+", "e/0")
	p.settle(1, command.Released, b.refs()[1:]...) // it holds c and a now
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	p, _ = again(b, 2, 1, 2, id)
	b.wantDelivered("c/0", "a/1+") // in the order in which this link got them
	p.allow(1, 1)
	b.wantDelivered("d/1+")
	p.do(2, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	other := b.connect(3, "other")
	other.receiver(1, "q", 1)
	b.wantDelivered("e/0+")
	other.settle(1, command.Released, b.refs()...)
	b.tick(graceLost)
	other.receiver(2, "q", 9)
	b.wantDelivered("a/2+", "c/1+", "d/2+", "e/0+", "f/0")
}

// 3.4: Withdraw returns what was not written and takes the allowance.
func TestWithdraw(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a", "b")
	refs := b.refs()
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1, Request: 3, Unwritten: refs[1:]})
	if e := b.one(command.EffectWithdrawn); e.Request != 3 || e.Link != 1 {
		t.Fatalf("%+v", e)
	}
	b.wantDelivered()
	p.allow(1, 1)
	b.wantDelivered("b/0")
}

// 3.4: what is handed out before a Withdraw is applied returns with what was withdrawn: the home gives it to nobody, since it
// would come before that.
func TestWithdrawReturnsWhatItsHomeHasNotHad(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a", "b", "c", "d")
	refs := b.refs()
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1, Received: 2, Unwritten: refs[1:2]})
	b.wantDepth("q", 4, 1)
	p.allow(1, 5)
	b.wantDelivered("b/0", "c/0", "d/0")
	// The count goes on behind what was given back.
	p.do(1, &command.Withdraw{Conn: p.id, Link: 1, Received: 6})
	b.wantDepth("q", 4, 3)
}

// Detach without closed leaves deliveries with the link; the session's end returns
// them (amqp.md 0.7).
func TestDetachNotClosed(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a", "b", "c")
	refs := b.refs()
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Unwritten: refs[2:]})
	b.wantDepth("q", 3, 2)
	p.settle(1, command.Accepted, refs[0])
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	p.receiver(2, "q", 5)
	b.wantDelivered("b/0+", "c/0")
}

// Two links interleaving on one queue and connection: each settles only its own.
func TestTwoLinksInterleaving(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 2)
	p.receiver(2, "q", 2)
	p.send("q", "a", "b", "c", "d")
	refs := b.refs()
	p.do(1, &command.Settle{Conn: p.id, Link: 2, Request: 1, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs[:2]})
	if e := b.one(command.EffectSettled); len(e.Refs) != 1 || e.Refs[0] != refs[0] {
		t.Fatalf("%+v", e)
	}
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Disposition: command.Disposition{Outcome: command.Released}, Refs: []command.DeliveryRef{refs[0], refs[2]}})
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 2, Closed: true})
	p.allow(1, 5)
	b.wantDelivered("a/0+", "c/0+", "d/0+")
	// An old attempt names nothing.
	p.do(1, &command.Settle{Conn: p.id, Link: 1, Request: 1, Disposition: command.Disposition{Outcome: command.Accepted}, Refs: refs[:1]})
	if e := b.one(command.EffectSettled); len(e.Refs) != 1 {
		t.Fatalf("%+v", e)
	}
}

// 4.6: an answer that asks for nothing comes behind what an allowance brings.
func TestFenceBehindAllow(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 0)
	p.send("q", "a")
	p.do(1, &command.Allow{Conn: p.id, Link: 1, Messages: 5, Bytes: 100}, &command.Settle{
		Conn: p.id, Link: 1, Request: 5,
		Disposition: command.Disposition{Outcome: command.Accepted},
	})
	if len(b.effects) != 2 || b.effects[0].Kind != command.EffectDeliver || b.effects[1].Kind != command.EffectSettled {
		t.Fatalf("%+v", b.effects)
	}
}

// C13: a home that gives its connections up (an orderly stop, a lag) is as innocent as a
// lost one: counts rise, nothing comes nearer to the dead letters, however often.
func TestForcedEndsAreNoFailures(t *testing.T) {
	b := newBundle(t)
	b.connect(2, "p").receiver(1, "q", 0)
	b.connect(2, "p").send("q", "a")
	for i := range 2 * redeliveryLimit {
		p := b.connect(1, "p")
		p.receiver(1, "q", 5)
		b.wantDelivered(fmt.Sprintf("a/%d%s", i, []string{"+", ""}[max(0, 1-i)]))
		p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndForced})
	}
	b.wantDepth("q", 1, 0)
	p := b.connect(1, "p")
	p.attach(&command.LinkOpen{Link: 1, Name: "in", Address: "q", Presettled: true}, 5)
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndForced}) // its home lives: it was written
	b.wantDepth("q", 0, 0)
	if n := b.m.Counters().LostPresettled; n != 0 {
		t.Fatalf("%d counted as lost", n)
	}
}

// What a closed link keeps for an open transaction goes back with its session, also
// where a new link has taken its name.
func TestSessionEndReturnsWhatItsLinksHeld(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a", "b")
	refs := b.refs()
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true, Enlisted: refs[:1], Unwritten: refs[1:]})
	p.attach(&command.LinkOpen{Link: 2, Session: id, Name: "in", Address: "q"}, 0)
	b.wantDepth("q", 2, 1)
	p.do(1, &command.SessionEnd{Conn: p.id, Session: id})
	p.receiver(3, "q", 5)
	b.wantDelivered("a/0+", "b/0")
}

// A link attached again on the same connection takes the place of the former one, whose
// home is told.
func TestResumeStealsOnTheSameConnection(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.send("q", "a")
	ref := b.refs()[0]
	p.attach(&command.LinkOpen{
		Link: 7, Session: id, Name: "in", Address: "q", Resume: true,
		Unsettled: []command.Unsettled{{Incarnation: b.m.byName["q"].inc, Ref: ref}},
	}, 0)
	if e := b.one(command.EffectLinkEnded); e.Link != 1 || e.Refusal.Condition != condStolen {
		t.Fatalf("%+v", e)
	}
	p.settle(7, command.Accepted, ref)
}

// C13: a pre-settled link doesn't become one that settles, nor the other way round: what
// the former holds would be taken for consumed. What was written when it ends is gone.
func TestPresettledIsNotResumed(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	p.attach(&command.LinkOpen{Link: 2, Session: id, Name: "fast", Address: "r", Create: true, Presettled: true}, 5)
	p.send("r", "a")
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 2})
	b.wantDepth("r", 0, 0)
	p.attach(&command.LinkOpen{Link: 3, Session: id, Name: "fast", Address: "r", Presettled: true}, 1)
	p.send("r", "lost")
	p.attach(&command.LinkOpen{Link: 4, Session: id, Name: "fast", Address: "r", Resume: true}, 5)
	if e := b.one(command.EffectLinkEnded); e.Link != 3 || b.m.Counters().LostPresettled != 1 {
		t.Fatalf("%+v", e)
	}
	p.send("r", "b")
	b.wantDelivered("b/0")
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	b.tick(graceLost)
	p = b.connect(2, "other")
	p.receiver(1, "r", 5)
	b.wantDelivered("b/1+")
}
