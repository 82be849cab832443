package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/test/cluster"
)

// Kind is a kind of place in a node's directory, as docs/format draws it, where a bit can be another one day.
type Kind struct {
	Name string
	// Pattern is its file's, in the directory or in its generation.
	Pattern string
	// Bit finds the byte of it, in one of the files of the pattern, ascending; -1: this directory has none.
	Bit func(files []string) (path string, at int64, err error)
	// Text is what the file is given first, with its checksum: it is one that a directory seldom has.
	Text string
	// Harmless: nobody reads it, or it is made anew; nothing comes of it. Perhaps: what comes of it hangs on what the node and the others had
	// agreed on. Otherwise the node has to recover.
	Harmless, Perhaps bool
	// Scrubbed: a node that runs finds it, by reading on trial.
	Scrubbed bool
	// Short: it stands for its like in every run of the tests.
	Short bool
}

// Kinds are all that a directory has.
var Kinds = []Kind{
	{Name: "stamp", Pattern: "STAMP", Bit: first(20), Short: true},
	{Name: "stamp: version", Pattern: "STAMP", Bit: first(12)},
	{Name: "founding voters", Pattern: "VOTERS", Bit: first(0)},
	{Name: "members", Pattern: "MEMBERS", Bit: first(2), Harmless: true},
	{Name: "level", Pattern: "LEVEL", Bit: first(6), Harmless: true},
	{Name: "skipped entries", Pattern: "SKIP", Bit: first(6), Text: "index 1 term 1\n"},
	{Name: "why it was damaged", Pattern: "DAMAGED", Bit: first(0), Harmless: true},
	{Name: "damaged stamp", Pattern: "STAMP.damaged", Bit: first(30), Harmless: true},
	{Name: "log: first header", Pattern: "log/*.seg", Bit: first(24), Scrubbed: true},
	{Name: "log: last header", Pattern: "log/*.seg", Bit: lastHeader, Perhaps: true},
	{Name: "log: header of a batch", Pattern: "log/*.seg", Bit: batch(middle, 16), Scrubbed: true},
	{Name: "log: batch in the middle", Pattern: "log/*.seg", Bit: batch(middle, batchHeader+recordHeader), Scrubbed: true, Short: true},
	{Name: "log: last batch", Pattern: "log/*.seg", Bit: batch(last, batchHeader+recordHeader), Perhaps: true},
	{Name: "log: padding", Pattern: "log/*.seg", Bit: padding, Harmless: true},
	{Name: "log: behind the end", Pattern: "log/*.seg", Bit: behind, Harmless: true},
	{Name: "state: block of a table", Pattern: "state/*.sst", Bit: part(0.4), Scrubbed: true, Short: true},
	{Name: "state: end of a table", Pattern: "state/*.sst", Bit: part(1), Scrubbed: true},
	{Name: "state: list of tables", Pattern: "state/MANIFEST-*", Bit: half, Scrubbed: true, Short: true},
	{Name: "state: options", Pattern: "state/OPTIONS-*", Bit: word("comparer="), Perhaps: true},
}

// Damage flips the bit in a directory. It reports false where that has no such place.
func (k *Kind) Damage(tb testing.TB, dir string) bool {
	tb.Helper()
	if k.Text != "" {
		sealed := fmt.Sprintf("%scrc32c %08x\n", k.Text, crc32.Checksum([]byte(k.Text), crc32.MakeTable(crc32.Castagnoli)))
		if err := os.WriteFile(filepath.Join(dir, k.Pattern), []byte(sealed), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	files := matching(dir, k.Pattern)
	if len(files) == 0 {
		return false
	}
	path, at, err := k.Bit(files)
	if err == nil && at >= 0 {
		err = flip(path, at)
	}
	if err != nil {
		tb.Fatalf("%s: %v", k.Name, err)
	}
	return at >= 0
}

// first is the byte at an offset of the first file.
func first(at int64) func(files []string) (string, int64, error) {
	return func(files []string) (string, int64, error) { return files[0], at, nil }
}

// part is a byte so far into the largest file, 1: near its end.
func part(share float64) func(files []string) (string, int64, error) {
	return func(files []string) (path string, at int64, err error) {
		var size int64
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				return "", 0, err
			}
			if info.Size() > size {
				path, size = f, info.Size()
			}
		}
		return path, int64(float64(size-16) * share), nil
	}
}

// half is the byte in the middle of the last file.
func half(files []string) (string, int64, error) {
	path := slices.Max(files)
	info, err := os.Stat(path)
	if err != nil {
		return path, -1, err
	}
	return path, info.Size() / 2, nil
}

