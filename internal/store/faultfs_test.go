package store

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestFaultFS: a log on a failing disk says so and has what it had, with none of what failed but perhaps all of it; on a
// lying one it loses what it acknowledged.
func TestFaultFS(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		write bool // else the sync
		err   error
		last  uint64 // after a loss of power
	}{
		{"no write", Fault{Err: syscall.EIO}, true, syscall.EIO, 2},
		{"half a write", Fault{Err: syscall.EIO, Bytes: 20}, true, syscall.EIO, 2},
		{"no sync", Fault{Err: syscall.EIO}, false, syscall.EIO, 2},
		{"no sync, unsaid", Fault{Lie: true}, false, nil, 2},
		{"none", Fault{}, false, nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, fault := NewMemFS(), Fault{}
			fs := FaultFS(mem, func(name string, bytes int) Fault {
				if strings.HasSuffix(name, ".seg") && (bytes > 0) == c.write {
					return fault
				}
				return Fault{}
			})
			d, l, err := openDirLog(fs, smallLog)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			defer l.Close()
			mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(1, 2, 1, 100)})
			fault = c.fault
			if err := l.Append(Append{Entries: run(3, 3, 1, 100)}); !errors.Is(err, c.err) {
				t.Fatalf("append: %v, want %v", err, c.err)
			}
			d2, l2, err := openDirLog(CrashFS(mem, 1, 0), smallLog)
			if err != nil {
				t.Fatal(err)
			}
			defer d2.Close()
			defer l2.Close()
			if l2.LastIndex() != c.last {
				t.Errorf("after a loss of power the log ends at %d, want %d", l2.LastIndex(), c.last)
			}
		})
	}
}
