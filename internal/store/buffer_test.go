package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// contents is what a State should hold, applied without any buffer.
type contents map[string]string

func (m contents) put(key, value string) { m[key] = value }

// step makes random changes in a batch and in the model.
func (m contents) step(r *rand.Rand, b *Batch) {
	for range 1 + r.IntN(6) {
		key := fmt.Sprintf("\x00\x00%03d", r.IntN(300))
		_, there := m[key]
		value := string(bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(3000)))
		switch k := r.IntN(10); {
		case k < 5 && there:
			b.Put([]byte(key), []byte(value))
			m.put(key, value)
		case k < 5:
			b.Insert([]byte(key), []byte(value))
			m.put(key, value)
		default:
			b.Delete([]byte(key))
			delete(m, key)
		}
	}
	if r.IntN(200) == 0 {
		m.deleteRange(b, r.IntN(150), 150+r.IntN(150))
	}
	if r.IntN(20) > 0 {
		return
	}
	// Piece by piece, upwards or downwards, with others between.
	for at, up := r.IntN(300), r.IntN(2) == 0; r.IntN(6) > 0; {
		n := r.IntN(4)
		if up {
			m.deleteRange(b, at, at+n)
			at += n
		} else {
			m.deleteRange(b, at-n, at)
			at -= n
		}
		if at = max(at, 3); r.IntN(3) == 0 {
			key := fmt.Sprintf("\x00\x00%03d", min(at+r.IntN(6), 299))
			b.Put([]byte(key), []byte(key))
			m.put(key, key)
		}
	}
}

func (m contents) deleteRange(b *Batch, low, high int) {
	from, to := fmt.Sprintf("\x00\x00%03d", low), fmt.Sprintf("\x00\x00%03d", high)
	b.DeleteRange([]byte(from), []byte(to))
	for k := range m {
		if k >= from && k < to {
			delete(m, k)
		}
	}
}

// check compares every key by Get, and all of them by Iterate if all.
func (m contents) check(t *testing.T, s *State, all bool) {
	t.Helper()
	for i := range 300 {
		key := fmt.Sprintf("\x00\x00%03d", i)
		want, there := m[key]
		if got, ok, err := s.Get([]byte(key), nil); err != nil || ok != there || string(got) != want {
			t.Fatalf("%q: %d bytes, %v, %v; want %d, %v", key, len(got), ok, err, len(want), there)
		}
	}
	if !all {
		return
	}
	n := 0
	if err := s.Iterate([]byte{0, 0}, func(k, v []byte) bool {
		n++
		if want, ok := m[string(k)]; !ok || want != string(v) {
			t.Fatalf("%q: %d bytes, want %d, %v", k, len(v), len(want), ok)
		}
		return true
	}); err != nil || n != len(m) {
		t.Fatalf("%d keys, %v; want %d", n, err, len(m))
	}
}

// TestBuffer: what is in the buffer, on its way to Pebble and in Pebble is one state, whatever was put, inserted and deleted;
// and what a crash leaves is the state of one applied index [6.1].
func TestBuffer(t *testing.T) {
	mem := vfs.NewCrashableMem()
	_, s := openState(t, mem, StateOptions{MemTableBytes: 512 << 10})
	b := s.NewBatch()
	r := rand.New(rand.NewPCG(1, 2))
	m := contents{}
	var history []contents // by applied index
	history = append(history, contents{})
	for i := uint64(1); i <= 4000; i++ {
		m.step(r, b)
		if err := s.Apply(b, i); err != nil {
			t.Fatal(err)
		}
		c := make(contents, len(m))
		for k, v := range m {
			c[k] = v
		}
		history = append(history, c)
		if i%100 == 0 {
			m.check(t, s, i%1000 == 0)
		}
		if i%500 != 77 {
			continue
		}
		d2, err := Open(Options{Dir: "/data", FS: CrashFS(mem, i, 50), Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		s2, err := d2.OpenState(StateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		history[s2.AppliedIndex()].check(t, s2, true)
		s2.Close()
		d2.Close()
	}
}

// TestInsertedAndDeletedIsNeverStored: a message that comes and goes costs Pebble nothing.
func TestInsertedAndDeletedIsNeverStored(t *testing.T) {
	_, s := openState(t, vfs.NewCrashableMem(), StateOptions{})
	b := s.NewBatch()
	index := uint64(0)
	apply := func() {
		index++
		if err := s.Apply(b, index); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		b.Insert(fmt.Appendf(nil, "\x00\x00%06d", i), make([]byte, 1000))
		apply()
		b.Delete(fmt.Appendf(nil, "\x00\x00%06d", i))
		apply()
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if m := s.db.Metrics().Total(); m.TableBytesFlushed > 20<<10 {
		t.Fatalf("%d bytes were stored of 10 MB that came and went", m.TableBytesFlushed)
	}
}

// TestReadersWhileApplying: who reads a key that nobody changes finds it, wherever it is at the moment.
func TestReadersWhileApplying(t *testing.T) {
	_, s := openState(t, vfs.NewCrashableMem(), StateOptions{})
	b := s.NewBatch()
	kept := func(i uint64) []byte { return fmt.Appendf(nil, "\x00\x00kept%06d", i) }
	told := make(chan uint64, 1<<16)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range told {
				if v, ok, err := s.Get(kept(i), nil); !ok || err != nil || len(v) != 500 {
					t.Errorf("key %d: %v %v, %d bytes", i, ok, err, len(v))
					return
				}
			}
		})
	}
	for i := uint64(1); i <= 20_000; i++ {
		b.Insert(kept(i), make([]byte, 500))
		b.Put([]byte("\x00\x00hot"), make([]byte, 100))
		if err := s.Apply(b, i); err != nil {
			t.Fatal(err)
		}
		told <- i - i/3
	}
	close(told)
	wg.Wait()
}
