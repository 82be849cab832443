package state

import "github.com/oncemq/oncemq/internal/command"

// keptReports is how many digests of a node are kept: nodes that are some entries apart
// report the same index at different times.
const keptReports = 4

// report is a node's digest after an entry [7.2].
type report struct{ index, sum uint64 }

// noteDigest keeps a node's digest and compares.
func (m *Machine) noteDigest(c *command.Digest) {
	n := m.nodes[c.Node]
	if n.reportAt(c.Index) == nil {
		if len(n.reports) == keptReports {
			copy(n.reports, n.reports[1:])
			n.reports = n.reports[:keptReports-1]
		}
		n.reports = append(n.reports, report{c.Index, c.Sum})
	}
	n.reportAt(c.Index).sum = c.Sum
	m.markNode(n)
	m.judge(c.Index)
}

func (n *node) reportAt(index uint64) *report {
	for i := range n.reports {
		if n.reports[i].index == index {
			return &n.reports[i]
		}
	}
	return nil
}

// Reported are the indexes of a node's last digests, 0 for none, in no order.
func (m *Machine) Reported(id command.NodeID) (indexes [keptReports]uint64) {
	if n := m.nodes[id]; n != nil {
		for i, r := range n.reports {
			indexes[i] = r.index
		}
	}
	return indexes
}

// judge compares the nodes' digests at one index [7.2]. Those that differ from two or more
// that agree, and are more than any others, are told. Where no two agree, or as many on one as
// on another, nobody is right: all are told, once no living node is left that could decide it.
func (m *Machine) judge(index uint64) {
	groups := make(map[uint64]int) // how many have reported a digest
	waiting := false               // for a node that lives
	ids := sortedKeys(m.nodes)
	for _, id := range ids {
		n := m.nodes[id]
		if r := n.reportAt(index); r != nil {
			groups[r.sum]++
		} else if n.epoch != 0 {
			waiting = true
		}
	}
	if len(groups) < 2 {
		return
	}
	var right uint64
	most, ties := 0, 0
	for _, sum := range sortedKeys(groups) {
		switch n := groups[sum]; {
		case n > most:
			right, most, ties = sum, n, 1
		case n == most:
			ties++
		}
	}
	judged := most >= 2 && ties == 1
	if !judged && waiting {
		return
	}
	for _, id := range ids {
		n := m.nodes[id]
		r := n.reportAt(index)
		if r == nil || judged && r.sum == right {
			continue
		}
		e := command.Effect{Kind: command.EffectDigestDiffers, Node: n.id, Epoch: n.epoch, Number: index}
		if judged {
			e.Count = uint32(most)
		}
		m.effects = append(m.effects, e)
	}
}

// judgeAgain compares once more what a node that is gone may have been waited for.
func (m *Machine) judgeAgain() {
	var newest uint64
	for _, id := range sortedKeys(m.nodes) {
		for _, r := range m.nodes[id].reports {
			newest = max(newest, r.index)
		}
	}
	if newest != 0 {
		m.judge(newest)
	}
}
