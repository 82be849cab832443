package store

import "fmt"

// Start is what raft needs to know when a node starts.
type Start struct {
	// State is the hard state. Its Commit is raised to Applied where it was lower: what was applied was committed, and a
	// commit index is not synced by itself.
	State HardState
	// First and Last are the log's; Applied is the state's. Entries Applied+1 … State.Commit come again.
	First, Last, Applied uint64
}

// BeginLog is what Begin needs of a log; *Log is one.
type BeginLog interface {
	HardState() HardState
	FirstIndex() uint64
	LastIndex() uint64
	Path() string
}

// BeginState is what Begin needs of a state; *State is one.
type BeginState interface {
	AppliedIndex() uint64
	Path() string
}

// Begin checks log and state against each other and returns what a start needs. A log that does not reach the state's
// applied index, or begins above the one after it, is ErrCorrupt: somebody took a part of the directory away.
func Begin(l BeginLog, s BeginState) (Start, error) {
	start := Start{State: l.HardState(), First: l.FirstIndex(), Last: l.LastIndex(), Applied: s.AppliedIndex()}
	if start.Applied > start.Last {
		return start, fmt.Errorf("%w: the state in %s has entry %d applied, the log in %s ends at %d; the end of the log is gone: put it back, or let the node join anew from its peers",
			ErrCorrupt, s.Path(), start.Applied, l.Path(), start.Last)
	}
	start.State.Commit = max(start.State.Commit, start.Applied)
	if start.State.Commit > start.Last {
		return start, fmt.Errorf("%w: the log in %s says that entry %d was committed, and ends at %d; its end is gone: put it back, or let the node join anew from its peers",
			ErrCorrupt, l.Path(), start.State.Commit, start.Last)
	}
	if start.First > start.Applied+1 {
		return start, damaged(LostState, fmt.Errorf("%w: the state in %s has entry %d applied, the log in %s begins at %d; what lies between is gone",
			ErrCorrupt, s.Path(), start.Applied, l.Path(), start.First))
	}
	return start, nil
}
