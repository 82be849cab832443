package store

import "errors"

// The errors of this package. All are wrapped with what was being done, to which file, and what to do next; match them
// with errors.Is.
var (
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("oncemq: the data directory is in use by another process")

	// ErrForeign: the directory belongs to another node or another cluster than the one that opens it.
	ErrForeign = errors.New("oncemq: the data directory belongs to another node or cluster")

	// ErrVersion: something in the directory has a format that this program does not know. Nothing was written.
	ErrVersion = errors.New("oncemq: the data directory was written by a newer version")

	// ErrSafety: the directory was made with safety off and is opened with safety on, or the other way round.
	ErrSafety = errors.New("oncemq: the data directory was made with another safety setting")

	// ErrCorrupt: bytes that were once synced are damaged or gone (C14). The node must not vote or serve from them, and
	// must delete nothing.
	ErrCorrupt = errors.New("oncemq: the data directory is damaged")

	// ErrDisk: a write or a sync failed. It is final: the process has to end, and every later call returns it again.
	ErrDisk = errors.New("oncemq: a write to the disk failed")

	// ErrCut: the entry asked for lies below FirstIndex; it was recycled. Replica answers raft with ErrCompacted.
	ErrCut = errors.New("oncemq: the log entry was cut")

	// ErrFetched: a checkpoint that was fetched from another node is not what its manifest says. Nothing was installed.
	ErrFetched = errors.New("oncemq: the fetched checkpoint is damaged")

	// ErrFull: there is no room on the disk. Nothing has changed, and nothing is lost: the same call can be made again.
	ErrFull = errors.New("oncemq: the disk is full")

	// ErrNotEmpty: a backup is restored into an empty directory only.
	ErrNotEmpty = errors.New("oncemq: the data directory isn't empty")

	// ErrUnfinished: a restore into the directory was broken off; no node can begin with what is there.
	ErrUnfinished = errors.New("oncemq: a backup was being restored into the data directory, and that isn't finished")

	// ErrUnavailable: the entry asked for lies above LastIndex.
	ErrUnavailable = errors.New("oncemq: the log has no such entry yet")
)
