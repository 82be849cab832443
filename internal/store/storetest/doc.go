// Package storetest holds every implementation of a log and of a state to what replica relies on: those of package store, and
// their twins in the simulator's memory. Package store knows none of it; both run it in their tests.
//
// A suite opens, closes and crashes what it is given by a [Disk]; it knows nothing of files.
package storetest

// Disk is one disk with one log or state on it.
type Disk[T any] struct {
	// Open opens what is on the disk; nothing at first. What was opened before was closed, or crashed.
	Open func() T
	// Crash is a loss of power: what was opened is dead, what was not synced is lost wholly or in part. seed decides which part.
	Crash func(seed uint64)
}
