package state

import (
	"fmt"

	"github.com/oncemq/oncemq/internal/command"
)

// level is the feature level at which the state is [7.1]: all behaviour that has ever
// changed hangs on it. Before ClusterInit it is the binary's, and nothing hangs on it.
type level struct {
	number  uint32
	version string // of the binary that raised it, for people
	dirty   bool
}

// Level is the state's feature level, and the version of the binary that raised it.
func (m *Machine) Level() (level uint32, version string) { return m.level.number, m.level.version }

// checkLevel refuses to go on with a command that came with a later level than the
// state's. An older binary doesn't know the command and stops: so must this one.
func (m *Machine) checkLevel(c command.Command) error {
	if of := command.LevelOf(c.Kind()); of > m.level.number {
		return fmt.Errorf("%w: a command of kind %d, which belongs to feature level %d, while the cluster is at %d: it was written against the rules; please report it",
			ErrState, c.Kind(), of, m.level.number)
	}
	return nil
}

// found takes the level at which a cluster begins.
func (m *Machine) found(c *command.ClusterInit) error {
	if err := command.CheckLevel(c.Level, c.Version); err != nil {
		return stored(err)
	}
	m.setLevel(c.Level, c.Version)
	return nil
}

func (m *Machine) setLevel(number uint32, version string) {
	m.level = level{number: number, version: version, dirty: true}
}

func (m *Machine) checkFinalize(c *command.Finalize, p *plan) verdict {
	switch {
	case c.Level == m.level.number:
		return act // said again
	case c.Level != m.level.number+1:
		return p.refuse(refusal(condPrecondition, "the cluster is at feature level %d: it can be raised to %d, not to %d", m.level.number, m.level.number+1, c.Level))
	case len(c.Version) > command.MaxVersion:
		return p.refuse(refusal(condNotAllowed, "a version's name of %d bytes; %d are possible", len(c.Version), command.MaxVersion))
	}
	for _, x := range m.Members() {
		switch {
		case x.Leaving || x.Level >= c.Level:
		case x.Level == 0:
			return p.refuse(refusal(condPrecondition, "node %d (%s) has not been up since it became a member, so what it runs isn't known", x.ID, x.Name))
		default:
			return p.refuse(refusal(condPrecondition,
				"node %d (%s) runs a version that knows feature levels up to %d: have it run the new one too, and finalize then", x.ID, x.Name, x.Level))
		}
	}
	return act
}

// changeFinalize raises the level. A binary that doesn't know the new one stops here,
// before it has changed anything.
func (m *Machine) changeFinalize(c *command.Finalize) {
	repeat := c.Level == m.level.number
	if !repeat {
		if err := command.CheckLevel(c.Level, c.Version); err != nil {
			m.fault = stored(err)
			return
		}
		m.setLevel(c.Level, c.Version)
	}
	e := m.tellAsker(nil, command.EffectCluster)
	e.Request, e.Existed = c.Request, repeat
}

// flushLevel writes the level's key, which comes before all others, so that a start
// meets it before anything that it couldn't read. Its encoding never changes.
func (m *Machine) flushLevel() {
	if !m.level.dirty {
		return
	}
	m.level.dirty = false
	m.keyBuf = appendKey(m.keyBuf[:0], m.group, keyLevel)
	m.valueBuf = putString(putUint(m.valueBuf[:0], uint64(m.level.number)), m.level.version)
	m.put(m.keyBuf, m.valueBuf)
}

func (m *loader) loadLevel(v *fields) error {
	m.level = level{number: uint32(v.uint()), version: v.string()}
	if v.err != nil {
		return nil // the caller says so
	}
	if err := command.CheckLevel(m.level.number, m.level.version); err != nil {
		return stored(err)
	}
	return nil
}
