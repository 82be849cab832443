// Package store is everything of a node that lies on its disk: the directory with its lock and stamp ([Dir]), the
// segmented log of raft entries ([Log]) and the state that entries were applied to, kept in Pebble ([State]). It is the
// only package that imports Pebble.
//
// Invariants:
//
//   - What Append has returned nil for is on the disk (C14), unless the directory is marked "safety off".
//   - Damage below the highest position that is known to have been synced is [ErrCorrupt], never "the end" of the log.
//   - After any crash the state is exactly that of one earlier applied index ([State.AppliedIndex] after opening), and the
//     log still holds every entry above it: [Log.Cut] recycles nothing that [State.DurableIndex] does not cover, if its
//     caller passes no more than that.
//   - Log and state are switched together, by one atomic write, or not at all ([Dir.Install]): a start finds one generation of
//     them, whole, and term and vote never go back.
//   - A damaged directory becomes whole by such a switch alone: with what a leader has confirmed ([Confirmed]), or mended with certain bytes ([Salvage]).
//   - A failed write or sync is [ErrDisk]. It is final: the caller ends the process, since nobody can say what a page
//     cache holds after a failed sync.
//
// package replica calls it: its append goroutine owns the Log's writing side, its apply goroutine owns State.Apply. The
// package knows nothing of raft's rules, of commands, or of what the keys and values of the state mean. It starts no
// goroutine of its own but for a spill; Pebble does, and stops them in [State.Close].
//
// What is damaged can still be looked into: [Inspect] changes nothing and says what is left of a log and a state.
//
// The bytes are drawn in docs/format/log.md and docs/format/pebble.md.
package store
