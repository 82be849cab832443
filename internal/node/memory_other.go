//go:build !linux

package node

// machineMemory is how much memory the machine has: nobody says.
func machineMemory() int64 { return 0 }
