//go:build unix

package node

import "syscall"

// descriptors is how many files and sockets the process may have open; Go has raised
// the soft limit to the hard one at its start.
func descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return unlimited
	}
	return int(min(l.Cur, unlimited))
}

// unlimited stands for any large number.
const unlimited = 1 << 20
