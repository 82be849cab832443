package state

import (
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// 4.5: civil time can be set back; what leaders stamp that don't know of it yet doesn't
// bring the former time back, and what is kept for a day is kept for a day.
func TestSetTime(t *testing.T) {
	const day, year = 24 * 3_600_000, 365 * 24 * 3_600_000
	b := newBundle(t)
	right := b.civil
	b.civil += 10 * year // a clock jumps
	p := b.connectGo(1, "p", 1, 1)
	p.do(1, &command.TokenOpen{Conn: p.id, Request: 1}) // ends a day after its last use
	b.do(2, &command.SetTime{Request: 3, Civil: right, By: "root"})
	if e := b.one(command.EffectCluster); e.Node != 2 || e.Request != 3 || e.Refusal != nil || e.Civil != b.civil {
		t.Fatalf("%+v", e)
	}
	if told := b.kind(command.EffectTimeSet); len(told) != 3 || told[0].Civil != right || told[0].Reason != "root" {
		t.Fatalf("%+v", told)
	}
	if got := b.m.TimeSet(); got != (TimeSet{Index: b.index, From: b.civil, To: right, Node: 2, By: "root"}) {
		t.Fatalf("%+v", got)
	}
	late := command.AppendEntry(nil, command.EntryHeader{Civil: b.civil + 5, Running: b.running})
	b.apply(late) // stamped before its leader knew
	if civil, _ := b.m.Times(); civil != right {
		t.Fatalf("civil time is %d again, want %d", civil, right)
	}
	if due := b.m.Next().Civil; due != right+day {
		t.Fatalf("due at %d, want %d: a day from now", due, right+day)
	}
	b.civil = right
	b.tick(day - 1)
	if b.m.Sessions() != 1 {
		t.Fatal("forgotten too early")
	}
	b.tick(1)
	if b.m.Sessions() != 0 {
		t.Fatal("kept for ever")
	}
	for _, civil := range []int64{0, -1, command.MaxCivil} {
		b.do(1, &command.SetTime{Civil: civil})
		if e := b.one(command.EffectCluster); e.Refusal == nil {
			t.Errorf("%d: %+v", civil, e)
		}
	}
}
