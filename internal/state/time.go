package state

import "github.com/oncemq/oncemq/internal/command"

// civilTime is the log's civil time [4.5]. It never goes back but by SetTime.
type civilTime struct {
	now int64 // ms since 1970
	// sets counts the SetTimes. A stamp by a leader that hadn't applied the last of them
	// doesn't count: it would bring the former time back.
	sets uint64
	// shift is what all SetTimes together have taken away: now + shift never jumps by
	// them. Retention is measured in that, so that what is kept for a day is kept for a
	// day, however civil time is set meanwhile.
	shift int64

	last  TimeSet
	dirty bool // last
}

// TimeSet is what is kept of the last SetTime, for people.
type TimeSet struct {
	// Index is the entry's, 0: there was none. From and To are civil times in ms.
	Index    uint64
	From, To int64
	Node     command.NodeID // that it was asked of
	By       string
}

// stamp takes an entry's civil time.
func (t *civilTime) stamp(h command.EntryHeader) {
	if h.Sets == t.sets {
		t.now = max(t.now, h.Civil)
	}
}

// kept is the time that retention is measured in.
func (t *civilTime) kept() int64 { return t.now + t.shift }

// due is the civil time at which a moment of kept comes.
func (t *civilTime) due(kept int64) int64 {
	if kept == Never {
		return Never
	}
	return kept - t.shift
}

// TimeSet is the last SetTime.
func (m *Machine) TimeSet() TimeSet { return m.civil.last }

// Stamp is what the next leader's stamps begin from: times that are not lower, and the
// number of SetTimes.
func (m *Machine) Stamp() command.EntryHeader {
	return command.EntryHeader{Civil: m.civil.now, Running: m.running, Sets: m.civil.sets}
}

func (m *Machine) checkSetTime(c *command.SetTime, p *plan) verdict {
	switch {
	case c.Civil <= 0 || c.Civil >= command.MaxCivil:
		return p.refuse(refusal(condNotAllowed, "civil time can't be %d ms since 1970: it must be after that and before the year 9999", c.Civil))
	case len(c.By) > command.MaxBy:
		return p.refuse(refusal(condNotAllowed, "a name of %d bytes; %d are possible", len(c.By), command.MaxBy))
	}
	return act
}

func (m *Machine) changeSetTime(c *command.SetTime) {
	t := &m.civil
	from := t.now
	t.shift += from - c.Civil
	t.now = c.Civil
	t.sets++
	t.last, t.dirty = TimeSet{Index: m.index, From: from, To: c.Civil, Node: m.record.Node, By: c.By}, true
	for _, hash := range sortedKeys(m.tokens) {
		m.spendToken(m.tokens[hash]) // whose end was said in the former time
	}
	e := m.tellAsker(nil, command.EffectCluster)
	e.Request, e.Civil = c.Request, from
	for _, id := range m.Nodes() {
		m.effects = append(m.effects, command.Effect{
			Kind: command.EffectTimeSet, Node: id, Epoch: m.nodes[id].epoch, Civil: c.Civil, Number: t.sets, Reason: c.By,
		})
	}
}

func (m *Machine) flushTimeSet() {
	t := &m.civil
	if !t.dirty {
		return
	}
	t.dirty = false
	v := putUint(m.valueBuf[:0], t.last.Index)
	v = putInt(putInt(v, t.last.From), t.last.To)
	m.valueBuf = putString(putUint(v, uint64(t.last.Node)), t.last.By)
	m.keyBuf = appendKey(m.keyBuf[:0], m.group, keyTimeSet)
	m.put(m.keyBuf, m.valueBuf)
}

func (m *loader) timeSet(v *fields) {
	m.civil.last = TimeSet{Index: v.uint(), From: v.int(), To: v.int(), Node: command.NodeID(v.uint()), By: v.string()}
}
