//go:build nextlevel

package state

import "github.com/oncemq/oncemq/internal/command"

// nextState is what the next feature level keeps besides, for tests of upgrades: how many
// entries and how many of its own commands there were. So every entry's changes differ
// from the former level's, and a node that goes by its binary instead of the state's level
// is found out.
type nextState struct{ entries, censuses uint64 }

func (m *Machine) appendNext(v []byte) []byte {
	if m.level.number < command.Level {
		return v
	}
	m.next.entries++
	return putUint(putUint(v, m.next.entries), m.next.censuses)
}

func (m *loader) loadNext(v *fields) {
	if m.level.number >= command.Level && len(v.b) > 8 {
		m.next = nextState{v.uint(), v.uint()}
	}
}

// Censuses counts the commands of the next level.
func (m *Machine) Censuses() uint64 { return m.next.censuses }

func (m *Machine) checkNext(c command.Command) verdict {
	if _, ok := c.(*command.Census); ok {
		return act
	}
	return ignore
}

func (m *Machine) changeNext(c command.Command) {
	if _, ok := c.(*command.Census); ok {
		m.next.censuses++
	}
}
