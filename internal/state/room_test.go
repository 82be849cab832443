package state

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// trySend sends one message and returns the refusal's condition, "" where it was stored.
func (p *peer) trySend(queue, body string) string {
	p.Helper()
	p.do(p.node, &command.Send{Conn: p.id, Link: 99, Request: p.next(), Address: queue, Message: []byte(body)})
	if no := p.one(command.EffectSent).Refusal; no != nil {
		return no.Condition
	}
	return ""
}

func (b *bundle) disks(rooms ...command.Room) {
	b.Helper()
	for i, r := range rooms {
		b.system(&command.NodeRoom{Node: command.NodeID(i + 1), Disk: r})
	}
}

func (b *bundle) wantRoom(want command.Room) {
	b.Helper()
	if got := b.m.Room(); got != want {
		b.Fatalf("room %s, want %s: %+v", got, want, b.m.RoomInfo())
	}
}

// 8.5: what a majority of disks can take decides, and a node that is down takes nothing.
func TestRoomOnDisks(t *testing.T) {
	const ok, low, full = command.RoomOK, command.RoomLow, command.RoomFull
	for _, tt := range []struct {
		disks [3]command.Room
		down  command.NodeID
		want  command.Room
	}{
		{[3]command.Room{ok, ok, ok}, 0, ok},
		{[3]command.Room{full, ok, ok}, 0, ok},
		{[3]command.Room{ok, ok, ok}, 1, ok},
		{[3]command.Room{low, low, ok}, 0, low},
		{[3]command.Room{low, full, ok}, 0, low},
		{[3]command.Room{full, ok, full}, 0, full},
		{[3]command.Room{full, full, full}, 0, full},
		{[3]command.Room{full, ok, ok}, 1, ok},
		{[3]command.Room{full, ok, ok}, 2, full},
		{[3]command.Room{ok, low, ok}, 3, low},
	} {
		b := newBundle(t)
		b.disks(tt.disks[:]...)
		if tt.down != 0 {
			b.system(&command.NodeDown{Node: tt.down, Epoch: b.epochs[tt.down]})
		}
		if got := b.m.Room(); got != tt.want {
			t.Errorf("disks %v, node %d down: %s, want %s", tt.disks, tt.down, got, tt.want)
		}
	}
	b := newBundle(t)
	b.system(&command.NodeRoom{Node: 9, Disk: full}) // nobody knows it
	b.wantRoom(ok)
}

// Full disks refuse what needs room and pass what makes it [8.5].
func TestFullDisksRefuseSends(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "c")
	p.receiver(1, "q", 3)
	p.send("q", "a", "b", "c", "d")
	refs := b.refs()
	b.disks(command.RoomFull, command.RoomLow)
	if got := p.trySend("q", "x"); got != "" {
		t.Fatalf("one full disk of three: %q", got)
	}
	b.disks(command.RoomFull, command.RoomFull)
	if got := p.trySend("q", "y"); got != condLimit {
		t.Fatalf("two full disks: %q", got)
	}
	if got := p.trySend("nowhere", "y"); got != condNotFound {
		t.Fatalf("a queue that isn't there: %q", got)
	}
	e := p.commit(command.Commit{
		Sends:   []command.TxSend{{Address: "q", Message: []byte("z")}},
		Settles: []command.TxSettle{{Link: 1, Ref: refs[0], Settled: true, Disposition: command.Disposition{Outcome: command.Accepted}}},
	})
	if e.Outcome != command.TxRolledBack || e.Reason != command.ReasonLimit {
		t.Fatalf("a commit that sends: %+v", e)
	}
	e = p.commit(command.Commit{Settles: []command.TxSettle{{Link: 1, Ref: refs[1], Settled: true, Disposition: command.Disposition{Outcome: command.Accepted}}}})
	if e.Outcome != command.TxCommitted {
		t.Fatalf("a commit that only settles: %+v", e)
	}
	p.settle(1, command.Accepted, refs[2])
	b.wantDepth("q", 3, 0)
	b.do(1, &command.QueuePurge{Request: 1, Name: "q"})
	b.tick(1)
	b.wantDepth("q", 0, 0)
	b.disks(command.RoomFull, command.RoomOK)
	if got := p.trySend("q", "x"); got != "" {
		t.Fatalf("there is room again: %q", got)
	}
}

// A transaction that is rolled back for want of room is no failure of what it settled, however often it is tried (C13).
func TestFullDisksMakeNoDeadLetters(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "c")
	p.receiver(1, "q", 100)
	p.send("q", "a")
	b.disks(command.RoomFull, command.RoomFull)
	for range 3 * redeliveryLimit {
		refs := b.refs()
		wantOutcome(t, p.commit(command.Commit{
			Sends:   []command.TxSend{send("q", "z")},
			Settles: accept(1, refs...),
		}), command.TxRolledBack, command.ReasonLimit)
	}
	b.disks(command.RoomOK, command.RoomOK)
	wantOutcome(t, p.rollback(command.Rollback{Settles: accept(1, b.refs()...), Reason: command.ReasonLimit}), command.TxRolledBack, command.ReasonLimit)
	b.wantDepth("q", 1, 1)
	if n := b.m.Counters().DeadLettered; n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}

// A numbered send that is refused for want of room keeps its refusal [1.6].
func TestRefusedForRoomIsNotARepeat(t *testing.T) {
	b := newBundle(t)
	p, id := goClient(b, 1, 1)
	inc := p.numbered(id).Incarnation
	b.disks(command.RoomFull, command.RoomFull)
	if got := p.sendNumber(1, inc, "one"); got != condLimit {
		t.Fatal(got)
	}
	b.disks(command.RoomOK, command.RoomOK)
	if got := p.sendNumber(1, inc, "one"); got != condLimit {
		t.Fatalf("the repeat: %q", got)
	}
	if got := p.sendNumber(2, inc, "two"); got != "" {
		t.Fatal(got)
	}
}

// Memory is counted against the smallest budget, of nodes that are down as well, and comes back as messages go.
func TestRoomInMemory(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "c")
	p.receiver(1, "q", 1000)
	b.system(&command.NodeRoom{Node: 1, Memory: 1 << 30})
	b.system(&command.NodeRoom{Node: 3, Memory: b.m.memoryUsed() + 100*(messageCost+deliveryCost)})
	b.system(&command.NodeDown{Node: 3, Epoch: b.epochs[3]})
	b.wantRoom(command.RoomOK)
	sent, low := 0, false
	var refs []command.DeliveryRef
	for ; p.trySend("q", fmt.Sprint(sent)) == ""; sent++ {
		refs = append(refs, b.refs()...)
		low = low || b.m.Room() == command.RoomLow
	}
	if sent < 80 || sent > 100 || len(refs) != sent || !low {
		t.Fatalf("%d messages were taken, %d handed out", sent, len(refs))
	}
	b.wantRoom(command.RoomFull)
	p.settle(1, command.Accepted, refs...)
	b.wantRoom(command.RoomOK)
	if got := p.trySend("q", "x"); got != "" {
		t.Fatal(got)
	}
	b.system(&command.NodeRoom{Node: 3, Memory: 1})
	b.wantRoom(command.RoomFull)
	b.system(&command.NodeRoom{Node: 3})
	b.wantRoom(command.RoomOK)
}
