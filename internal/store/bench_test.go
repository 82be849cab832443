package store

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

func benchLog(b *testing.B, opts LogOptions) (*Dir, *Log) {
	b.Helper()
	d, err := Open(Options{Dir: b.TempDir(), Node: 1})
	if err != nil {
		b.Fatal(err)
	}
	l, err := d.OpenLog(opts)
	if err != nil {
		b.Fatal(err)
	}
	return d, l
}

// BenchmarkAppend is one writer on the real disk: one entry an append, on prepared blocks ("ahead") and without
// preparation; p50 beside the mean.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10, 256 << 10} {
		for _, ahead := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dKiB/ahead=%v", size>>10, ahead), func(b *testing.B) {
				d, l := benchLog(b, LogOptions{})
				defer d.Close()
				defer l.Close()
				data := make([]byte, size)
				took := make([]time.Duration, 0, b.N)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := uint64(1); b.Loop(); i++ {
					for more := ahead; more; {
						b.StopTimer()
						var err error
						if more, err = l.Prepare(); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					start := time.Now()
					if err := l.Append(Append{State: HardState{Term: 1, Commit: i - 1}, Entries: []Entry{{Index: i, Term: 1, Data: data}}}); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
					if i%1000 == 0 {
						b.StopTimer()
						if err := l.Cut(i); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			})
		}
	}
}

// BenchmarkEncode is what an append costs beside the disk.
func BenchmarkEncode(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			mem := NewMemFS()
			d, l, err := openDirLog(mem, LogOptions{NoSync: true})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			defer l.Close()
			a := Append{State: HardState{Term: 1}, Entries: []Entry{{Index: 1, Term: 1, Data: make([]byte, size)}}}
			if err := l.Append(a); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := uint64(2); b.Loop(); i++ {
				a.Entries[0].Index, a.State.Commit = 2, i
				l.encode(l.live[0], a, a.State, false)
			}
		})
	}
}

// BenchmarkRead reads ranges of 64 entries of 1 KiB, from memory and from disk.
func BenchmarkRead(b *testing.B) {
	d, l := benchLog(b, LogOptions{NoSync: true, TailBytes: 1 << 20})
	defer d.Close()
	defer l.Close()
	const n = 50000
	for i := uint64(1); i <= n; i += 50 {
		if err := l.Append(Append{State: HardState{Term: 1}, Entries: run(i, i+49, 1, 1024)}); err != nil {
			b.Fatal(err)
		}
	}
	for name, lo := range map[string]uint64{"memory": n - 100, "disk": 1000} {
		b.Run(name, func(b *testing.B) {
			var dst []Entry
			b.SetBytes(64 << 10)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = l.Entries(dst[:0], lo, lo+64, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply is a batch of 64 messages of 1 KiB put and 64 deleted, as an entry of a busy queue is.
func BenchmarkApply(b *testing.B) {
	d, err := Open(Options{Dir: b.TempDir(), Node: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, err := d.OpenState(StateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	batch := s.NewBatch()

	var key [18]byte
	value := make([]byte, 1024)
	b.ReportAllocs()
	n := uint64(0)
	for i := uint64(1); b.Loop(); i++ {
		for range 64 {
			n++
			batch.Put(fmt.Appendf(key[:0], "\x00\x00%016d", n), value)
			if n > 1000 {
				batch.Delete(fmt.Appendf(key[:0], "\x00\x00%016d", n-1000))
			}
		}
		if err := s.Apply(batch, i); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is a start: an empty directory, and a log of 256 MiB.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			d, err := Open(Options{Dir: dir, Node: 1})
			if err != nil {
				b.Fatal(err)
			}
			l, err := d.OpenLog(LogOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := d.OpenState(StateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
			l.Close()
			d.Close()
			b.StopTimer()
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("256MiB", func(b *testing.B) {
		dir := b.TempDir()
		for first := true; b.Loop(); first = false {
			d, err := Open(Options{Dir: dir, Node: 1})
			if err != nil {
				b.Fatal(err)
			}
			l, err := d.OpenLog(LogOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if first {
				b.StopTimer()
				for i := uint64(1); i <= 256<<10; i += 256 {
					if err := l.Append(Append{State: HardState{Term: 1}, Entries: run(i, i+255, 1, 1024)}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
			l.Close()
			d.Close()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys>>20), "heap-MiB")
	})
}
