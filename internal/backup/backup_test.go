package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// TestRoundTrip: what is restored is what the source had when the backup began, for any node and any number of them, again and again.
func TestRoundTrip(t *testing.T) {
	src := newSource(t)
	c := src.checkpoint(t)
	defer c.Remove()
	want, index := values(t, src.state), src.index
	src.apply(t, 0, &command.Tick{}) // the backup stands still
	src.apply(t, 3, &command.QueuePurge{Request: 3, Name: "orders"})
	var stream bytes.Buffer
	if err := Write(t.Context(), &stream, &c.Manifest, c, time.UnixMilli(1_700_000_000_123), 0); err != nil {
		t.Fatal(err)
	}
	info, err := Verify(bytes.NewReader(stream.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if m := &info.Manifest; info.Bytes != int64(stream.Len()) || info.Made.UnixMilli() != 1_700_000_000_123 || m.Index != index || m.Term != sourceTerm ||
		m.History != sourceHistory || m.Node != 3 || m.Cluster != [16]byte{8} {
		t.Errorf("it says of itself: %+v", info)
	}
	for _, tc := range []struct {
		node   uint64
		voters []uint64
	}{{1, []uint64{1}}, {12, []uint64{12}}, {1, []uint64{1, 2, 3}}, {40, []uint64{5, 40, 41}}} {
		files := store.NewMemFS()
		if _, err := Restore(slow{bytes.NewReader(stream.Bytes())}, RestoreOptions{Dir: "/a/b", FS: files, Node: tc.node, Voters: tc.voters}); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, files, "/a/b", tc.node, tc.voters, index); !maps.Equal(got, want) {
			t.Errorf("the restored state has %d keys, the source %d, and they differ", len(got), len(want))
		}
		_, err := Restore(bytes.NewReader(stream.Bytes()), RestoreOptions{Dir: "/a/b", FS: files, Node: tc.node, Voters: tc.voters})
		if !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("over a directory that is in use: %v", err)
		}
	}
}

// readers are all that read a stream, with what they must not leave behind.
func readers(t *testing.T, stream []byte) map[string]error {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	_, saved := Save(bytes.NewReader(stream), file, 0)
	if left, err := os.ReadDir(dir); saved != nil && (err != nil || len(left) != 0) {
		t.Fatalf("a backup that wasn't whole has left %v, %v", left, err)
	}
	_, verified := Verify(bytes.NewReader(stream))
	files := store.NewMemFS()
	_, restored := Restore(bytes.NewReader(stream), RestoreOptions{Dir: "/d", FS: files, Node: 1, Voters: []uint64{1}})
	if _, err := files.Stat("/d/STAMP"); restored != nil && err == nil {
		t.Fatal("a backup that wasn't whole has become a node's directory")
	}
	return map[string]error{"save": saved, "verify": verified, "restore": restored}
}

// wantDamaged wants every reader to find a stream damaged.
func wantDamaged(t *testing.T, what string, at int, stream []byte) {
	t.Helper()
	for who, err := range readers(t, stream) {
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s at %d: %s found %v", what, at, who, err)
		}
	}
}

// TestCut: a stream that ends early, at any block and in any part of one, is no backup.
func TestCut(t *testing.T) {
	stream := newSource(t).backup(t)
	for _, b := range blocks(t, stream) {
		for _, at := range []int{b.from, b.from + 1, b.from + blockHead, (b.from + blockHead + b.to) / 2, b.to - 1} {
			wantDamaged(t, "cut", at, stream[:at])
		}
	}
	for at := range headerBytes {
		if _, err := Copy(io.Discard, bytes.NewReader(stream[:at])); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", at, err)
		}
	}
}

