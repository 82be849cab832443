package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// crashWorld is one node's directory under a script that does to it all that a node does: appends, conflicts, cuts, changes of the
// state, flushes, compactions, checkpoints made, fetched and installed, lists of voters, the reserve, restarts, a new history. Behind every
// write, sync and change of a name, Pebble's too, it looks at what a loss of power would leave.
type crashWorld struct {
	seed  uint64
	rng   *rand.Rand
	disk  *CrashDisk
	state StateOptions
	fs    *opFS
	o     opened
	total *atomic.Int64 // images, over all worlds
	limit int64
	// sparse leaves all but one in so many places out, so that a short run gets further than the first steps; 0: none.
	sparse int

	mu     sync.Mutex // Pebble has goroutines
	now    crashModel // what was acknowledged; guarded by mu
	next   *crashModel
	doing  string
	count  uint64     // images of this world
	crash  *rand.Rand // what a crash leaves
	failed error
	seen   map[string]int
}

// crashModel is what a directory has to hold.
type crashModel struct {
	entries    []Entry             // the history: entries[i] has index i+1
	contents   []map[string]uint64 // contents[i]: keys of the state behind entry i, and the hashes of their values
	state      HardState
	base, cut  uint64 // entries up to base came with a checkpoint; those below cut may be gone
	flushed    uint64 // the state has at least this applied
	applied    uint64 // and at most this
	voters     []uint64
	cluster    [16]byte
	history    uint16
	generation uint32
}

// changes are the changes of the state that an entry stands for: its data's first bytes say which.
func changes(e *Entry, put func(key string, value []byte), remove func(key string), clear func(from, to string)) {
	rng := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(e.Data), 5))
	large := binary.LittleEndian.Uint64(e.Data)%4 == 0 // so that Pebble has to begin a new memtable in the middle of it
	for range 1 + rng.IntN(4) {
		key := fmt.Sprintf("\x00\x00%02d", rng.IntN(30))
		switch n := rng.IntN(20); {
		case n == 0, n < 4 && large: // goes to Pebble at once, without a flush
			clear("\x00\x0010", fmt.Sprintf("\x00\x00%02d", 10+rng.IntN(15)))
		case n < 6:
			remove(key)
		default:
			size := rng.IntN(600)
			if large {
				size = 10_000 + rng.IntN(30_000)
			}
			value := bytes.Repeat([]byte{byte(rng.Uint32()) | 1}, size+8)
			binary.LittleEndian.PutUint64(value, rng.Uint64())
			put(key, value)
		}
	}
}

// grow adds an entry to the history, above last.
func (m *crashModel) grow(last uint64, e Entry) {
	m.entries = append(m.entries[:last:last], e)
	content := maps.Clone(m.contents[last])
	changes(&e, func(key string, value []byte) { content[key] = xxhash.Sum64(value) }, func(key string) { delete(content, key) },
		func(from, to string) {
			maps.DeleteFunc(content, func(key string, _ uint64) bool { return key >= from && key < to })
		})
	m.contents = append(m.contents[:last+1:last+1], content)
}

// last is the index of the newest entry.
func (m *crashModel) last() uint64 { return uint64(len(m.entries)) }

// batch is the changes of the entries from to to.
func (m *crashModel) batch(from, to uint64) *Batch {
	b := new(Batch)
	for i := from; i <= to; i++ {
		changes(&m.entries[i-1], func(key string, value []byte) { b.Put([]byte(key), value) }, func(key string) { b.Delete([]byte(key)) },
			func(from, to string) { b.DeleteRange([]byte(from), []byte(to)) })
	}
	return b
}

// contentOf is what a state has.
func contentOf(s *State) (map[string]uint64, error) {
	got := map[string]uint64{}
	err := s.IterateRange([]byte{0}, []byte{1}, func(k, v []byte) bool { got[string(k)] = xxhash.Sum64(v); return true })
	return got, err
}

// check compares an opened directory with the model.
func (m *crashModel) check(o *opened) error {
	stamp := o.d.Stamp()
	if stamp.Cluster != m.cluster || stamp.History != m.history || stamp.generation != m.generation {
		return fmt.Errorf("cluster %x, history %d, generation %d; want %x, %d, %d", stamp.Cluster[:2], stamp.History, stamp.generation, m.cluster[:2], m.history, m.generation)
	}
	if voters, err := o.d.Voters(); err != nil || !slices.Equal(voters, m.voters) {
		return fmt.Errorf("voters %v, %w; want %v", voters, err, m.voters)
	}
	if err := (model{entries: m.entries, state: m.state, cut: max(m.cut, m.base+1)}).check(o.l); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	at := o.s.AppliedIndex()
	if at < m.flushed || at > m.applied {
		return fmt.Errorf("the state has entry %d applied; want %d to %d", at, m.flushed, m.applied)
	}
	if got, err := contentOf(o.s); err != nil || !maps.Equal(got, m.contents[at]) {
		return fmt.Errorf("the state of entry %d has %d keys, or other values; want %d; %w", at, len(got), len(m.contents[at]), err)
	}
	return nil
}

// replay applies what the log has above the state, as a start does, and compares.
func (m *crashModel) replay(o *opened) error {
	at := o.s.AppliedIndex()
	entries, err := o.l.Entries(nil, at+1, o.l.LastIndex()+1, 0)
	if err != nil || len(entries) == 0 {
		return err
	}
	if err := o.s.Apply((&crashModel{entries: slices.Concat(m.entries[:at:at], entries)}).batch(at+1, m.last()), m.last()); err != nil {
		return err
	}
	if got, err := contentOf(o.s); err != nil || !maps.Equal(got, m.contents[m.last()]) {
		return fmt.Errorf("replayed to entry %d: %d keys, or other values; want %d; %w", m.last(), len(got), len(m.contents[m.last()]), err)
	}
	return nil
}

