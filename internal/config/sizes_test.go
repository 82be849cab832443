package config

import (
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "100MiB": 100 << 20, "8GiB": 8 << 30, "1TiB": 1 << 40,
		"": -1, "-1": -1, "KiB": -1, "1.5GiB": -1, "1GB": -1, "10 MiB": -1, "9999999999TiB": -1,
	} {
		got, err := ParseBytes(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestSizes(t *testing.T) {
	var s Sizes
	if faults := s.parse(SizeFlags{RetainLog: "2GiB", SnapshotRate: "64KiB", LogSegment: "16KiB", DiskReserve: "1MiB", ScrubRate: "2MiB", Memory: "20%"}); len(faults) > 0 ||
		s != (Sizes{RetainLog: 2 << 30, SnapshotRate: 64 << 10, LogSegment: 16 << 10, DiskReserve: 1 << 20, ScrubRate: 2 << 20, MemoryPercent: 20}) {
		t.Errorf("%+v, %v", s, faults)
	}
	faults := s.parse(SizeFlags{RetainLog: "much", SnapshotRate: "1", LogSegment: "2GiB", FlushLog: "0"})
	if len(faults) != 4 || !strings.Contains(faults[1].Error(), `--snapshot-rate "1": out of bounds`) {
		t.Errorf("%v", faults)
	}
}
