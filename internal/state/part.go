package state

import "github.com/oncemq/oncemq/internal/command"

// parts is a node's large command under way [5.2]: one at a time. The pieces stand in
// memory and, for a restart, under keys of their own until the last one came.
type parts struct {
	command uint64
	data    []byte
	// flushed is how much of data has keys, whose offsets are stored.
	flushed uint64
	stored  []uint64
	dirty   bool
}

// maxParts bounds a large command: a transaction's 64 MiB, and what else it says.
const maxParts = command.MaxTxBytes + 8<<20

// applyPart joins a part to those before it; the last makes them a run of commands.
// What doesn't fit is dropped: the home sends parts in order, one large command at a
// time.
func (m *Machine) applyPart(c *command.Part) error {
	n := m.nodes[m.record.Node]
	if n == nil {
		return nil // a leader's own record has no parts
	}
	m.steps++
	if c.Offset == 0 || c.Command != n.parts.command {
		m.dropParts(n)
		n.parts.command = c.Command
	}
	if c.Offset != uint64(len(n.parts.data)) || len(n.parts.data)+len(c.Data) > maxParts {
		m.dropParts(n)
		return nil
	}
	n.parts.data = append(n.parts.data, c.Data...)
	m.partBytes += uint64(len(c.Data))
	if !c.Last {
		if !n.parts.dirty {
			n.parts.dirty = true
			m.dirty.parts = append(m.dirty.parts, n)
		}
		return nil
	}
	body := n.parts.data
	m.dropParts(n)
	m.inner.Reset(body)
	for c := m.inner.Next(); c != nil; c = m.inner.Next() {
		if _, nested := c.(*command.Part); !nested {
			if m.execute(c); m.fault != nil {
				return m.fault
			}
		}
	}
	return m.inner.Err()
}

// dropParts forgets a node's large command under way, and its keys.
func (m *Machine) dropParts(n *node) {
	for _, offset := range n.parts.stored {
		m.dirty.gone = appendPartKey(m.dirty.gone, m.group, n.id, n.parts.command, offset)
		m.deleteKey()
	}
	m.partBytes -= uint64(len(n.parts.data))
	dirty := n.parts.dirty
	n.parts = parts{dirty: dirty}
}