// TestFlipped: a stream in which any bit is another is no backup.
func TestFlipped(t *testing.T) {
	stream := newSource(t).backup(t)
	rng := rand.New(rand.NewPCG(1, 2))
	flip := func(at int) []byte {
		b := bytes.Clone(stream)
		b[at] ^= 1 << rng.IntN(8)
		return b
	}
	for at := range headerBytes {
		_, err := Copy(io.Discard, bytes.NewReader(flip(at)))
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("flipped at %d: %v", at, err)
		}
	}
	for _, b := range blocks(t, stream) {
		for at := b.from; at < min(b.from+blockHead, b.to); at++ {
			if _, err := Copy(io.Discard, bytes.NewReader(flip(at))); !errors.Is(err, ErrDamaged) {
				t.Fatalf("flipped at %d, byte %d of a block: %v", at, at-b.from, err)
			}
		}
		wantDamaged(t, "flipped", b.from, flip(b.from+blockHead+rng.IntN(b.to-b.from-blockHead)))
	}
}

// TestShuffled: blocks in another order, twice, left out, of another backup, and what follows the end.
func TestShuffled(t *testing.T) {
	src := newSource(t)
	stream := src.backup(t)
	other := src.backup(t) // of the same state: only its id is another
	all := blocks(t, stream)
	cut := func(b block) []byte { return stream[b.from:b.to] }
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		wantDamaged(t, "swapped", a.from, slices.Concat(stream[:a.from], cut(b), cut(a), stream[b.to:]))
		wantDamaged(t, "doubled", a.from, slices.Concat(stream[:a.to], cut(a), stream[a.to:]))
		wantDamaged(t, "left out", a.from, slices.Concat(stream[:a.from], stream[a.to:]))
	}
	for i, x := range blocks(t, other) {
		b := all[i]
		wantDamaged(t, "another's block", b.from, slices.Concat(stream[:b.from], other[x.from:x.to], stream[b.to:]))
	}
	wantDamaged(t, "more", len(stream), append(bytes.Clone(stream), 0))
	wantDamaged(t, "twice", len(stream), slices.Concat(stream, stream))
	wantDamaged(t, "none", 0, []byte("this is no backup, whatever its name says, and it is long enough to have a header"))
}

// TestNewerVersion is refused as what it is.
func TestNewerVersion(t *testing.T) {
	i := Info{ID: [16]byte{1}, Made: time.UnixMilli(5)}
	head := i.header()
	head[12] = formatVersion + 1
	copy(head[8:12], []byte{0, 0, 0, 0})
	sum := crc(head[12:])
	head[8], head[9], head[10], head[11] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	if _, err := Copy(io.Discard, bytes.NewReader(head)); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
}

