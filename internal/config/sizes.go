package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// SizeFlags are the flags of `oncemq serve` that are numbers of bytes, as text such as 2GiB; empty: the default.
type SizeFlags struct {
	RetainLog, SnapshotRate, LogSegment, FlushLog, DiskReserve, ScrubRate string
	// Memory may be a part of the machine's, such as 50%.
	Memory string
}

// Sizes are numbers of bytes; 0: the replica's default.
type Sizes struct {
	// RetainLog is how much of the log is kept for a node that is behind.
	RetainLog int64
	// SnapshotRate is how many bytes a second go to nodes that fetch a snapshot.
	SnapshotRate int64
	// LogSegment is the size of a segment of the log, FlushLog that of the log above which the state is flushed: for tests.
	LogSegment, FlushLog int64
	// ScrubRate is how many bytes a second of log and state are read on trial, at least.
	ScrubRate int64
	// DiskReserve is how much room on the disk is set aside for what frees room.
	DiskReserve int64
	// Memory is how much memory the node may use; where it is 0, MemoryPercent is how much of the machine's, 0 for the default.
	Memory        int64
	MemoryPercent int
}

// parse reads the flags.
func (s *Sizes) parse(f SizeFlags) (faults []error) {
	for _, size := range []struct {
		flag, text      string
		lowest, highest int64
		to              *int64
		allowed         string
	}{
		{"retain-log", f.RetainLog, 1, math.MaxInt64 / 4, &s.RetainLog, "a number of bytes such as 2GiB"},
		{"snapshot-rate", f.SnapshotRate, 64 << 10, math.MaxInt64 / 4, &s.SnapshotRate, "64KiB a second or more, such as 100MiB"},
		{"scrub-rate", f.ScrubRate, 1 << 10, math.MaxInt64 / 4, &s.ScrubRate, "1KiB a second or more, such as 1MiB"},
		{"log-segment", f.LogSegment, 16 << 10, 1 << 30, &s.LogSegment, "16KiB to 1GiB"},
		{"disk-reserve", f.DiskReserve, 1 << 20, math.MaxInt64 / 4, &s.DiskReserve, "1MiB or more, such as 256MiB"},
		{"memory", f.Memory, 64 << 20, math.MaxInt64 / 4, &s.Memory, "64MiB or more, such as 4GiB, or 1% to 90% of the machine's"},
		{"flush-log", f.FlushLog, 1, math.MaxInt64 / 4, &s.FlushLog, "a number of bytes such as 256MiB"},
	} {
		if size.text == "" {
			continue
		}
		if percent, ok := strings.CutSuffix(size.text, "%"); ok && size.to == &s.Memory {
			n, err := strconv.Atoi(percent)
			if err != nil || n < 1 || n > 90 {
				faults = append(faults, Fault(size.flag, size.text, "not a part of the machine's", size.allowed))
			}
			s.MemoryPercent = n
			continue
		}
		n, err := ParseBytes(size.text)
		if err == nil && (n < size.lowest || n > size.highest) {
			err = errors.New("out of bounds")
		}
		if err != nil {
			faults = append(faults, Fault(size.flag, size.text, err.Error(), size.allowed))
			continue
		}
		*size.to = n
	}
	return faults
}

// ParseBytes reads a number of bytes, such as 4096, 64KiB, 100MiB, 8GiB or 1TiB; it is never negative.
func ParseBytes(text string) (int64, error) {
	digits, unit := text, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			digits, unit = before, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, errors.New("not a number of bytes")
	}
	return n * unit, nil
}
