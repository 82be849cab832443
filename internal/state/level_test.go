package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// 7.1: the level is raised when every node has said that it knows the next one, and a
// binary that doesn't know it stops there, and has changed nothing.
func TestFinalize(t *testing.T) {
	b := newBundle(t)
	finalize := &command.Finalize{Request: 4, Level: command.Level, Version: "v9.1"}
	b.do(2, finalize)
	if e := b.one(command.EffectCluster); e.Node != 2 || e.Request != 4 || e.Refusal != nil || !e.Existed {
		t.Fatalf("said again: %+v", e)
	}
	finalize.Level = command.Level + 2
	b.do(2, finalize)
	if e := b.one(command.EffectCluster); e.Refusal == nil || !strings.Contains(e.Refusal.Description, "can be raised to") {
		t.Fatalf("two levels at once: %+v", e)
	}
	finalize.Level = command.Level + 1
	for n := command.NodeID(1); n <= 3; n++ {
		b.do(2, finalize)
		if e := b.one(command.EffectCluster); e.Refusal == nil || !strings.Contains(e.Refusal.Description, fmt.Sprintf("node %d (node-%d) runs a version", n, n)) {
			t.Fatalf("nodes below %d know the next level: %+v", n, e)
		}
		b.system(&command.NodeUp{Node: n, Nonce: [16]byte{byte(n), 9}, Announcement: command.Announcement{Level: command.Level + 1}})
		b.epochs[n], _ = b.m.Epoch(n)
		b.numbers[n] = 0
	}
	b.disk.log = nil
	entry := command.AppendRecord(command.AppendEntry(nil, b.m.Stamp()), b.record(2, &command.QueueCreate{Name: "q"}, finalize, &command.QueueCreate{Name: "p"}))
	_, err := b.m.Apply(b.index+1, entry, b.disk, nil)
	if !errors.Is(err, ErrState) || !errors.Is(err, command.ErrNewer) || !strings.Contains(err.Error(), "run oncemq v9.1 or newer") {
		t.Fatal(err)
	}
	if len(b.disk.log) != 0 {
		t.Fatalf("changes: %v", b.disk.log)
	}
}

// 7.1: a start stops at a level that the binary doesn't know, before it reads anything else, and says
// what to run.
func TestLevelOnDisk(t *testing.T) {
	b := newBundle(t)
	if level, version := b.m.Level(); level != command.Level || version != "v0" {
		t.Fatalf("level %d by %q", level, version)
	}
	key := string(appendKey(nil, testGroup, keyLevel))
	next := b.disk.copy()
	next.kv[key] = string(putString(putUint(nil, command.Level+1), "v7.0"))
	next.kv[string(appendKey(nil, testGroup, keyClock))] = "in a form of the future"
	_, err := Load(testGroup, next.next(testGroup))
	if !errors.Is(err, ErrState) || !errors.Is(err, command.ErrNewer) || !strings.Contains(err.Error(), "run oncemq v7.0 or newer") {
		t.Error(err)
	}
	next.kv[key] = string(putString(putUint(nil, 0), ""))
	if _, err = Load(testGroup, next.next(testGroup)); err == nil || !strings.Contains(err.Error(), "cluster finalize") || errors.Is(err, command.ErrNewer) {
		t.Errorf("a level below all that the binary knows: %v", err)
	}
}

// 7.1: a cluster founded by a newer version is none for this one, and a node whose version can't go on gets no epoch.
func TestLevelOfOthers(t *testing.T) {
	m := New(testGroup)
	entry := command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{}), command.Record{
		Body: command.Append(nil, &command.ClusterInit{Cluster: [16]byte{1}, Level: command.Level + 1, Version: "v3"}),
	})
	d := newDisk()
	if _, err := m.Apply(1, entry, d, nil); !errors.Is(err, command.ErrNewer) || len(d.log) > 0 {
		t.Errorf("%v, changes %v", err, d.log)
	}
	b := newBundle(t)
	epoch, _ := b.m.Epoch(3)
	b.system(&command.NodeUp{Node: 3, Nonce: [16]byte{3, 9}, Announcement: command.Announcement{Level: command.Level - 1}})
	if now, _ := b.m.Epoch(3); now != epoch || len(b.effects) != 0 {
		t.Errorf("epoch %d, was %d; effects %+v", now, epoch, b.effects)
	}
}

// 7.1: an unknown command stops the node, also in parts, and nothing behind it is carried out.
func TestUnknownCommand(t *testing.T) {
	unknown := []byte{250, 0}
	for _, inParts := range []bool{false, true} {
		b := newBundle(t)
		body := append(command.Append(nil, &command.QueueCreate{Name: "q"}), unknown...)
		if inParts {
			body = command.Append(nil, &command.Part{Command: 1, Last: true, Data: body})
		}
		entry := command.AppendRecord(command.AppendEntry(nil, b.m.Stamp()), command.Record{Node: 1, Epoch: b.epochs[1], Number: 1, Body: body})
		b.disk.log = nil
		_, err := b.m.Apply(b.index+1, entry, b.disk, nil)
		if !errors.Is(err, command.ErrNewer) || !strings.Contains(err.Error(), "kind 250") || len(b.disk.log) != 0 {
			t.Errorf("in parts %v: %v; changes %v", inParts, err, b.disk.log)
		}
	}
}

// 4.4: a skipped entry does nothing but go into the digest, and is remembered.
func TestSkip(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.do(1, &command.QueueCreate{Name: "a"})
	before := b.m.Digest()
	record := b.record(1, &command.QueueCreate{Name: "b"}, &command.ConnEnd{Conn: p.id})
	b.skip(record)
	if _, ok := b.m.Queue("b"); ok || len(b.m.Connections()) != 1 || b.m.Digest() == before {
		t.Fatal("a skipped entry was applied, or its skip isn't in the digest")
	}
	if s := b.m.Skips(); len(s) != 1 || s[0].Index != b.index {
		t.Fatalf("%+v", s)
	}
	// The home is told which number is missing, and may say it again.
	b.do(1, &command.QueueCreate{Name: "c"})
	if e := b.one(command.EffectExpected); e.Number != record.Number {
		t.Fatalf("%+v", e)
	}
	b.numbers[1] = record.Number - 1
	b.do(1, &command.QueueCreate{Name: "c"})
	b.wantDepth("c", 0, 0)
}
