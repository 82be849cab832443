package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// checkpoint is a copy of a node's state for one that is too far behind. It is gone with the process that made it.
type checkpoint struct {
	offer  replica.Offer
	values map[string][]byte
}

// errNoCheckpoint: only the twins of log and state can be copied.
var errNoCheckpoint = errors.New("no checkpoint of a real disk")

// Checkpoint flushes the state and copies it, with the applied index that it has then.
func (d *Disk) Checkpoint() (values map[string][]byte, applied uint64, err error) {
	if d.real != nil {
		return nil, 0, errNoCheckpoint
	}
	if d.failing || d.full {
		return nil, 0, diskError(statePath, d.writeError())
	}
	d.state.flush(len(d.state.changes))
	return maps.Clone(d.state.values), d.state.applied, nil
}

// Install puts a checkpoint in the place of log and state, as store.Dir.Install does: at once, on the disk, with the term and the
// vote of the log. It reports false where the log has, or had, the checkpoint's entry. Nothing may be open.
func (d *Disk) Install(values map[string][]byte, index, term uint64) bool {
	log := d.written()
	has := index <= log.base || index <= log.last() && index > log.base && log.entries[index-log.base-1].Term == term
	if has || log.state.Commit >= index {
		return false
	}
	state := log.state
	if term > state.Term {
		state = store.HardState{Term: term}
	}
	state.Commit = index
	d.synced, d.unsynced, d.lied = logImage{base: index, baseTerm: term, state: state}, nil, false
	d.state = stateImage{values: maps.Clone(values), applied: index}
	return true
}

// makeCheckpoint is a node's StepOptions.Checkpoint.
func (n *node) makeCheckpoint() (replica.Offer, error) {
	values, applied, err := n.disk.Checkpoint()
	if err != nil {
		return replica.Offer{}, err
	}
	log := n.disk.written()
	o := replica.Offer{Node: uint64(n.id), Index: applied, Term: log.baseTerm}
	if applied > log.base {
		if applied > log.last() {
			return o, fmt.Errorf("the state of n%d has entry %d, its log ends with %d", n.id, applied, log.last())
		}
		o.Term = log.entries[applied-log.base-1].Term
	}
	n.w.seq++
	binary.BigEndian.PutUint64(o.ID[:], n.w.seq)
	n.checkpoint = &checkpoint{o, values}
	n.w.count("checkpoint")
	n.w.say("n%d has a checkpoint up to %d", n.id, o.Index)
	return o, nil
}

// dropCheckpoint is a node's StepOptions.Drop.
func (n *node) dropCheckpoint(replica.Offer) { n.checkpoint = nil }

// fetch fetches the checkpoint that the node needs, if it needs one: in one piece, after a while, if its maker is still there
// and still has it. Then the process ends, on its own or by a loss of power in the middle of it, and finds the checkpoint
// installed, or not.
func (n *node) fetch() {
	o, ok := n.step.Wanted()
	if !ok || n.fetching == n.life {
		return
	}
	n.fetching = n.life
	n.after(n.w.between(5*time.Millisecond, 500*time.Millisecond), func() {
		n.fetching = 0
		maker := n.w.nodes[o.Node-1]
		if still, ok := n.step.Wanted(); !ok || still != o || !maker.up || maker.paused || maker.checkpoint == nil || maker.checkpoint.offer != o {
			n.w.count("checkpoint gone")
			return
		}
		c := maker.checkpoint
		early := n.w.chance(10)
		n.crash(early)
		switch {
		case early:
			n.w.count("crash before a checkpoint was installed")
		case n.disk.Install(c.values, o.Index, o.Term):
			n.owed.entries = slices.Clone(n.w.committed[:o.Index]) // the checkpoint stands for them
			n.w.count("checkpoint installed")
			n.w.say("n%d installs the checkpoint of n%d up to %d", n.id, maker.id, o.Index)
		default:
			n.w.count("checkpoint overtaken")
		}
		n.restartLater()
	})
}