// TestDamagedSource: a table that was damaged before the backup was made has the right checksums in the stream, and is found
// nevertheless by who verifies, and by who restores.
func TestDamagedSource(t *testing.T) {
	src := newSource(t)
	c := src.checkpoint(t)
	defer c.Remove()
	at := slices.IndexFunc(c.Manifest.Files, func(f store.CheckpointFile) bool { return strings.HasSuffix(f.Name, ".sst") })
	var stream bytes.Buffer
	if err := Write(t.Context(), &stream, &c.Manifest, rotten{c, uint64(at) + 1}, time.Now(), 0); err != nil {
		t.Fatal(err)
	}
	for who, err := range readers(t, stream.Bytes()) {
		if found := errors.Is(err, ErrDamaged); found != (who != "save") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// rotten is a source with a wrong byte in one file.
type rotten struct {
	Source
	file uint64
}

func (r rotten) Open(file uint64, offset int64) (io.ReadCloser, error) {
	f, err := r.Source.Open(file, offset)
	if err != nil || file != r.file {
		return f, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	b[len(b)/3] ^= 4
	return io.NopCloser(bytes.NewReader(b)), err
}

// TestSaveRoom: a backup that would fill the disk isn't begun, and one that breaks off for want of room leaves nothing.
func TestSaveRoom(t *testing.T) {
	stream := newSource(t).backup(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	_, err := Save(bytes.NewReader(stream), file, 1<<60)
	if err == nil || !strings.Contains(err.Error(), "name a file on another disk") {
		t.Errorf("no room: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	info, err := Save(bytes.NewReader(stream), file, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, stream) || info.Bytes != int64(len(stream)) {
		t.Errorf("saved %d bytes of %d, %v", len(got), len(stream), err)
	}
	if mode, err := os.Stat(file); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("everybody can read it: %v, %v", mode.Mode(), err)
	}
	if _, err := Save(bytes.NewReader(stream), file, 0); !errors.Is(err, errExists) {
		t.Errorf("over a file that exists: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestWriteEnds: a stream that nobody takes any more, and a context that has ended, end the writing.
func TestWriteEnds(t *testing.T) {
	src := newSource(t)
	c := src.checkpoint(t)
	defer c.Remove()
	if err := Write(t.Context(), &full{left: 300 << 10}, &c.Manifest, c, time.Now(), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ctx, io.Discard, &c.Manifest, c, time.Now(), 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// full is a disk that becomes full.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestRate: no more bytes a second than were said.
func TestRate(t *testing.T) {
	stream := newSource(t)
	c := stream.checkpoint(t)
	defer c.Remove()
	const rate = 8 << 20
	began := time.Now()
	var b bytes.Buffer
	if err := Write(t.Context(), &b, &c.Manifest, c, began, rate); err != nil {
		t.Fatal(err)
	}
	if least := time.Duration(float64(b.Len()) / rate * float64(time.Second)); time.Since(began) < least {
		t.Errorf("%d bytes in %s; at least %s", b.Len(), time.Since(began), least)
	}
}

// TestRestoreBrokenOff: whatever write of a restore a disk refuses, and whatever is left of it by a loss of power at that
// moment, no node begins with it, or the whole is there; and the next restore makes the whole.
func TestRestoreBrokenOff(t *testing.T) {
	src := newSource(t)
	stream, want := src.backup(t), values(t, src.state)
	opts := RestoreOptions{Dir: "/d", Node: 1, Voters: []uint64{1}}
	count := 0
	counted := opts
	counted.FS = store.FaultFS(store.NewMemFS(), func(string, int) store.Fault { count++; return store.Fault{} })
	if _, err := Restore(bytes.NewReader(stream), counted); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d writes and syncs", count)
	unfinished := 0
	for fail := range count {
		mem, n := store.NewMemFS(), 0
		broken := opts
		broken.FS = store.FaultFS(mem, func(string, int) store.Fault {
			if n++; n > fail {
				return store.Fault{Err: syscall.EIO}
			}
			return store.Fault{}
		})
		if _, err := Restore(bytes.NewReader(stream), broken); err == nil {
			t.Fatalf("write %d failed, and nobody noticed", fail)
		}
		for _, percent := range []int{0, 50, 100} {
			files := store.CrashFS(mem, uint64(fail), percent)
			d, opened := store.Open(store.Options{Dir: "/d", FS: files, Node: 1})
			var whole bool
			switch {
			case opened == nil:
				whole = d.Stamp().History == sourceHistory+1
				d.Close()
				if !whole && fail >= 2 { // the mark of a restore was written and synced
					t.Fatalf("write %d, %d %% kept: a node begins with nothing of the backup", fail, percent)
				}
			case errors.Is(opened, store.ErrUnfinished):
				unfinished++
			default:
				t.Fatalf("write %d, %d %% kept: %v", fail, percent, opened)
			}
			again := store.CrashFS(mem, uint64(fail), percent)
			next := opts
			next.FS = again
			if _, err := Restore(bytes.NewReader(stream), next); err != nil && !(whole && errors.Is(err, store.ErrNotEmpty)) {
				t.Fatalf("write %d, %d %% kept: the next restore: %v", fail, percent, err)
			}
			if got := contents(t, again, "/d", 1, []uint64{1}, src.index); !maps.Equal(got, want) {
				t.Fatalf("write %d, %d %% kept: %d keys of %d, or they differ", fail, percent, len(got), len(want))
			}
		}
	}
	if unfinished < count {
		t.Errorf("of %d times three, a node refused what was there %d times", count, unfinished)
	}
}
