package state

import (
	"bytes"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// 1.1: only in unbroken sequence.
func TestUnbrokenSequence(t *testing.T) {
	b := newBundle(t)
	create := func(number uint64, name string) []command.Effect {
		b.numbers[1] = number - 1
		return b.do(1, &command.QueueCreate{Name: name})
	}
	create(1, "a")
	create(3, "c")
	if e := b.one(command.EffectExpected); e.Number != 2 || e.Node != 1 || e.Epoch != b.epochs[1] {
		t.Fatalf("%+v", e)
	}
	if create(1, "again"); len(b.effects) != 0 {
		t.Fatalf("%+v", b.effects)
	}
	create(2, "b")
	b.numbers[1] = 3
	r := []command.Record{b.record(1, &command.QueueCreate{Name: "e"}), b.record(1, &command.QueueCreate{Name: "f"})}
	b.entry(r...) // 4 and 5, where 3 is expected: one answer
	if e := b.one(command.EffectExpected); e.Number != 3 {
		t.Fatalf("%+v", e)
	}
	if n := len(b.m.Queues()); n != 2 {
		t.Fatalf("%d queues", n)
	}
	if _, next := b.m.Epoch(1); next != 3 {
		t.Fatalf("next %d", next)
	}
}

// 1.2: the life of an epoch.
func TestEpochs(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a")
	old := b.epochs[1]
	// A repeated NodeUp changes nothing and gets the same answer.
	b.system(&command.NodeUp{Node: 1, Nonce: [16]byte{1}, Announcement: command.Announcement{Level: command.Level}})
	if e := b.one(command.EffectNodeUp); command.Epoch(e.Number) != old || e.Detail != [16]byte{1} {
		t.Fatalf("%+v", e)
	}
	b.wantDepth("q", 1, 1)
	// A restart: another nonce; the old connections end in the same step.
	b.up(1)
	b.wantDepth("q", 1, 0)
	// NodeDown of the old life doesn't touch the new one; nor do its late records.
	b.system(&command.NodeDown{Node: 1, Epoch: old})
	if len(b.effects) != 0 || b.m.nodes[1].epoch != b.epochs[1] {
		t.Fatalf("%+v", b.effects)
	}
	late := b.record(1, &command.QueueCreate{Name: "late"})
	late.Epoch = old
	b.entry(late)
	if _, ok := b.m.Queue("late"); ok {
		t.Fatal("a record of an ended epoch was applied")
	}
	b.system(&command.NodeDown{Node: 1, Epoch: b.epochs[1]})
	if e := b.one(command.EffectNodeDown); command.Epoch(e.Number) != b.epochs[1] || e.Node != 1 {
		t.Fatalf("%+v", e)
	}
	// Its NodeUp, repeated late, doesn't revive it.
	b.system(&command.NodeUp{Node: 1, Nonce: [16]byte{b.nonces}, Announcement: command.Announcement{Level: command.Level}})
	if len(b.effects) != 0 || len(b.m.Nodes()) != 2 {
		t.Fatalf("%+v", b.effects)
	}
}

// 4.5: neither time goes back.
func TestTimesNeverGoBack(t *testing.T) {
	b := newBundle(t)
	b.civil, b.running = b.civil+1000, b.running+1000
	b.system(&command.Tick{})
	civil, running := b.m.Times()
	b.civil, b.running = 5, 5
	b.system(&command.Tick{})
	if c, r := b.m.Times(); c != civil || r != running {
		t.Fatalf("%d %d", c, r)
	}
}

// 5.2: a large command travels in parts, others go between, nothing is visible before
// the last; it ends with its epoch.
func TestParts(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.do(1, &command.QueueCreate{Name: "q"})
	body := bytes.Repeat([]byte("x"), 3000)
	whole := command.Append(nil, &command.Send{Conn: p.id, Request: 1, Address: "q", Message: body})
	whole = command.Append(whole, &command.Send{Conn: p.id, Request: 2, Address: "q", Message: body})
	part := func(n uint64, from, to int) *command.Part {
		return &command.Part{Command: n, Offset: uint64(from), Last: to == len(whole), Data: whole[from:to]}
	}
	p.do(1, part(1, 0, 1000))
	p.send("q", "between")
	b.wantDepth("q", 1, 0)
	p.do(1, part(1, 1000, 2000), part(1, 2000, len(whole)))
	if n := len(b.kind(command.EffectSent)); n != 2 {
		t.Fatalf("%d answers", n)
	}
	b.wantDepth("q", 3, 0)
	for k := range b.disk.kv {
		if k[2] == keyPart {
			t.Fatal("a part is left")
		}
	}
	p.do(1, part(2, 0, 1000))
	b.up(1)
	b.do(1, part(2, 1000, len(whole)))
	b.wantDepth("q", 3, 0)
	for k := range b.disk.kv {
		if k[2] == keyPart {
			t.Fatal("a part is left")
		}
	}
}

// 5.2: pieces of two large commands are never joined.
func TestPiecesOfTwoCommands(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 0)
	body := command.Append(nil, &command.Send{Conn: p.id, Address: "q", Message: []byte("a")})
	b.do(1, &command.Part{Command: 1, Data: body[:9]})
	b.do(1, &command.Part{Command: 2, Offset: 9, Last: true, Data: body[9:]})
	b.do(1, &command.Part{Command: 1, Offset: 9, Last: true, Data: body[9:]})
	b.wantDepth("q", 0, 0)
}

