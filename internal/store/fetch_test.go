package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// flip changes one byte of a file.
func flip(t *testing.T, fs FS, path string, offset int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], offset)
	if b[0] ^= 0x10; err == nil || errors.Is(err, io.EOF) {
		_, err = f.WriteAt(b[:], offset)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFetchDamage: a byte that changes on the way, or that was wrong at its source before the checksums were taken, is found
// before anything is installed.
func TestFetchDamage(t *testing.T) {
	for name, sumAgain := range map[string]bool{"on the way": false, "at the source": true} {
		t.Run(name, func(t *testing.T) {
			src := newSource(t)
			c := src.checkpoint
			found := 0
			for i := range c.Manifest.Files {
				file := c.Manifest.Files[i]
				if sumAgain && !strings.HasSuffix(file.Name, ".sst") {
					continue // its maker has no other checksum to find that with
				}
				path := c.fs.PathJoin(c.path, file.Name)
				for k := int64(0); k < 8 && file.Bytes > 0; k++ {
					offset := file.Bytes * k / 8
					flip(t, c.fs, path, offset)
					if sumAgain {
						c.Manifest.Files[i].Bytes, c.Manifest.Files[i].Sum, _ = sumFile(c.fs, path)
						c.encoded = c.Manifest.Encode()
					}
					mem := vfs.NewCrashableMem()
					newTarget(t, mem)
					o, err := start(mem)
					if err != nil {
						t.Fatal(err)
					}
					if err := src.fetchAll(o.d, 1<<20); !errors.Is(err, ErrFetched) {
						t.Errorf("%s, byte %d: %v", file.Name, offset, err)
					} else {
						found++
					}
					o.close()
					if o, err = start(mem); err != nil || o.s.AppliedIndex() != targetApplied {
						t.Errorf("%s, byte %d: %v, applied %d", file.Name, offset, err, o.s.AppliedIndex())
					}
					o.close()
					flip(t, c.fs, path, offset)
					c.Manifest.Files[i] = file
				}
			}
			if found < 8 {
				t.Errorf("%d damages tried", found)
			}
		})
	}
}

// TestFetchWrong: more than the manifest says, less, and another checkpoint's files.
func TestFetchWrong(t *testing.T) {
	src := newSource(t)
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	o, err := start(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	f, err := o.d.BeginFetch(src.checkpoint.encoded)
	if err != nil {
		t.Fatal(err)
	}
	file, offset, err := f.Next() // not the first: an empty file is there as soon as it is looked for
	if file == 0 || offset != 0 || err != nil {
		t.Fatalf("next: file %d from %d, %v", file, offset, err)
	}
	size := int(f.Manifest.Files[file-1].Bytes)
	if err := f.Write(make([]byte, size+1)); !errors.Is(err, ErrFetched) {
		t.Errorf("one byte more than the file has: %v", err)
	}
	if err := f.Write(make([]byte, size-1)); err != nil {
		t.Error(err)
	}
	if err := f.Done(); !errors.Is(err, ErrFetched) {
		t.Errorf("one byte less than the file has: %v", err)
	}
	if err := f.Finish(0, nil); !errors.Is(err, ErrFetched) {
		t.Errorf("finished without its files: %v", err)
	}
	f.Close()
	// It goes on where it was, and finds that what is there is wrong.
	if err := src.fetchAll(o.d, 777); err != nil {
		t.Fatal(err)
	}
	m := src.checkpoint.Manifest
	m.History = 3
	if _, err := o.d.BeginFetch(m.Encode()); !errors.Is(err, ErrForeign) {
		t.Errorf("of another history: %v", err)
	}
}

// TestManifestRefuses: names that lead out of the directory, and numbers that can't be.
func TestManifestRefuses(t *testing.T) {
	good := func() Manifest {
		return Manifest{ID: [16]byte{1}, Node: 2, Index: 3, Term: 4, Files: []CheckpointFile{{Name: "a.sst", Bytes: 5}, {Name: "b", Bytes: 6}}}
	}
	if m, err := DecodeManifest(manifestOf(good())); err != nil || m.Bytes() != 11 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "LOCK", "a\x00b", "ä", strings.Repeat("x", 65), "a.sst"} {
		m := good()
		m.Files[1].Name = name
		if _, err := DecodeManifest(manifestOf(m)); !errors.Is(err, ErrFetched) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for i, spoil := range []func(m *Manifest){
		func(m *Manifest) { m.Files[0].Bytes = -1 },
		func(m *Manifest) { m.Files[0].Bytes = maxFileBytes + 1 },
		func(m *Manifest) { m.Files = nil },
		func(m *Manifest) { m.Index = 0 },
		func(m *Manifest) { m.Term = 0 },
		func(m *Manifest) { m.Voters = make([]uint64, maxVoters+1) },
	} {
		m := good()
		spoil(&m)
		if _, err := DecodeManifest(manifestOf(m)); !errors.Is(err, ErrFetched) {
			t.Errorf("fault %d: %v", i, err)
		}
	}
}

func manifestOf(m Manifest) []byte { return m.Encode() }

// FuzzManifest: whatever a peer sends for a manifest, decoding ends, and what is taken encodes as it came.
func FuzzManifest(f *testing.F) {
	m := Manifest{ID: [16]byte{1}, Cluster: [16]byte{2}, Node: 2, Index: 3, Term: 4, Digest: 5, Voters: []uint64{1, 2, 3}, Files: []CheckpointFile{{"a.sst", 5, 6}}}
	f.Add(m.Encode()[16:])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(m.Encode()[:16:16], body...)
		resum(b)
		got, err := DecodeManifest(b)
		if err != nil {
			return
		}
		for _, file := range got.Files {
			if !flatName(file.Name) || file.Bytes < 0 {
				t.Errorf("file %+v", file)
			}
		}
		again, err := DecodeManifest(got.Encode())
		if err != nil || !bytes.Equal(again.Encode(), got.Encode()) {
			t.Errorf("decoded again: %v", err)
		}
	})
}

// TestManifestGolden: the bytes of docs/format/log.md.
func TestManifestGolden(t *testing.T) {
	m := Manifest{ID: [16]byte{1}, Cluster: [16]byte{2}, History: 1, Node: 2, Index: 300, Term: 4, Digest: 5, Voters: []uint64{1, 2, 3}, Files: []CheckpointFile{{"a.sst", 5, 6}}}
	if got := hex.EncodeToString(m.Encode()); got != goldenManifest {
		t.Errorf("\n got %s\nwant %s", got, goldenManifest)
	}
	if got := hex.EncodeToString(Stamp{Node: 3, hasLog: true, generation: 0x0102}.encode(1)); got != goldenStampGeneration {
		t.Errorf("stamp\n got %s\nwant %s", got, goldenStampGeneration)
	}
}

const (
	goldenManifest        = "4f4d51434b50310a2e50102e0100000001000000000000000000000000000000020000000000000000000000000000000102ac02040500000000000000030102030105612e737374050600000000000000"
	goldenStampGeneration = "4f4d5153544d503178c1b31f02000000000000000000000000000000000000000300000000000000010000000000000000000001020100000000000000000000"
)

// resum puts the right checksum into a manifest.
func resum(b []byte) { binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli)) }
