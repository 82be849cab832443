package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// A new history begins where the log of the old one can't be believed to be all that was promised: behind the restore of a
// backup, and behind a forced recovery (C1, [2.2], [8.7]). What it means is one entry, the same for both: every home is lost, no
// node is known, and no session of the old history is found any more, so that whatever is asked of its transactions is answered
// Expired (C5). Queues, messages and users stay.

// begin gives the cluster its identity, or another one with a higher history.
func (m *Machine) begin(c *command.ClusterInit) {
	if m.founded {
		for _, id := range sortedKeys(m.nodes) {
			n := m.nodes[id]
			m.endEpoch(n)
			delete(m.nodes, id)
			n.gone = true
			m.markNode(n)
		}
	}
	m.cluster, m.history, m.founded = c.Cluster, c.History, true
	m.dirty.cluster = true
	m.foundMembers(c.Voters)
	m.former = append(m.former, sortedSessions(m.sessions)...) // some of a still earlier history may be left
	slices.SortFunc(m.former, compareSessions)
	m.leaveTables()
}

// sortedSessions is sortedKeys for sessions.
func sortedSessions(in map[command.SessionID]*session) []*session {
	all := make([]*session, 0, len(in))
	for _, s := range in {
		all = append(all, s)
	}
	slices.SortFunc(all, compareSessions)
	return all
}

// leaveTables takes the former sessions out of the tables. They may be a million, so forgetting them is a job [4.2]; what they
// hold goes back to its queues with it.
func (m *Machine) leaveTables() {
	for _, s := range m.former {
		if s.former {
			continue
		}
		s.former = true
		delete(m.sessions, s.id)
		if cl := s.client; cl != nil {
			delete(cl.sessions, clientNonce{s.process, s.open})
			m.releaseClient(cl)
		}
	}
}

// forgetFormer goes on with the sessions of earlier histories until m.steps reaches limit.
func (m *Machine) forgetFormer(limit int) {
	n := 0
	for ; n < len(m.former) && m.steps < limit; n++ {
		s := m.former[n]
		if s.gone { // its time was over before its turn came
			continue
		}
		m.steps += 1 + len(s.outcomes) + len(s.streams) + len(s.results)
		m.forgetSession(s)
	}
	if m.former = m.former[n:]; len(m.former) == 0 {
		m.former = nil
	}
}
