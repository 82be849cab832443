package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// SizeFlags are the flags of `oncemq serve` that are numbers of bytes, as text such as 2GiB; empty: the default.
type SizeFlags struct {
	RetainLog, SnapshotRate, LogSegment, FlushLog string
}

// Sizes are numbers of bytes; 0: the replica's default.
type Sizes struct {
	// RetainLog is how much of the log is kept for a node that is behind.
	RetainLog int64
	// SnapshotRate is how many bytes a second go to nodes that fetch a snapshot.
	SnapshotRate int64
	// LogSegment is the size of a segment of the log, FlushLog that of the log above which the state is flushed: for tests.
	LogSegment, FlushLog int64
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
		{"log-segment", f.LogSegment, 16 << 10, 1 << 30, &s.LogSegment, "16KiB to 1GiB"},
		{"flush-log", f.FlushLog, 1, math.MaxInt64 / 4, &s.FlushLog, "a number of bytes such as 256MiB"},
	} {
		if size.text == "" {
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
