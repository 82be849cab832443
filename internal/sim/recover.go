package sim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// Wreck makes what is on a disk of twins unreadable, until Restore.
func (d *Disk) Wreck() { d.wrecked = true }

// Restore puts a confirmed checkpoint in the place of log and state, as store.Dir.Install does on a damaged directory.
func (d *Disk) Restore(values map[string][]byte, term uint64, state store.HardState) {
	d.synced, d.unsynced, d.lied, d.wrecked = logImage{base: state.Commit, baseTerm: term, state: state}, nil, false, false
	d.state = stateImage{values: maps.Clone(values), applied: state.Commit}
}

// damage is why a wrecked disk can't be opened.
func (d *Disk) damage() error {
	if d.wrecked {
		return fmt.Errorf("%w: %s can't be read", store.ErrCorrupt, logPath)
	}
	return nil
}

// wreck ends a node, and leaves nothing on its disk that can be read: what it acknowledged, and for whom it voted, only the others know,
// and some of it perhaps one of them alone.
func (w *world) wreck(n *node) {
	if n.disk.real != nil || !w.mayDoom(n) {
		return
	}
	n.crash(w.chance(50))
	if n.held {
		return // it lied as well
	}
	w.doomed, n.flipped = n, true
	n.disk.Wreck()
	n.owed = ledger{}
	w.count("disk wrecked")
	w.say("n%d's disk can't be read any more", n.id)
	n.restartLater()
}

// recovers lets a node whose disk has forgotten something begin anew as one that recovers: it asks the others for a confirmed
// checkpoint, and takes no part before it has one. It reports false where the disk's kind doesn't allow that.
func (n *node) recovers() bool {
	if n.disk.real != nil || len(n.w.founders) == 1 {
		return false
	}
	n.crash(false)
	n.recovering = true
	n.w.seq++
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], n.w.seq)
	n.w.say("n%d recovers", n.id)
	n.ask(id)
	return true
}

// reaches says that a question gets to another node's process, and its answer back.
func (n *node) reaches(other *node) bool {
	return other.up && !other.paused && !n.w.link(n, other).blocked && !n.w.link(other, n).blocked
}

// ask asks all that can be reached, in a while, and again.
func (n *node) ask(id [16]byte) {
	n.w.after(n.w.between(5*time.Millisecond, 200*time.Millisecond), func() {
		if !n.recovering {
			return
		}
		for _, other := range n.w.nodes {
			if other == n || !n.reaches(other) {
				continue
			}
			if other.step.Machine().Removed(command.NodeID(n.id)) {
				n.w.count("removed node told so")
				n.gone, n.recovering = true, false
				return
			}
			c := other.step.Confirm(uint64(n.id), id)
			other.kick()
			if c.Offer.Index > 0 && other.checkpoint != nil && other.checkpoint.offer == c.Offer {
				n.takeOver(other, c, id)
				return
			}
		}
		n.ask(id)
	})
}

// takeOver fetches and installs what was confirmed, if it is still there when it has come.
func (n *node) takeOver(maker *node, c replica.Confirmation, id [16]byte) {
	n.w.after(n.w.between(5*time.Millisecond, 500*time.Millisecond), func() {
		if !n.recovering {
			return
		}
		if !n.reaches(maker) || maker.checkpoint == nil || maker.checkpoint.offer != c.Offer {
			n.w.count("checkpoint gone")
			n.ask(id)
			return
		}
		o := c.Offer
		n.disk.Restore(maker.checkpoint.values, o.Term, store.HardState{Term: c.Term, Vote: c.Leader, Commit: o.Index})
		n.owed = ledger{entries: slices.Clone(n.w.committed[:o.Index]), term: c.Term}
		n.recovering, n.forgot, n.flipped, n.w.doomed = false, false, false, nil
		n.w.count("recovered")
		n.w.say("n%d has recovered: the checkpoint of n%d up to %d, term %d", n.id, maker.id, o.Index, c.Term)
		n.w.checkHolders(n)
		n.start()
	})
}

// recovered waits until no node recovers any more: once all is healed, each comes back (K10).
func (w *world) recovered() {
	done := func() bool { return !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.recovering }) }
	w.runUntil(w.now+probeBound, done)
	if !done() {
		w.fail("K10", "a damaged node hasn't recovered %v after everything was healed", probeBound)
	}
}
