package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// State is what the suite holds every implementation of a state to; *store.State says what each method does.
type State = replica.State

// RunState runs the suite.
func RunState(t *testing.T, start func(t *testing.T) Disk[State]) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d Disk[State])
	}{
		{"Reads", suiteReads},
		{"Durable", suiteDurable},
		{"History", suiteHistory},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, start(t)) })
	}
}

func suiteReads(t *testing.T, d Disk[State]) {
	s, b := d.Open(), new(store.Batch)
	for _, k := range []string{"a", "ab", "abc", "b", "\xff\xfe"} {
		b.Put([]byte(k), []byte("value of "+k))
	}
	if err := s.Apply(b, 1); err != nil || !b.Empty() {
		t.Fatalf("apply: %v; the batch is empty: %v", err, b.Empty())
	}
	if v, ok, err := s.Get([]byte("ab"), []byte("> ")); string(v) != "> value of ab" || !ok || err != nil {
		t.Errorf("get: %q %v %v", v, ok, err)
	}
	if v, ok, err := s.Get([]byte("abd"), nil); len(v) != 0 || ok || err != nil {
		t.Errorf("get of nothing: %q %v %v", v, ok, err)
	}
	for _, c := range []struct {
		start, end string
		limit      int
		want       string
	}{{"a", "b", 9, "a ab abc "}, {"a", "b", 2, "a ab "}, {"ab", "\xff\xfe", 9, "ab abc b "}, {"b", "\xff\xff", 9, "b \xff\xfe "}, {"c", "d", 9, ""}} {
		got := ""
		err := s.IterateRange([]byte(c.start), []byte(c.end), func(k, v []byte) bool {
			if string(v) != "value of "+string(k) {
				t.Errorf("%q has the value %q", k, v)
			}
			got += string(k) + " "
			c.limit--
			return c.limit > 0
		})
		if err != nil || got != c.want {
			t.Errorf("from %q to %q: %q, %v", c.start, c.end, got, err)
		}
	}
	s.Close()
}

// suiteDurable: the durable index stays behind the applied index until a flush, and reaches it then.
func suiteDurable(t *testing.T, d Disk[State]) {
	s := d.Open()
	check := func(applied, durable uint64) {
		t.Helper()
		got, err := s.DurableIndex()
		if err != nil || got != durable || s.AppliedIndex() != applied {
			t.Errorf("applied %d, durable %d, %v; want %d, %d", s.AppliedIndex(), got, err, applied, durable)
		}
	}
	check(0, 0)
	for _, step := range []func() error{func() error { return s.Apply(nil, 7) }, s.Flush, func() error { return s.Apply(nil, 9) }} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	check(9, 7)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an applied index that goes back was taken")
			}
		}()
		s.Apply(nil, 9)
	}()
	s.Close()
	s = d.Open() // without a flush: what came behind the last one is to come again
	if a := s.AppliedIndex(); a < 7 || a > 9 {
		t.Errorf("reopened at %d", a)
	}
	s.Close()
}

// suiteHistory: whatever was put, inserted and deleted, reads give the last; and what a crash leaves is exactly the state of
// one applied index, not below the durable one [6.1, 6.2].
func suiteHistory(t *testing.T, d Disk[State]) {
	rng := rand.New(rand.NewPCG(2, 2))
	history := []map[string]string{{}}
	lost := 0
	for life := range uint64(20) {
		s, b := d.Open(), new(store.Batch)
		at := s.AppliedIndex()
		if at >= uint64(len(history)) {
			t.Fatalf("life %d: applied index %d of %d", life, at, len(history)-1)
		}
		lost += len(history) - 1 - int(at)
		history = history[:at+1]
		same(t, s, history[at])
		for range rng.IntN(60) {
			now := maps.Clone(history[len(history)-1])
			for range rng.IntN(5) {
				change(rng, b, now)
			}
			history = append(history, now)
			if err := s.Apply(b, uint64(len(history)-1)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(40) == 0 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		same(t, s, history[len(history)-1])
		durable, err := s.DurableIndex()
		if err != nil {
			t.Fatal(err)
		}
		d.Crash(life)
		s = d.Open()
		if at := s.AppliedIndex(); at < durable {
			t.Fatalf("life %d: durable index %d, after a crash applied index %d", life, durable, at)
		}
		s.Close()
	}
	if lost == 0 {
		t.Error("too tame: no crash has lost anything")
	}
}

// change makes one random change, in a batch and in what it has to lead to.
func change(rng *rand.Rand, b *store.Batch, now map[string]string) {
	k := fmt.Sprintf("\x00\x00%03d", rng.IntN(200))
	v := fmt.Sprint(rng.Uint64())
	switch n := rng.IntN(20); {
	case n == 0:
		end := fmt.Sprintf("\x00\x00%03d", rng.IntN(200))
		b.DeleteRange([]byte(min(k, end)), []byte(max(k, end)))
		maps.DeleteFunc(now, func(key, _ string) bool { return key >= min(k, end) && key < max(k, end) })
	case n < 6:
		b.Delete([]byte(k))
		delete(now, k)
	case n < 12 && now[k] == "":
		b.Insert([]byte(k), []byte(v))
		now[k] = v
	default:
		b.Put([]byte(k), []byte(v))
		now[k] = v
	}
}

// same compares a state with what it has to hold.
func same(t *testing.T, s State, want map[string]string) {
	t.Helper()
	var keys []string
	err := s.IterateRange([]byte{0, 0}, []byte{0, 1}, func(k, v []byte) bool {
		keys = append(keys, string(k))
		if want[string(k)] != string(v) {
			t.Errorf("%q has the value %q, want %q", k, v, want[string(k)])
		}
		return true
	})
	if err != nil || !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("applied index %d: %d keys, want %d; %v", s.AppliedIndex(), len(keys), len(want), err)
	}
	for k, v := range want {
		if got, ok, err := s.Get([]byte(k), nil); !ok || err != nil || !bytes.Equal(got, []byte(v)) {
			t.Fatalf("%q: %q %v %v", k, got, ok, err)
		}
	}
}
