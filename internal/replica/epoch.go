package replica

import (
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
)

const (
	// silence is how long a leader has neither heard nor answered a node before it ends its
	// epoch; longer than leaseLength [3.8].
	silence = 1500 * time.Millisecond
	// askEvery is how often a node asks for its epoch.
	askEvery = 200 * time.Millisecond
	// downEvery is how often NodeDown is proposed for the same node.
	downEvery = 300 * time.Millisecond
	// refusedFor is how long a refused dial counts.
	refusedFor = 3 * time.Second
	// Three NodeDowns of a living process within flapWindow: it waits flapPause [1.2].
	flapWindow = 10 * time.Second
	flapPause  = 5 * time.Second
	// closeAfterLag and closeAfterLeaseless are when a home gives its clients up [3.5, 3.8].
	closeAfterLag       = 10 * time.Second
	closeAfterLeaseless = 5 * time.Second
	// notReadyLag is the lag from which a node isn't ready.
	notReadyLag = 2 * time.Second
)

// epochs is both sides of the nodes' lives [1.2]: this node asks for its own epoch, and as
// leader it begins and ends everybody's.
type epochs struct {
	askAt  time.Duration // when to ask (again)
	ended  []time.Duration
	ending bool // the apply goroutine was told to give the clients up

	since  map[uint64]time.Duration // when a node was heard or answered last
	leased map[uint64]time.Duration // when a node was answered last: its lease may last from then
	downs  map[uint64]nodeDown      // its NodeDown that was proposed last
	// refused[n] is which nodes, this one included, had a dial of n refused, and when.
	refused map[uint64]map[uint64]time.Duration
}

// nodeDown is a NodeDown on its way.
type nodeDown struct {
	epoch command.Epoch
	at    time.Duration
}

func newEpochs() epochs {
	return epochs{
		since: map[uint64]time.Duration{}, leased: map[uint64]time.Duration{}, downs: map[uint64]nodeDown{},
		refused: map[uint64]map[uint64]time.Duration{},
	}
}

// setNodes changes who the other nodes are. A new one counts as heard of now.
func (e *epochs) setNodes(others []uint64, now time.Duration) {
	for n := range e.since {
		if !slices.Contains(others, n) {
			delete(e.since, n)
			delete(e.leased, n)
			delete(e.downs, n)
			delete(e.refused, n)
		}
	}
	for _, n := range others {
		if _, ok := e.since[n]; !ok {
			e.since[n] = now
		}
	}
}

func (e *epochs) heard(node uint64, now time.Duration) { e.since[node] = now }

// answered notes a read barrier's answer to a node: its lease may last from then [3.8].
func (e *epochs) answered(node uint64, now time.Duration) { e.since[node], e.leased[node] = now, now }

// elected counts everybody's silence and lease anew: what the former leader has answered isn't known.
func (e *epochs) elected(now time.Duration) {
	e.forgive(now)
	clear(e.downs)
	for n := range e.since {
		e.leased[n] = now
	}
}

// unleased says that a node's lease is over, if it has had none since.
func (e *epochs) unleased(node uint64, now time.Duration) bool {
	at, ok := e.leased[node]
	return !ok || now-at >= silence
}

func (e *epochs) forgive(now time.Duration) {
	for n := range e.since {
		e.since[n] = now
	}
}

// refusedDial notes that node who had its dial of node refused.
func (e *epochs) refusedDial(node, who uint64, now time.Duration) {
	if e.refused[node] == nil {
		e.refused[node] = map[uint64]time.Duration{}
	}
	e.refused[node][who] = now
}

// dooms reports that the end of that epoch has been proposed. Until it is applied the node gets no answer to a barrier: it would
// be granted a lease from before an end that is already under way, and others would get what it goes on to write [3.8].
func (e *epochs) dooms(node uint64, epochs []nodeEpoch) bool {
	down, ok := e.downs[node]
	return ok && slices.Contains(epochs, nodeEpoch{command.NodeID(node), down.epoch})
}

// gone reports that two nodes were refused by it: its process is gone. (In a cluster of
// two there is no second witness; there are none of two.)
func (e *epochs) gone(node uint64, now time.Duration) bool {
	n := 0
	for _, at := range e.refused[node] {
		if now-at < refusedFor {
			n++
		}
	}
	return n >= 2
}

