package store

import "github.com/cockroachdb/pebble/v2/vfs"

// FS is a file system: the operating system's, or one in memory for tests and the simulator.
type FS = vfs.FS

// NewMemFS returns an empty file system in memory that can crash (CrashFS).
func NewMemFS() FS { return vfs.NewCrashableMem() }

// CrashFS returns what a file system of NewMemFS would hold after a loss of power now: everything synced, and of what is
// not synced about percent of 100, chosen by seed. fs itself stays as it is.
func CrashFS(fs FS, seed uint64, percent int) FS { panic("soon") }