// word is the byte behind a text in the last file.
func word(text string) func(files []string) (string, int64, error) {
	return func(files []string) (string, int64, error) {
		path := slices.Max(files)
		b, err := os.ReadFile(path)
		at := bytes.Index(b, []byte(text))
		if at >= 0 {
			at += len(text)
		}
		return path, int64(at), err
	}
}

// The parts of a segment, in bytes (docs/format/log.md).
const (
	block        = 4096
	batchHeader  = 48
	recordHeader = 32
)

// span is a batch in a segment: where it begins, where its records end, and where the next may begin.
type span struct{ from, end, next int64 }

// batches are those of a segment, none of one that isn't begun.
func batches(path string) (list []span, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	seq, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".seg"), 16, 64)
	if err != nil {
		return nil, err
	}
	for at := int64(block); at+batchHeader <= int64(len(b)); {
		h := b[at:]
		if string(h[:4]) != "OMQB" || binary.LittleEndian.Uint64(h[8:]) != seq {
			break
		}
		s := span{from: at, end: at + batchHeader + int64(binary.LittleEndian.Uint32(h[28:]))}
		s.next = (s.end + block - 1) / block * block
		list = append(list, s)
		at = s.next
	}
	return list, nil
}

// begun are the segments that have batches.
func begun(files []string) (paths []string, spans [][]span, err error) {
	for _, path := range files {
		list, err := batches(path)
		if err != nil {
			return nil, nil, err
		}
		if len(list) > 0 {
			paths, spans = append(paths, path), append(spans, list)
		}
	}
	if len(paths) == 0 {
		err = errors.New("no segment has a batch")
	}
	return paths, spans, err
}

func middle(n int) int { return n / 2 }
func last(n int) int   { return n - 1 }

// batch is a byte within a batch, the one that which chooses of all.
func batch(which func(n int) int, at int64) func(files []string) (string, int64, error) {
	return func(files []string) (string, int64, error) {
		paths, spans, err := begun(files)
		n := 0
		for _, s := range spans {
			n += len(s)
		}
		left := which(n)
		for i, s := range spans {
			if left < len(s) {
				return paths[i], s[left].from + at, nil
			}
			left -= len(s)
		}
		return "", -1, err
	}
}

// padding is the last byte before the second batch of the last segment, which belongs to no record.
func padding(files []string) (string, int64, error) {
	paths, spans, err := begun(files)
	if err != nil {
		return "", -1, err
	}
	for i := len(paths) - 1; i >= 0; i-- {
		for _, s := range spans[i][:len(spans[i])-1] {
			if s.end < s.next {
				return paths[i], s.next - 1, nil
			}
		}
	}
	return "", -1, nil
}

// behind is a byte where the next batch will be.
func behind(files []string) (string, int64, error) {
	paths, spans, err := begun(files)
	if err != nil {
		return "", -1, err
	}
	path, tip := paths[len(paths)-1], spans[len(spans)-1]
	info, err := os.Stat(path)
	if at := tip[len(tip)-1].next + block/2; err == nil && at < info.Size() {
		return path, at, nil
	}
	return "", -1, err
}

// lastHeader is in the header of the segment that is written to.
func lastHeader(files []string) (string, int64, error) {
	paths, _, err := begun(files)
	if err != nil {
		return "", -1, err
	}
	return paths[len(paths)-1], 24, nil
}

// oldest and newest are the first and the last file by a pattern; where there is none, one that isn't there.
func oldest(dir, pattern string) string {
	return slices.Min(append(matching(dir, pattern), filepath.Join(dir, "~missing")))
}

func newest(dir, pattern string) string {
	return slices.Max(append(matching(dir, pattern), filepath.Join(dir, "!missing")))
}

// matching are the files by a pattern, ascending, in the generation of a directory, or else in itself.
func matching(dir, pattern string) []string {
	for _, base := range []string{"gen-*", "."} {
		if list, err := filepath.Glob(filepath.Join(dir, base, pattern)); err == nil && len(list) > 0 {
			return list
		}
	}
	return nil
}

// flip changes one bit of a file, on the disk.
func flip(path string, at int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 4
	if _, err = f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Sync()
}

// Unknown are the files of a directory that no kind stands for, and that have bytes. What a node offers to others (checkpoint/) is made of the same,
// and gone with a start.
func Unknown(tb testing.TB, n *cluster.Node) (names []string) {
	tb.Helper()
	err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "checkpoint" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		name, err := filepath.Rel(n.Dir, path)
		if generation, rest, ok := strings.Cut(name, string(filepath.Separator)); ok && strings.HasPrefix(generation, "gen-") {
			name = rest
		}
		if !slices.ContainsFunc(Kinds, func(k Kind) bool { ok, _ := filepath.Match(k.Pattern, name); return ok }) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		tb.Fatal(fmt.Errorf("listing %s: %w", n.Dir, err))
	}
	return names
}