// epochTimers asks for this node's epoch and, on the leader, ends those of dead nodes.
func (c *core) epochTimers() {
	c.ownEpoch()
	if !c.leads() {
		return
	}
	for _, ne := range c.progress.epochs {
		node := uint64(ne.node)
		if node == c.self {
			continue
		}
		doomed := c.epochs.dooms(node, c.progress.epochs) // what was proposed may have been dropped
		if !doomed && !c.epochs.gone(node, c.now) && c.now-c.epochs.since[node] < silence {
			continue
		}
		if doomed && c.now-c.epochs.downs[node].at < downEvery {
			continue
		}
		c.epochs.downs[node] = nodeDown{ne.epoch, c.now}
		c.logger.Warn("ending a node's epoch", "node", node, "epoch", uint64(ne.epoch),
			"gone", c.epochs.gone(node, c.now), "silent for", c.now-c.epochs.since[node])
		c.propose(&command.NodeDown{Node: ne.node, Epoch: ne.epoch})
	}
}

// propose queues a command of the leader's own, in a system record.
func (c *core) propose(cmd command.Command) { c.packer.system = append(c.packer.system, cmd) }

// ownEpoch asks for an epoch while there is none, and gives up one that has become useless.
func (c *core) ownEpoch() {
	epoch, nonce, wanted := c.home.life()
	if epoch != 0 {
		c.giveUp()
		return
	}
	c.epochs.ending = false
	if c.progress.members.outside(c.self) || !wanted || c.lead == 0 || !c.safety && !c.leads() || c.now < c.epochs.askAt || c.lag.of(c.now) > notReadyLag {
		return
	}
	c.epochs.askAt = c.now + askEvery
	c.tellLeader(peer.Note{Kind: peer.NoteNodeUp, Nonce: nonce, Data: command.AppendAnnouncement(nil, &c.announcement)})
}

// giveUp closes the clients of a home that lags or has no lease for too long.
func (c *core) giveUp() {
	reason := ""
	switch {
	case c.epochs.ending:
	case !c.safety && !c.leads():
		reason = "safety is off and this node isn't the leader; try another node"
	case c.lag.of(c.now) > closeAfterLag:
		reason = "this node is too far behind the cluster; try another node"
	case c.barriers.leaseless(c.now) > closeAfterLeaseless:
		reason = "this node reaches no majority of the cluster; try another node"
	}
	if reason != "" {
		c.epochs.ending = true
		c.out.applies = append(c.out.applies, applyJob{kind: jobEndEpoch, reason: reason})
	}
}

// epochEnded notes the end of this node's epoch by NodeDown: the third within 10 s is
// followed by a pause, since something is wrong with this node.
func (c *core) epochEnded() {
	e := &c.epochs
	e.ended = append(e.ended, c.now)
	if n := len(e.ended); n >= 3 {
		if c.now-e.ended[n-3] < flapWindow {
			e.askAt = c.now + flapPause
			c.logger.Warn("this node's epoch was ended three times within 10 s; pausing", "for", flapPause)
			e.ended = nil
			return
		}
		e.ended = e.ended[n-2:]
	}
}

// nodeUp proposes a node's epoch, but for one that is on its way.
func (c *core) nodeUp(node uint64, note peer.Note) {
	for _, s := range c.packer.system {
		if up, ok := s.(*command.NodeUp); ok && up.Nonce == note.Nonce {
			return
		}
	}
	announcement, err := command.DecodeAnnouncement(note.Data)
	if err != nil {
		c.logger.Error("a node announces itself in a way that can't be read", "node", node, "error", err)
		return
	}
	delete(c.epochs.refused, node)
	c.propose(&command.NodeUp{Node: command.NodeID(node), Nonce: note.Nonce, Announcement: announcement})
}

// note takes a peer's note.
func (c *core) note(e *event) {
	n := e.note
	switch n.Kind {
	case peer.NoteNodeUp:
		if c.leads() {
			c.nodeUp(e.from, n)
		}
	case peer.NoteNodeDown:
		if c.leads() {
			c.propose(&command.NodeDown{Node: command.NodeID(e.from), Epoch: command.Epoch(n.Index)})
		}
	case peer.NoteRefused:
		c.epochs.refusedDial(n.Node, e.from, c.now)
	case peer.NoteClock:
		c.clock.sample(e.from, n.Clock, c.now)
	case peer.NoteCut:
		if c.out.lost = c.acknowledged(n.Index, e.from); c.out.lost != nil {
			return
		}
		c.cutIndex = max(c.cutIndex, n.Index)
		c.out.cut = c.cutIndex
	case peer.NoteTransfer:
		c.handOver(n.Node)
	case peer.NoteDigest:
		if c.leads() {
			c.propose(&command.Digest{Node: command.NodeID(e.from), Index: n.Index, Sum: n.Number})
		}
	case peer.NoteRoom:
		c.roomSaid(e.from, n)
	case peer.NoteCommit:
		c.learnCommit(&n)
	}
}
