package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// wantStored checks that the disk has the keys of exactly the messages that are in memory: one record each, and its body, a dead
// letter's where it was first.
func (b *bundle) wantStored() {
	b.Helper()
	want := make(map[string]bool)
	for _, q := range b.m.addresses {
		if q == nil {
			continue
		}
		for seq := range numbers(q) {
			mi := b.m.find(q, seq)
			if mi == 0 {
				continue
			}
			want[string(appendMessageKey(nil, testGroup, keyMessage, q.inc, seq))] = true
			from, ok := b.m.moved[mi]
			if !ok {
				from = origin{inc: q.inc, seq: seq}
			}
			want[string(appendMessageKey(nil, testGroup, keyBody, from.inc, from.seq))] = true
		}
	}
	for k := range b.disk.kv {
		if (k[2] == keyMessage || k[2] == keyBody) && !want[k] {
			b.Errorf("key %x is left of a message that is gone", k)
		}
		delete(want, k)
	}
	for k := range want {
		b.Errorf("key %x is missing: its message is there", k)
	}
	if b.Failed() {
		b.FailNow()
	}
}

func bodies(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// A deletion's ranges spare the bodies of dead letters, in chunks that have messages as well as in those without; and so do
// a purge's, which spare the messages in somebody's hands too.
func TestRangesSpareWhatStays(t *testing.T) {
	for _, end := range []string{"delete", "purge", "purge twice"} {
		t.Run(end, func(t *testing.T) {
			b := newBundle(t)
			p := b.connect(1, "p")
			p.receiver(1, "q", 400)
			p.send("q", bodies(1, 400)...)
			refs := b.refs()
			b.single = true // its twin's load takes long
			// Chunk 5, numbers 320 to 383, is left with three dead letters' bodies and no message, chunk 1 with one and messages.
			p.settle(1, command.Rejected, refs[330], refs[331], refs[382], refs[70])
			p.settle(1, command.Accepted, slices.Concat(refs[319:330], refs[332:382], refs[40:60])...)
			p.settle(1, command.Released, slices.Concat(refs[:20], refs[385:])...)
			p.send("q", bodies(401, 700)...)
			b.wantStored()
			b.wantDepth("DLQ.q", 4, 0)
			b.single = false
			b.m.maxSteps, b.m.leastSteps = 2000, 50
			switch end {
			case "delete":
				p.do(1, &command.QueueDelete{Conn: p.id, Name: "q"})
			case "purge":
				p.do(1, &command.QueuePurge{Conn: p.id, Name: "q"})
			case "purge twice":
				p.do(1, &command.QueuePurge{Conn: p.id, Name: "q"})
				if !b.m.Next().Job {
					t.Fatal("purged at once")
				}
				// What came in between, and went through somebody's hands, lies in the second purge's range.
				p.send("q", bodies(701, 900)...)
				p.allow(1, 130)
				got := b.refs()
				if len(got) < 10 || !b.m.Next().Job {
					t.Fatalf("%d handed out, job under way: %v", len(got), b.m.Next().Job)
				}
				p.settle(1, command.Rejected, got[3])
				p.settle(1, command.Accepted, got[5], got[6])
				p.do(1, &command.QueuePurge{Conn: p.id, Name: "q"})
			}
			b.tick(0)
			b.wantStored()
			if err := b.m.verify(); err != nil {
				t.Fatal(err)
			}
			if n := len(b.m.moved); n < 4 {
				t.Fatalf("%d dead letters are left, want 4 or more", n)
			}
			b.do(1, &command.QueueDelete{Name: "DLQ.q"})
			b.do(1, &command.QueueDelete{Name: "q"})
			b.tick(0)
			b.wantStored()
			if b.m.messages.live() != 0 || len(b.m.apart) != 0 {
				t.Fatal("something is left")
			}
		})
	}
}

// What a purge or a deletion writes is ranges, whatever the number of messages.
func TestJobsDeleteRanges(t *testing.T) {
	for _, end := range []command.Command{&command.QueuePurge{Name: "q"}, &command.QueueDelete{Name: "q"}} {
		b := newBundle(t)
		p := b.connect(1, "p")
		b.do(1, &command.QueueCreate{Name: "q"})
		p.send("q", bodies(1, 3000)...)
		b.do(1, end)
		ranges := 0
		for more := true; more; b.system(&command.Tick{}) {
			more = b.m.Next().Job
			for _, line := range b.disk.log {
				if strings.HasPrefix(line, "range") {
					ranges++
				}
			}
			if len(b.disk.log) > 12 {
				t.Fatalf("%T: an entry makes %d changes", end, len(b.disk.log))
			}
		}
		if ranges != 4 { // 800 messages with the command, the others with the tick; records and bodies
			t.Errorf("%T: %d ranges, want 4", end, ranges)
		}
		b.wantStored()
	}
}

// [4.2] A purge that comes while another's job goes on takes what was given back as it is, before and behind a restart: it
// doesn't move one heap into the other, which would be work without a bound.
func TestPurgeWhileAnotherGoesOn(t *testing.T) {
	b := newBundle(t)
	b.m.maxSteps, b.m.leastSteps = 2000, 50
	p := b.connect(1, "p")
	p.receiver(1, "q", 400)
	purge := func(n int) (returned seqHeap) {
		p.send("q", bodies(1, n)...)
		if n < 400 {
			p.allow(1, uint32(n))
		}
		refs := b.refs()
		if len(refs) != n {
			t.Fatalf("%d handed out, want %d", len(refs), n)
		}
		p.settle(1, command.Released, refs...)
		returned = b.m.byName["q"].queue.returned
		p.do(1, &command.QueuePurge{Conn: p.id, Name: "q"})
		if e := b.one(command.EffectQueue); e.Number != uint64(n) || !b.m.Next().Job {
			t.Fatalf("%d were purged, of %d; job under way: %v", e.Number, n, b.m.Next().Job)
		}
		return returned
	}
	purge(400)
	second := purge(30)
	q := b.m.byName["q"]
	if d := q.queue.doomed; len(d) != 2 || len(d[0].numbers) == 0 || len(d[1].numbers) != 30 || &d[1].numbers[0] != &second[0] {
		t.Fatalf("the heap of the second purge was not taken as it is: %v", b.m.doomedNumbers(q.queue))
	}
	loaded, err := Load(testGroup, b.disk.next(testGroup))
	if err != nil {
		t.Fatal(err)
	}
	b.same("the loaded machine", b.m.dump(), loaded.dump())
	b.tick(0)
	if len(q.queue.doomed) != 0 || b.m.messages.live() != 0 || b.m.deliveries.live() != 0 {
		t.Fatalf("%d messages are left", b.m.messages.live())
	}
	b.wantStored()
	// Behind the highest number of purges the oldest is still the first.
	b.single = true // the twin comes from the disk, which doesn't know yet
	q.queue.purgeGen = 1<<32 - 1
	b.m.markPlace(q)
	b.tick(0)
	b.single = false
	purge(300)
	purge(30)
	b.tick(0)
	if b.wantStored(); b.m.messages.live() != 0 {
		t.Fatalf("%d messages are left", b.m.messages.live())
	}
}

// [4.2] Entries that bring something wait for little of a job that goes on; ticks do it.
func TestTicksDoTheJobs(t *testing.T) {
	b := newBundle(t)
	b.single = true
	p := b.connect(1, "p")
	b.do(1, &command.QueueCreate{Name: "q"}, &command.QueueCreate{Name: "other"})
	p.send("q", bodies(1, 9000)...)
	p.send("q", bodies(1, 9000)...)
	before := b.m.messages.live()
	dropped := func() int { n := before - b.m.messages.live(); before -= n; return n }
	b.do(1, &command.QueuePurge{Name: "q"})
	if n := dropped(); n < 500 || n > leastSteps {
		t.Fatalf("the entry of the purge drops %d", n)
	}
	p.send("other", "x")
	before++
	if n := dropped(); n < 500 || n > leastSteps {
		t.Fatalf("a send's entry drops %d", n)
	}
	b.system(&command.Tick{})
	if n := dropped(); n < maxSteps/2 || n > maxSteps {
		t.Fatalf("a tick drops %d", n)
	}
}

// A slab gives blocks back, finds the room it has, and hands out zero values with indexes of their own.
func TestSlab(t *testing.T) {
	var s slab[message]
	seen := make(map[uint32]uint64)
	next := uint64(1)
	fill := func(n int) {
		for range n {
			i := s.alloc()
			if _, taken := seen[i]; taken || i == 0 || *s.at(i) != (message{}) {
				t.Fatalf("index %d: taken %v, %+v", i, taken, *s.at(i))
			}
			s.at(i).seq, seen[i] = next, next
			next++
		}
	}
	blocks := func() (n int) {
		for _, b := range s.blocks {
			if b != nil {
				n++
			}
		}
		return n
	}
	for round := range 5 {
		fill(20 * slabSize)
		all := sortedKeys(seen)
		for _, i := range all {
			if s.at(i).seq != seen[i] {
				t.Fatalf("index %d has been written to by somebody else", i)
			}
		}
		if n := blocks(); n > len(seen)/slabSize+3 {
			t.Fatalf("%d blocks for %d values", n, len(seen))
		}
		// All of most blocks go, and every second one of the rest.
		for k, i := range all {
			if k < 18*slabSize || k%2 == round%2 {
				s.release(i)
				delete(seen, i)
			}
		}
		if n := blocks(); s.live() != len(seen) || n > len(seen)/(slabSize/2)+2 {
			t.Fatalf("%d blocks for %d values, %d counted", n, len(seen), s.live())
		}
	}
	for i := range seen {
		s.release(i)
	}
	if s.live() != 0 || blocks() > 1 || len(s.open) > len(s.blocks) {
		t.Fatalf("%d values, %d blocks, %d open of %d", s.live(), blocks(), len(s.open), len(s.blocks))
	}
}