// A transaction of 64 MiB commits in one entry.
func TestLargeCommit(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	p.do(1, &command.QueueCreate{Name: "q"})
	c := &command.Commit{Conn: p.id, Request: 5, Operations: -1, Counted: 64}
	for range 64 {
		c.Sends = append(c.Sends, command.TxSend{Address: "q", Message: make([]byte, 1<<20)})
	}
	whole := command.Append(nil, c)
	for at := 0; at < len(whole); at += command.MaxPlain {
		end := min(at+command.MaxPlain, len(whole))
		b.do(1, &command.Part{Command: 1, Offset: uint64(at), Last: end == len(whole), Data: whole[at:end]})
	}
	wantOutcome(t, b.one(command.EffectDecided), command.TxCommitted, "")
	b.wantDepth("q", 64, 0)
}

// 4.4: a panic in a check is a refusal and changes nothing.
func TestPanicInCheckIsARefusal(t *testing.T) {
	b := newBundle(t)
	p := b.connectGo(1, "p", 1, 1)
	b.single = true
	before := b.m.dump()
	b.m.record = command.Record{Node: 1, Epoch: b.epochs[1]}
	client := b.m.conns[p.id].client
	b.m.conns[p.id].client = nil // a connection of nobody
	b.m.out = b.disk
	b.m.execute(&command.SessionOpen{Conn: p.id, Request: 1, Nonce: [16]byte{1}})
	if e := b.m.effects[0]; e.Refusal == nil || e.Refusal.Condition != condInternal {
		t.Fatalf("%+v", e)
	}
	b.m.conns[p.id].client = client
	if after := b.m.dump(); after != before {
		t.Fatalf("before %s\nafter %s", before, after)
	}
}

// Unknown kinds and versions stop the node.
func TestDamageStopsTheNode(t *testing.T) {
	for _, entry := range [][]byte{nil, {9, 0, 0, 0}, {1, 0, 0, 0, 5}, command.AppendRecord([]byte{1, 0, 0, 0}, command.Record{Body: []byte{200, 1, 0}})} {
		if _, err := New(1).Apply(1, entry, newDisk(), nil); err == nil {
			t.Errorf("%x was applied", entry)
		}
	}
	for _, kv := range [][2]string{{"\x00\x01\x01", ""}, {"\x00\x02\x01", "x"}, {"\x00\x01\x70", ""}, {"\x00\x01\x22\x00\x00\x00\x00\x00\x00\x00\x01", "\x01\x01\x01"}} {
		done := false
		_, err := Load(1, func() ([]byte, []byte, bool) { ok := !done; done = true; return []byte(kv[0]), []byte(kv[1]), ok })
		if err == nil {
			t.Errorf("%q was loaded", kv)
		}
	}
}
