//go:build !unix

package node

// descriptors is how many files and sockets the process may have open: enough.
func descriptors() int { return 1 << 20 }
