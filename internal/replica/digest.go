package replica

import (
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/peer"
)

// digestAgain is how often a digest is told to the leader that the state hasn't got yet.
const digestAgain = 2 * time.Second

// digests are this node's digests that are on their way into the state [7.2]: a leader that changes, or isn't
// known yet, loses what it was told.
type digests struct {
	waiting []peer.Note // the oldest first, at most as many as the state keeps
	at      time.Duration
}

func (d *digests) add(n peer.Note) {
	if len(d.waiting) == len(progress{}.reported) {
		d.waiting = d.waiting[1:]
	}
	d.waiting = append(d.waiting, n)
	d.at = 0
}

// reported drops what the state has.
func (d *digests) reported(indexes [4]uint64) {
	if len(d.waiting) > 0 {
		d.waiting = slices.DeleteFunc(d.waiting, func(n peer.Note) bool { return slices.Contains(indexes[:], n.Index) })
	}
}

func (d *digests) wake() time.Duration {
	if len(d.waiting) == 0 {
		return 0
	}
	return d.at
}

// digestTimer tells the leader what the state lacks.
func (c *core) digestTimer() {
	d := &c.digests
	if len(d.waiting) == 0 || c.lead == 0 || c.now < d.at {
		return
	}
	d.at = c.now + digestAgain
	for _, n := range d.waiting {
		c.tellLeader(n)
	}
}
