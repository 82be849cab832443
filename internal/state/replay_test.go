package state

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// A tape is a recorded log [7.1]: what was applied, and the digest behind each entry. Those of the releases
// stand in testdata/logs; a binary that gives another digest at the level of a tape would not agree with the nodes that
// ran that release. The file is gzip over:
//
//	oncemq tape 1, a line feed, u feature level, then what follows up to the end:
//	byte what, u index, u length, so many bytes, [8] digest behind it (big-endian; zeros where nothing is applied)
//
// u is an unsigned varint.
type tape struct{ data []byte }

const (
	tapeBegin         = 1 + iota // a new machine
	tapeFewSteps                 // maxSteps 6, leastSteps 4 from here on
	tapeEntry                    // Apply
	tapeConfiguration            // Configure
	tapeSkip                     // Skip
)

const tapeHead = "oncemq tape 1\n"

// add records what is applied; digest says what came of it.
func (t *tape) add(what byte, index uint64, data []byte) {
	if t == nil {
		return
	}
	t.data = putUint(append(t.data, what), index)
	t.data = append(putUint(t.data, uint64(len(data))), data...)
	if what <= tapeFewSteps {
		t.data = append(t.data, make([]byte, 8)...)
	}
}

func (t *tape) digest(m *Machine) {
	if t != nil {
		t.data = binary.BigEndian.AppendUint64(t.data, m.Digest())
	}
}

// record makes a tape of seeded logs with every command in them.
func record(t testing.TB) *tape {
	tp := &tape{data: putUint([]byte(tapeHead), command.Level)}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 71))
		data := make([]byte, 2000)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		tp.add(tapeBegin, 0, nil)
		runTaped(t, data, tp)
	}
	tp.add(tapeBegin, 0, nil)
	b := newTapedBundle(t, tp)
	for i := range uint64(6) { // digests that agree, one that doesn't, three that don't
		for n := command.NodeID(1); n <= 3; n++ {
			sum := i
			if i%3 == 1 && n == 2 || i%3 == 2 {
				sum = i<<8 | uint64(n)
			}
			b.system(&command.Digest{Node: n, Index: 4096 * (i + 1), Sum: sum})
		}
	}
	sole := func(nonce byte) {
		b.locals++
		b.do(1, &command.ConnOpen{Local: b.locals, Principal: "alice", ContainerID: "sole", Nonce: [16]byte{nonce}, Attempt: 1, SoleConnection: true})
	}
	sole(1)
	sole(2)
	b.numbers[1]++ // a record is missing
	b.do(1, &command.QueueCreate{Name: "q"})
	return tp
}

// replayed is what a tape had in it.
type replayed struct {
	entries  int
	commands map[command.Kind]int
	effects  map[command.EffectKind]int // that were no refusals
}

// replay applies a tape and compares every digest.
func replay(t testing.TB, data []byte) (r replayed) {
	t.Helper()
	rest, ok := bytes.CutPrefix(data, []byte(tapeHead))
	if !ok {
		t.Fatal("no tape")
	}
	f := fields{b: rest}
	if level := uint32(f.uint()); level < command.LeastLevel || level > command.Level {
		t.Skipf("a tape of feature level %d; this binary knows %d to %d", level, command.LeastLevel, command.Level)
	}
	r = replayed{commands: map[command.Kind]int{}, effects: map[command.EffectKind]int{}}
	var m *Machine
	var d *disk
	for len(f.b) > 0 && f.err == nil {
		what, index := f.byte(), f.uint()
		body := f.take(int(f.uint()))
		want := f.be64()
		var effects []command.Effect
		var err error
		switch what {
		case tapeBegin:
			m, d = New(testGroup), newDisk()
			d.quiet = true
			continue
		case tapeFewSteps:
			m.maxSteps, m.leastSteps = 6, 4
			continue
		case tapeEntry:
			effects, err = m.Apply(index, body, d, nil)
			r.count(body)
		case tapeConfiguration:
			var c Configuration
			if c, err = DecodeConfiguration(body); err == nil {
				effects, err = m.Configure(index, c, d, nil)
			}
		case tapeSkip:
			err = m.Skip(index, body, d)
		default:
			err = fmt.Errorf("%d on the tape", what)
		}
		if err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
		if m.Digest() != want {
			t.Fatalf("entry %d, the %dth on the tape: the digest is %016x, recorded was %016x: an entry does something else to the state than it did. "+
				"Let that hang on a new feature level (docs/releasing.md)", index, r.entries, m.Digest(), want)
		}
		for i := range effects {
			if effects[i].Refusal == nil || effects[i].Kind == command.EffectConnEnded || effects[i].Kind == command.EffectLinkEnded {
				r.effects[effects[i].Kind]++
			}
		}
		r.entries++
	}
	if f.err != nil {
		t.Fatal("the tape is cut")
	}
	return r
}