// imageCache is one block cache for all states: making one costs more than a start. What is read from it under a file number of another
// world is another one's, since each state has a part of its own.
var imageCache = sync.OnceValue(func() *pebble.Cache { return pebble.NewCache(4 << 20) })

// newCrashWorld is a world before the directory is made.
func newCrashWorld(seed uint64, total *atomic.Int64, limit int64) *crashWorld {
	w := &crashWorld{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), crash: rand.New(rand.NewPCG(seed, 12)), total: total, limit: limit,
		disk: NewCrashDisk(), seen: map[string]int{},
		// In every other world Pebble's goroutines do what they like.
		state: StateOptions{MemTableBytes: 256 << 10, SpillInApply: seed%2 == 0, Fatal: func(error) {}, cache: imageCache()},
		now:   crashModel{contents: []map[string]uint64{{}}},
	}
	w.use(w.disk)
	return w
}

// use makes a disk the one that the node works on. Pebble relies on a file system that keeps the order of names in a directory; the
// rest of the directory does not.
func (w *crashWorld) use(disk *CrashDisk) {
	disk.InOrder(func(dir string) bool { return strings.HasSuffix(dir, "/"+stateName) })
	w.disk = disk
	w.fs = &opFS{FS: disk, after: func(op string) { w.look(op, disk) }}
}

// start opens a directory as a node does.
func (w *crashWorld) start(fs FS) (o opened, err error) {
	if o.d, err = Open(Options{Dir: "/data", FS: fs, Node: 1, Random: rand.New(rand.NewPCG(w.seed, 13)).Uint64}); err != nil {
		return o, err
	}
	if _, err = o.d.Install(smallLog); err != nil {
		return o, err
	}
	if o.l, err = o.d.OpenLog(smallLog); err != nil {
		return o, err
	}
	if o.s, err = o.d.OpenState(w.state); err != nil {
		return o, err
	}
	_, err = Begin(o.l, o.s)
	return o, err
}

// look takes the images of a crash right now.
func (w *crashWorld) look(op string, disk *CrashDisk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over() || disk != w.disk || w.sparse > 0 && w.crash.IntN(w.sparse) > 0 {
		return
	}
	for i, percent := range []int{0, 100, 50, 50} {
		w.count++
		w.total.Add(1)
		where := fmt.Sprintf("%s, behind %q, %d %% (%d)", w.doing, op, percent, i)
		image := disk.CrashKeeping(percent, w.crash)
		if err := w.image(image, where); err != nil {
			w.failed = fmt.Errorf("seed %d, image %d (%s): %w", w.seed, w.count, where, err)
			return
		}
	}
}

func (w *crashWorld) over() bool { return w.failed != nil || w.total.Load() >= w.limit }

// image checks what a crash left: it is what was acknowledged, or that with what is under way. Some images are gone on from, others
// lose their power again while they start.
func (w *crashWorld) image(image *CrashDisk, where string) error {
	if w.count%37 == 0 {
		again := &opFS{FS: image}
		var inner error
		var one sync.Mutex // Pebble has goroutines
		again.after = func(op string) {
			one.Lock()
			defer one.Unlock()
			w.total.Add(1)
			if inner == nil {
				_, _, inner = w.recovers(image.CrashKeeping(50, w.crash), false)
				if inner != nil {
					inner = fmt.Errorf("started, and again behind %q: %w", op, inner)
				}
			}
		}
		_, _, err := w.recovers(again, false)
		return errors.Join(err, inner)
	}
	if w.count%16 == 0 {
		if err := sound(image); err != nil {
			return err
		}
	}
	_, _, err := w.recovers(image, w.count%8 == 0)
	return err
}

// sound is what fsck says of every image.
func sound(image FS) error {
	x, err := Inspect(InspectOptions{Dir: "/data", FS: image, Locked: true})
	if errors.Is(err, ErrNothing) {
		return nil
	}
	if err == nil && len(x.Damage) > 0 {
		err = fmt.Errorf("inspected: %+v", x.Damage)
	}
	return errors.Join(err, x.Close())
}

// recovers starts on what a crash left, and says what was found: the applied index, and whether what was under way is there.
func (w *crashWorld) recovers(fs FS, goOn bool) (applied uint64, isNext bool, err error) {
	o, err := w.start(fs)
	defer o.close()
	if err != nil {
		return 0, false, err
	}
	m := &w.now
	if err = m.check(&o); err != nil && w.next != nil {
		m, isNext = w.next, true
		if e := m.check(&o); e != nil {
			err = fmt.Errorf("neither what was acknowledged (%w) nor what was under way (%w)", err, e)
		} else {
			err = nil
		}
	}
	applied = o.s.AppliedIndex()
	if err != nil || !goOn {
		return applied, isNext, err
	}
	if err = m.replay(&o); err != nil {
		return applied, isNext, err
	}
	// What is acknowledged now is there after another crash.
	a := Append{State: HardState{Term: m.state.Term + 1, Vote: 3}, Entries: []Entry{{Index: m.last() + 1, Term: m.state.Term + 1, Data: []byte("one more")}}}
	if err = o.l.Append(a); err != nil {
		return applied, isNext, err
	}
	then, err := w.start(fs.(*CrashDisk).CrashKeeping(0, nil))
	defer then.close()
	if err == nil && (then.l.LastIndex() != m.last()+1 || then.l.HardState().Term != m.state.Term+1) {
		err = fmt.Errorf("the log ends with %d, %+v", then.l.LastIndex(), then.l.HardState())
	}
	if err != nil {
		err = fmt.Errorf("after one more append: %w", err)
	}
	return applied, isNext, err
}
