//go:build !linux

package peer

import "syscall"

// tune has nothing to set here: the write deadline ends a dead connection.
func tune(_, _ string, _ syscall.RawConn) error { return nil }