func (r *replayed) count(entry []byte) {
	_, records, _ := command.DecodeEntry(entry)
	for len(records) > 0 {
		var rec command.Record
		rec, records, _ = command.DecodeRecord(records)
		var d command.Decoder
		d.Reset(rec.Body)
		for c := d.Next(); c != nil; c = d.Next() {
			r.commands[c.Kind()]++
		}
	}
}

var (
	recordTo = flag.String("record", "", "the file that TestRecord writes a tape to")
	logsIn   = flag.String("logs", "", "a further directory of tapes for TestReplay")
)

// TestRecord makes a tape, and sees that it has every command and every effect; with -record it is kept.
func TestRecord(t *testing.T) {
	tp := record(t)
	r := replay(t, tp.data)
	for k := command.KindConnOpen; k <= command.LastKind; k++ {
		if r.commands[k] < 2 && k != command.KindClusterInit {
			t.Errorf("%d commands of kind %d are on the tape", r.commands[k], k)
		}
	}
	for e := command.EffectConnOpened; e <= command.EffectDigestDiffers; e++ {
		if r.effects[e] == 0 {
			t.Errorf("no effect of kind %d is on the tape", e)
		}
	}
	t.Logf("%d entries, %d bytes, level %d", r.entries, len(tp.data), command.Level)
	if *recordTo == "" {
		return
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w.Write(tp.data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*recordTo, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestReplay [7.1]: the recorded logs of the releases give the digests that they gave then, on every architecture.
func TestReplay(t *testing.T) {
	for _, dir := range []string{"testdata/logs", *logsIn} {
		names, err := filepath.Glob(filepath.Join(dir, "*.log.gz"))
		if err != nil || dir != "" && dir == *logsIn && len(names) == 0 {
			t.Fatalf("no tapes in %s: %v", dir, err)
		}
		for _, name := range names {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".log.gz"), func(t *testing.T) {
				f, err := os.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				z, err := gzip.NewReader(f)
				if err != nil {
					t.Fatal(err)
				}
				data, err := io.ReadAll(z)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d entries", replay(t, data).entries)
			})
		}
	}
}

// TestReplayFindsAChange: a tape whose digests a changed machine wouldn't give is refused.
func TestReplayFindsAChange(t *testing.T) {
	tp := &tape{data: putUint([]byte(tapeHead), command.Level)}
	tp.add(tapeBegin, 0, nil)
	b := newTapedBundle(t, tp)
	b.connect(1, "p").do(1, &command.QueueCreate{Name: "q"})
	tp.data[len(tp.data)-1]++
	failed := false
	done := make(chan bool)
	go func() { // Fatalf ends the goroutine
		defer close(done)
		x := &failing{TB: t, failed: &failed}
		replay(x, tp.data)
	}()
	<-done
	if !failed {
		t.Error("a wrong digest was taken")
	}
}

// failing takes the failure that is wanted.
type failing struct {
	testing.TB
	failed *bool
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	*f.failed = strings.Contains(fmt.Sprintf(format, args...), "the digest is")
	f.TB.(*testing.T).Log("found:", fmt.Sprintf(format, args...))
	runtime.Goexit()
}
