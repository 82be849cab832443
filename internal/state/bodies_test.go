package state

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// Range implements KeyReader.
func (d *disk) Range(from, to []byte) (Cursor, func() error) {
	var keys []string
	for k := range d.kv {
		if k >= string(from) && k < string(to) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return func() (key, value []byte, ok bool) {
		if len(keys) == 0 {
			return nil, nil, false
		}
		k := keys[0]
		keys = keys[1:]
		return []byte(k), []byte(d.kv[k]), true
	}, func() error { return nil }
}

// Get implements KeyReader.
func (d *disk) Get(key, dst []byte) ([]byte, bool, error) { return d.get(key, dst) }

// CheckBodies finds each thing that can be wrong, and nothing in a state that is whole, however its dead letters lie.
func TestCheckBodies(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 20)
	p.send("q", bodies(1, 20)...)
	refs := b.refs()
	p.settle(1, command.Rejected, refs[2], refs[17])
	p.settle(1, command.Accepted, refs[0], refs[5])
	p.settle(1, command.Rejected, refs[9])
	b.do(1, &command.QueueCreate{Name: "other"}, &command.QueueCreate{Name: "many"})
	p.send("other", "a", "bc")
	p.do(1, &command.QueueDelete{Conn: p.id, Name: "q"}) // the dead letters' bodies stay
	b.do(1, &command.QueueCreate{Name: "q"})
	p.send("q", "again")
	b.tick(0)
	inc := func(queue string) command.Incarnation { return b.m.byName[queue].inc }
	body := func(queue string, n uint64) string { return string(MessageKey(nil, testGroup, inc(queue), n)) }
	dead := func(n uint64) string { return string(appendMessageKey(nil, testGroup, keyMoved, inc("DLQ.q"), n)) }
	for name, c := range map[string]struct {
		change  func(kv map[string]string)
		wrong   string
		orphans uint64
	}{
		"whole":                  {func(map[string]string) {}, "", 0},
		"a body is gone":         {func(kv map[string]string) { delete(kv, body("other", 2)) }, "message 2 of", 0},
		"the first body is gone": {func(kv map[string]string) { delete(kv, body("q", 1)) }, "has no body", 0},
		"a body is cut":          {func(kv map[string]string) { kv[body("other", 2)] = "b" }, "a body of 1 bytes, and should have 2", 0},
		"a dead letter's body is gone": {func(kv map[string]string) {
			delete(kv, string(appendKey(nil, testGroup, keyBody))+kv[dead(1)][:16])
		}, "it should be that of message 3 of", 0},
		"a dead letter's body is longer": {func(kv map[string]string) { kv[string(appendKey(nil, testGroup, keyBody))+kv[dead(2)][:16]] += "x" }, "a body of 3 bytes, and should have 2", 0},
		"a dead letter says too little":  {func(kv map[string]string) { kv[dead(3)] = kv[dead(3)][1:] }, "in 16 bytes", 1},
		"two dead letters have one body": {func(kv map[string]string) { kv[dead(2)] = kv[dead(3)] }, "", 0},
		"a dead letter has another message's": {func(kv map[string]string) {
			kv[dead(1)] = string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(inc("other"))), 1)) + "\x00"
		}, "", 0},
		"orphans": {func(kv map[string]string) {
			kv[string(MessageKey(nil, testGroup, 1, 1))], kv[string(MessageKey(nil, testGroup, 1<<60, 9))] = "x", "yz"
			kv[string(MessageKey(nil, testGroup, inc("other"), 77))] = ""
		}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := b.disk.copy()
			c.change(d.kv)
			r, err := CheckBodies(testGroup, d)
			if err != nil {
				t.Fatal(err)
			}
			shared := strings.Contains(name, "one body") || strings.Contains(name, "another message's")
			if (r.Faults > 0) != (c.wrong != "" || shared) || r.Faults != uint64(len(r.Wrong)) || r.Orphans != c.orphans {
				t.Fatalf("%+v", r)
			}
			if c.wrong != "" && !slices.ContainsFunc(r.Wrong, func(s string) bool { return strings.Contains(s, c.wrong) }) {
				t.Errorf("%q, want %q", r.Wrong, c.wrong)
			}
			if name == "whole" && (r.Bodies != 6 || r.Bytes != 1+2+5+1+2+2) {
				t.Errorf("%+v", r)
			}
		})
	}
	p.send("many", bodies(1, 100)...)
	d2 := b.disk.copy()
	for k := range d2.kv {
		if k[2] == keyBody {
			delete(d2.kv, k)
		}
	}
	if r, err := CheckBodies(testGroup, d2); err != nil || r.Faults != 106 || len(r.Wrong) != maxWrong || r.Bodies != 0 {
		t.Errorf("nothing is left: %+v, %v", r, err)
	}
}
