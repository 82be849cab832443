package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MeasureSync measures the disk under dir for about half a second: the median of 4 KiB overwrites of preallocated blocks,
// each followed by fdatasync, by one writer (the d of the benchmark tables). dir has to exist; no file is left behind.
func MeasureSync(dir string) (p50 time.Duration, err error) {
	path := filepath.Join(dir, "measure-sync.tmp")
	f, err := vfs.Default.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, fmt.Errorf("measuring the disk under %s: %w", dir, err)
	}
	defer func() {
		if e := errors.Join(f.Close(), vfs.Default.Remove(path)); err == nil && e != nil {
			err = fmt.Errorf("measuring the disk under %s: %w", dir, e)
		}
	}()
	const size = 8 << 20
	write := func(b []byte, offset int64) {
		if err == nil {
			_, err = f.WriteAt(b, offset)
		}
	}
	for offset := int64(0); offset < size; offset += zeroStep {
		write(zeros[:], offset)
	}
	if err == nil {
		err = f.Sync()
	}
	block := make([]byte, blockBytes)
	var took []time.Duration
	for begin := time.Now(); err == nil && len(took) < 2000 && time.Since(begin) < 500*time.Millisecond; {
		block[0]++
		start := time.Now()
		write(block, int64(len(took))*blockBytes%size)
		if err == nil {
			err = f.SyncData()
		}
		took = append(took, time.Since(start))
	}
	if err != nil {
		return 0, fmt.Errorf("measuring the disk under %s: %w", dir, err)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// MeasureWrite measures the disk under dir: the rate in bytes a second at which one writer writes 256 MiB, 1 MiB at a time, with one sync
// at the end. dir has to exist; no file is left behind.
func MeasureWrite(dir string) (perSecond float64, err error) {
	path := filepath.Join(dir, "measure-write.tmp")
	f, err := vfs.Default.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, fmt.Errorf("measuring the disk under %s: %w", dir, err)
	}
	const size, piece = 256 << 20, 1 << 20
	block := make([]byte, piece)
	begin := time.Now()
	for offset := int64(0); err == nil && offset < size; offset += piece {
		_, err = f.WriteAt(block, offset)
	}
	if err == nil {
		err = f.SyncData()
	}
	took := time.Since(begin)
	if err = errors.Join(err, f.Close(), vfs.Default.Remove(path)); err != nil {
		return 0, fmt.Errorf("measuring the disk under %s: %w", dir, err)
	}
	return size / took.Seconds(), nil
}
