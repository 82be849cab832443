package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FuzzRecord: arbitrary bytes as a segment. The decoder and the recovery don't panic, allocate no more than the file is
// large, and give an error that has a name. The checksums are put right first where a batch says it is one, so that the
// fuzzer gets behind them.
func FuzzRecord(f *testing.F) {
	recordSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if len(b) > 16<<10 {
			return
		}
		mem := vfs.NewMem()
		d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.key = 1
		b = expand(b)
		if mend {
			mendSegment(b, 1, salt(1, 1))
		}
		if err := mem.MkdirAll("/data/log", 0o700); err != nil {
			t.Fatal(err)
		}
		file, err := mem.Create("/data/log/"+segmentName(1), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(b)
		file.Close()
		l, err := d.OpenLog(smallLog)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		defer l.Close()
		if first, last := l.FirstIndex(), l.LastIndex(); first <= last {
			if got, err := l.Entries(nil, first, last+1, 0); err != nil || uint64(len(got)) != last+1-first {
				t.Fatalf("%d to %d: %d, %v", first, last, len(got), err)
			}
		}
		last := l.LastIndex()
		if last == 1<<64-1 {
			return
		}
		if err := l.Append(Append{State: HardState{Term: 9}, Entries: []Entry{{Index: last + 1, Term: 9, Data: []byte("x")}}}); err != nil {
			t.Fatal(err)
		}
	})
}

// recordSeeds adds real segments, without padding.
func recordSeeds(f *testing.F) {
	w := writeLog(f)
	for seq := uint64(1); seq <= 3; seq += 2 {
		w.edit(f, seq, func(b []byte) []byte {
			compact := append([]byte(nil), b[:segmentHeaderBytes]...)
			for _, p := range w.places {
				if p.seq == seq && p.used < 600 {
					compact = append(compact, b[p.start:p.start+p.used]...)
				}
			}
			f.Add(compact, true)
			f.Add(compact[:len(compact)-20], false)
			return b
		})
	}
	f.Add([]byte{}, false)
}

// expand lays a segment out in blocks whose padding was left away, for short inputs.
func expand(b []byte) (out []byte) {
	n := min(len(b), segmentHeaderBytes)
	for {
		out = append(out, b[:n]...)
		b = b[n:]
		if len(b) == 0 {
			return out
		}
		out = append(out, make([]byte, int(roundUp(int64(len(out))))-len(out))...)
		n = len(b)
		if n >= batchHeaderBytes {
			n = int(min(batchHeaderBytes+uint64(binary.LittleEndian.Uint32(b[28:])), uint64(n)))
		}
	}
}

// mendSegment puts the checksums of what looks like a segment right.
func mendSegment(b []byte, seq uint64, salt uint32) {
	le := binary.LittleEndian
	if len(b) >= segmentHeaderBytes {
		le.PutUint64(b, segmentMagic)
		le.PutUint64(b[16:], seq)
		le.PutUint32(b[8:], crc32.Checksum(b[12:segmentHeaderBytes], castagnoli))
	}
	var prev uint32
	if len(b) >= segmentHeaderBytes {
		prev = le.Uint32(b[8:])
	}
	for offset := blockBytes; offset+batchHeaderBytes <= len(b); {
		h := b[offset:]
		le.PutUint32(h, batchMagic)
		le.PutUint64(h[8:], seq)
		le.PutUint32(h[40:], prev)
		sum, at, n := uint32(0), batchHeaderBytes, uint32(0)
		for end := batchHeaderBytes + int64(le.Uint32(h[28:])); int64(at) < end && end <= int64(len(h)); n++ {
			size := recordBytes(h[at:])
			if size == 0 || int64(at)+size > end {
				break
			}
			le.PutUint32(h[at:], crc32.Update(salt, castagnoli, h[at+4:int64(at)+size]))
			sum = crc32.Update(sum, castagnoli, h[at:at+4])
			at += int(size)
		}
		le.PutUint32(h[32:], n)
		le.PutUint32(h[36:], sum)
		prev = crc32.Update(salt, castagnoli, h[8:batchHeaderBytes])
		le.PutUint32(h[4:], prev)
		offset += int(roundUp(int64(at)))
	}
}

// FuzzStamp: arbitrary bytes as a stamp or a list of voters.
func FuzzStamp(f *testing.F) {
	f.Add(Stamp{Node: 1, History: 2, hasLog: true}.encode(5))
	f.Add(encodeVoters([]uint64{1, 2, 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if voters, ok := decodeVoters(b); ok && string(encodeVoters(voters)) != string(b) {
			t.Errorf("voters %v of %q", voters, b)
		}
		if _, _, err := decodeStamp(b, "x"); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Error(err)
		}
	})
}
