package fsck

import (
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/store"
)

// has says whether something of a part is damaged.
func (c *checker) has(part store.Part) bool {
	return slices.ContainsFunc(c.in.Damage, func(d store.Damage) bool { return d.Part == part })
}

// lost says what the damage has cost this directory; other nodes have it still, most likely.
func (c *checker) lost() {
	l := c.in.Log
	say := func(format string, args ...any) { c.out.Lost = append(c.out.Lost, fmt.Sprintf(format, args...)) }
	if c.has(store.PartStamp) {
		say("whose directory this is, and the key without which no checksum of the log can be checked")
	}
	if c.has(store.PartLog) {
		for i, gap := range l.Missing() {
			switch {
			case gap.Last >= gap.First:
				say("entries %d to %d of the log", gap.First, gap.Last)
			case !l.Pieces[i+1].Joined:
				say("an append behind entry %d of the log: a term, a vote, or entries that replaced others", gap.Last)
			}
		}
		if len(l.Pieces) > 0 && l.Pieces[0].First() > c.in.State.Applied+1 && c.in.State.Opened {
			say("entries %d to %d of the log", c.in.State.Applied+1, l.Pieces[0].First()-1)
		}
		if l.TailLost {
			last := uint64(0)
			if n := len(l.Pieces); n > 0 {
				last = l.Pieces[n-1].Last()
			}
			say("the end of the log behind entry %d: nobody can tell from this directory how far it went", last)
		}
		if !l.StateSound {
			say("the newest term and vote: the node can't know for whom it has voted")
		}
	}
	if c.has(store.PartState) {
		say("the state: queues, messages, sessions, outcomes, as far as the log doesn't give them back")
	}
	if c.has(store.PartBounds) && !c.has(store.PartLog) && !c.has(store.PartState) {
		say("what lies between log and state")
	}
}

// advise says what is safe to do.
func (c *checker) advise() {
	say := func(format string, args ...any) { c.out.Advice = append(c.out.Advice, fmt.Sprintf(format, args...)) }
	switch {
	case c.out.Sound && c.out.SafetyOff:
		say("The directory was made with safety off: nothing in it was ever safe. It can be started.")
		return
	case c.out.Sound:
		say("The node can be started.")
		return
	case c.out.Newer:
		say("Run fsck of the version that wrote it; nothing was changed.")
		return
	}
	say("Copy the whole directory to another disk before anything else, and delete nothing in it.")
	if c.has(store.PartStamp) {
		say("Put STAMP back from a copy of this directory, of whatever age: the key in it never changes. An older copy may name an older generation; then fsck says so.")
	}
	if c.has(store.PartVoters) {
		say("Copy VOTERS from any other node of the cluster: it is the same on all of them.")
	}
	if c.has(store.PartStamp) || !c.has(store.PartLog) && !c.has(store.PartState) && !c.has(store.PartBounds) {
		return
	}
	c.adviseRecovery(say)
}

// adviseRecovery is for damage of log or state.
func (c *checker) adviseRecovery(say func(string, ...any)) {
	l := c.in.Log
	if len(c.out.Voters) == 1 {
		if !c.has(store.PartLog) && len(l.Pieces) == 1 && l.Pieces[0].First() == 1 {
			say("The log is whole from its first entry on: move %s away, and the start builds the state anew from it.", c.in.State.Path)
			return
		}
		say("A lone node has nobody to fetch from: restore the last backup into another directory. What was accepted after it is lost.")
		return
	}
	switch {
	case !c.has(store.PartLog):
		say("Start the node beside its cluster: its log is whole, and it fetches the state from another node, a leader or not. It neither votes nor serves before.")
	case l.StateSound && !l.TailLost:
		say("Start the node beside its cluster: its newest term and vote are sound, and it fetches the missing entries from any node that has them, damaged elsewhere or not. It neither votes nor serves before.")
	default:
		say("Start the node beside its cluster: a majority of the others has to be there, whose leader gives it a copy of the state. It neither votes nor serves before.")
	}
	say("Where no majority of the cluster will ever come back, run fsck on each node that is left, and oncemq recover --force-new-cluster on the one whose log ends with the highest term and entry.")
}
