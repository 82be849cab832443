package state

import (
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// node is a member that has spoken at least once.
type node struct {
	object
	id    command.NodeID
	epoch command.Epoch // 0: none now
	last  uint64        // number of its last record applied, in this epoch
	nonce [16]byte      // of its last NodeUp
	level uint32        // the highest that its binary knows [7.1]
	// reports are its last digests, in the order in which they came.
	reports []report
	disk    command.Room // as it said last
	memory  uint64       // bytes of state that it has memory for, 0: it didn't say

	parts parts
}

// checkSystem is for commands of the leader's own records.
func (m *Machine) checkSystem(c command.Command) verdict {
	switch c := c.(type) {
	case *command.NodeUp:
		// A repeat of an epoch that has ended does nothing: the node asks anew, with another
		// nonce [1.2]. Who isn't a member, or leaves, has no life here.
		if n := m.nodes[c.Node]; m.members[c.Node] == nil || m.outside(m.members[c.Node]) || n != nil && n.nonce == c.Nonce && n.epoch == 0 {
			return ignore
		}
		if c.Level < m.level.number { // a binary that can't go on from here [7.1]
			return ignore
		}
	case *command.NodeDown:
		if n := m.nodes[c.Node]; n == nil || n.epoch == 0 || n.epoch != c.Epoch {
			return ignore
		}
	case *command.ClusterInit:
		if m.founded && c.History <= m.history {
			return ignore
		}
	case *command.Digest:
		if m.nodes[c.Node] == nil {
			return ignore
		}
	case *command.NodeRoom:
		if n := m.nodes[c.Node]; n == nil || n.disk == c.Disk && n.memory == c.Memory {
			return ignore
		}
	case *command.MemberGone:
		if !m.outside(m.members[c.Node]) {
			return ignore
		}
	case *command.Tick:
	default:
		return m.checkNext(c)
	}
	return act
}

func (m *Machine) changeSystem(c command.Command) {
	switch c := c.(type) {
	case *command.NodeUp:
		m.nodeUp(c)
	case *command.NodeDown:
		n := m.nodes[c.Node]
		m.endEpoch(n)
		m.judgeAgain()
		m.effects = append(m.effects, command.Effect{Kind: command.EffectNodeDown, Node: n.id, Epoch: c.Epoch, Number: uint64(c.Epoch)})
	case *command.ClusterInit:
		if !m.founded {
			if m.fault = m.found(c); m.fault != nil {
				return
			}
		}
		m.begin(c)
	case *command.Tick:
		m.ticked = true
	case *command.Digest:
		m.noteDigest(c)
	case *command.NodeRoom:
		n := m.nodes[c.Node]
		n.disk, n.memory = c.Disk, c.Memory
		m.markNode(n)
	case *command.MemberGone:
		m.dropMember(m.members[c.Node])
	default:
		m.changeNext(c)
	}
}

// nodeUp begins a node's epoch [1.2]. A repeated nonce gets the same one.
func (m *Machine) nodeUp(c *command.NodeUp) {
	n := m.nodes[c.Node]
	if n == nil {
		n = &node{id: c.Node}
		m.nodes[c.Node] = n
	}
	if n.epoch == 0 || n.nonce != c.Nonce {
		m.endEpoch(n)
		n.epoch, n.last, n.nonce = command.Epoch(m.index), 0, c.Nonce
	}
	n.level = c.Level
	m.markNode(n)
	m.announced(m.members[c.Node], &c.Announcement)
	m.effects = append(m.effects, command.Effect{Kind: command.EffectNodeUp, Node: n.id, Epoch: n.epoch, Number: uint64(n.epoch), Detail: n.nonce})
}

// endEpoch ends a node's epoch with all its connections: nobody reports what they had
// written (C8). Parts end with it [5.2].
func (m *Machine) endEpoch(n *node) {
	if n.epoch == 0 {
		return
	}
	for _, id := range sortedKeys(m.conns) {
		if c := m.conns[id]; c.node == n.id && !mutant.On(mutant.ConnOutlivesEpoch) {
			m.endConn(c, endHomeLost)
		}
	}
	m.dropParts(n)
	n.epoch, n.last = 0, 0
	m.markNode(n)
}
