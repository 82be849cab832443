package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// The operations of changes, as the digest sees them.
const (
	opPut = 1 + iota
	opDelete
	opDeleteRange
)

// flush writes the entry's changes: deletions first, then what is there now, then the
// clock with the digest of all before it.
func (m *Machine) flush() {
	m.hash.ResetWithSeed(m.digest)
	m.flushDeletions()
	m.flushLevel()
	m.flushTimeSet()
	m.flushSkips()
	m.flushNodes()
	m.flushMembers()
	m.flushUsers()
	m.flushSessions()
	m.flushStreams()
	m.flushWindows()
	m.flushLinks()
	m.flushMessages()
	m.flushClock()
}

// put passes a change on and into the digest. The value is in valueBuf.
func (m *Machine) put(key, value []byte) {
	m.sum(opPut, key, value)
	m.out.Put(key, value)
}

// insert is put for a key that is not there: what is deleted before long may then never be stored.
func (m *Machine) insert(key, value []byte) {
	m.sum(opPut, key, value)
	m.out.Insert(key, value)
}

// save is put for a key that is there, insert for one that is not.
func (m *Machine) save(stored bool, key, value []byte) {
	if stored {
		m.put(key, value)
	} else {
		m.insert(key, value)
	}
}

func (m *Machine) del(key []byte) {
	m.sum(opDelete, key, nil)
	m.out.Delete(key)
}

func (m *Machine) sum(op byte, key, value []byte) {
	var head [7]byte
	head[0] = op
	binary.BigEndian.PutUint16(head[1:], uint16(len(key)))
	binary.BigEndian.PutUint32(head[3:], uint32(len(value)))
	m.hash.Write(head[:])
	m.hash.Write(key)
	m.hash.Write(value)
}

// write writes an object: its deletion if it is gone, else its value.
func (m *Machine) write(o *object, key []byte, value func(dst []byte) []byte) {
	o.marked = false
	m.keyBuf = key
	switch {
	case !o.gone:
		m.valueBuf = value(m.valueBuf[:0])
		m.save(o.stored, key, m.valueBuf)
		o.stored = true
	case o.stored:
		m.del(key)
		o.stored = false
	}
}

func (m *Machine) flushDeletions() {
	d := &m.dirty
	at := 0
	for _, end := range d.goneEnds {
		m.del(d.gone[at:end])
		at = end
	}
	d.gone, d.goneEnds = d.gone[:0], d.goneEnds[:0]
	for _, r := range d.ranges {
		m.sum(opDeleteRange, r.from, r.to)
		m.out.DeleteRange(r.from, r.to)
	}
	d.ranges = emptied(d.ranges)
}

// emptied is the list for the next entry; a list grown by a rare large entry is
// dropped, and what stays keeps no pointers.
func emptied[T any](list []T) []T {
	if cap(list) > 4096 {
		return nil
	}
	clear(list)
	return list[:0]
}

func (m *Machine) flushNodes() {
	d := &m.dirty
	if d.cluster {
		d.cluster = false
		m.valueBuf = putUint(append(m.valueBuf[:0], m.cluster[:]...), uint64(m.history))
		m.valueBuf = putUint(m.valueBuf, uint64(m.lastNode))
		m.keyBuf = appendKey(m.keyBuf[:0], m.group, keyCluster)
		m.put(m.keyBuf, m.valueBuf)
	}
	for _, n := range d.nodes {
		m.write(&n.object, appendIDKey(m.keyBuf[:0], m.group, keyNode, uint64(n.id)), n.encode)
	}
	for _, n := range d.parts {
		p := &n.parts
		p.dirty = false
		if uint64(len(p.data)) > p.flushed {
			m.keyBuf = appendPartKey(m.keyBuf[:0], m.group, n.id, p.command, p.flushed)
			m.insert(m.keyBuf, p.data[p.flushed:])
			p.stored = append(p.stored, p.flushed)
			p.flushed = uint64(len(p.data))
		}
	}
	for _, c := range d.conns {
		m.write(&c.object, appendIDKey(m.keyBuf[:0], m.group, keyConn, uint64(c.id)), c.encode)
	}
	d.nodes, d.parts, d.conns = emptied(d.nodes), emptied(d.parts), emptied(d.conns)
}

func (m *Machine) flushSessions() {
	d := &m.dirty
	for _, s := range d.sessions {
		m.write(&s.object, append(appendKey(m.keyBuf[:0], m.group, keySession), s.id[:]...), s.encode)
	}
	for _, s := range d.progress {
		s.progress.gone = s.gone
		m.write(&s.progress, append(appendKey(m.keyBuf[:0], m.group, keyProgress), s.id[:]...), s.encodeProgress)
	}
	for _, o := range d.outcomes {
		at, found := o.session.findOutcome(o.number)
		if !found || o.session.gone || mutant.On(mutant.OutcomeNotStored) {
			continue
		}
		r := &o.session.outcomes[at]
		m.valueBuf = append(m.valueBuf[:0], byte(r.outcome), r.reason)
		m.valueBuf = putInt(m.valueBuf, r.civil)
		if r.reason == reasonOther {
			m.valueBuf = putString(m.valueBuf, o.session.reasons[r.number])
		}
		m.keyBuf = appendOutcomeKey(m.keyBuf[:0], m.group, o.session.id, o.number)
		m.save(r.stored, m.keyBuf, m.valueBuf)
		r.stored = true
	}
	d.sessions, d.progress, d.outcomes = emptied(d.sessions), emptied(d.progress), emptied(d.outcomes)
}

func (m *Machine) flushStreams() {
	d := &m.dirty
	for _, s := range d.streams {
		if mutant.On(mutant.StreamNotStored) && s.stored && !s.gone {
			s.marked = false
			continue
		}
		m.write(&s.object, appendIDKey(m.keyBuf[:0], m.group, keyStream, s.id), s.encode)
	}
	for _, r := range d.refusals {
		at, found := r.stream.find(r.number)
		if !found || r.stream.gone {
			continue
		}
		f := &r.stream.refused[at]
		f.stored = true
		m.valueBuf = putString(putString(m.valueBuf[:0], f.refusal.Condition), f.refusal.Description)
		m.keyBuf = appendNumberedKey(m.keyBuf[:0], m.group, keyRefusal, r.stream.id, r.number)
		m.put(m.keyBuf, m.valueBuf)
	}
	for _, s := range d.senders {
		m.write(&s.object, appendSenderKey(m.keyBuf[:0], m.group, s.conn.id, s.number), s.encode)
	}
	for _, r := range d.results {
		m.write(&r.object, appendIDKey(m.keyBuf[:0], m.group, keyResults, r.id), r.encode)
	}
	for _, k := range d.kept {
		state, ok := k.results.states[k.key]
		m.keyBuf = appendResultKey(m.keyBuf[:0], m.group, k.results.id, k.key)
		switch {
		case !ok: // also where the whole list went behind it in this entry: the end of the list deleted what was in it then
			m.del(m.keyBuf)
		case !k.results.gone:
			m.valueBuf = append(m.valueBuf[:0], byte(state))
			m.put(m.keyBuf, m.valueBuf)
		}
	}
	d.streams, d.refusals, d.senders = emptied(d.streams), emptied(d.refusals), emptied(d.senders)
	d.results, d.kept = emptied(d.results), emptied(d.kept)
}

func (m *Machine) flushLinks() {
	d := &m.dirty
	for _, a := range d.addresses {
		m.write(&a.object, appendIDKey(m.keyBuf[:0], m.group, keyQueue, uint64(a.inc)), a.encode)
	}
	for _, a := range d.places {
		a.place.gone = a.gone
		m.write(&a.place, appendIDKey(m.keyBuf[:0], m.group, keyPlace, uint64(a.inc)), a.encodePlace)
	}
	for _, s := range d.subscriptions {
		m.write(&s.object, appendIDKey(m.keyBuf[:0], m.group, keySubscription, s.id), s.encode)
	}
	for _, s := range d.positions {
		s.position.gone = s.gone
		m.write(&s.position, appendIDKey(m.keyBuf[:0], m.group, keyPosition, s.id), s.encodePosition)
	}
	for _, l := range d.links {
		m.write(&l.object, appendIDKey(m.keyBuf[:0], m.group, keyLink, l.id), l.encode)
	}
	for _, l := range d.allowances {
		l.allow.gone = l.gone
		m.write(&l.allow, appendIDKey(m.keyBuf[:0], m.group, keyAllowance, l.id), l.encodeAllowance)
	}
	d.addresses, d.places = emptied(d.addresses), emptied(d.places)
	d.subscriptions, d.positions = emptied(d.subscriptions), emptied(d.positions)
	d.links, d.allowances = emptied(d.links), emptied(d.allowances)
}

func (m *Machine) flushMessages() {
	d := &m.dirty
	for i := range d.created {
		if !d.created[i].gone {
			m.flushMessage(&d.created[i])
		}
	}
	for _, at := range d.arrived {
		if mi := m.find(at.address, at.seq); mi != 0 && !at.address.gone {
			m.encodeMessage(mi)
			m.keyBuf = appendMessageKey(m.keyBuf[:0], m.group, keyMessage, at.address.inc, at.seq)
			m.put(m.keyBuf, m.valueBuf)
		}
	}
	d.arrived = emptied(d.arrived)
	for _, at := range d.overlays {
		if mi := m.find(at.address, at.seq); mi != 0 && !at.address.gone {
			m.putOverlay(at.address.inc, at.seq, m.overlays[mi])
		}
	}
	for _, di := range d.deliveries {
		v := m.deliveries.at(di)
		v.flags &^= deliveryDirty
		if v.flags&deliveryGone != 0 {
			continue
		}
		p := m.messages.at(v.message)
		s := m.subscriptionOf(v)
		if s.address.dying {
			continue // its links are gone; what the key says doesn't matter any more
		}
		m.keyBuf = appendDeliveryKey(m.keyBuf[:0], m.group, s, p.seq)
		m.valueBuf = m.encodeDelivery(m.valueBuf[:0], di)
		m.save(v.flags&deliveryStored != 0, m.keyBuf, m.valueBuf)
		v.flags |= deliveryStored
	}
	for _, di := range d.freed {
		m.deliveries.release(di)
	}
	d.created, d.overlays = emptied(d.created), emptied(d.overlays)
	d.deliveries, d.freed = d.deliveries[:0], d.freed[:0]
}

func (m *Machine) flushMessage(c *createdMessage) {
	p := m.messages.at(c.index)
	p.fresh = 0
	inc := m.addresses[p.address].inc
	head := m.encodeMessage(c.index)
	m.keyBuf = appendMessageKey(m.keyBuf[:0], m.group, keyMessage, inc, p.seq)
	m.insert(m.keyBuf, m.valueBuf)
	if p.size&flagMoved == 0 {
		m.keyBuf = appendMessageKey(m.keyBuf[:0], m.group, keyBody, inc, p.seq)
		m.insert(m.keyBuf, c.payload[head:])
		return
	}
	from := m.moved[c.index]
	m.valueBuf = binary.BigEndian.AppendUint64(m.valueBuf[:0], uint64(from.inc))
	m.valueBuf = putBools(binary.BigEndian.AppendUint64(m.valueBuf, from.seq), from.shared)
	m.keyBuf = appendMessageKey(m.keyBuf[:0], m.group, keyMoved, inc, p.seq)
	m.insert(m.keyBuf, m.valueBuf)
	m.putOverlay(inc, p.seq, m.overlays[c.index])
}

// encodeMessage puts a message's record into valueBuf, and returns its head's length.
func (m *Machine) encodeMessage(mi uint32) (head int) {
	m.valueBuf = putUint(m.valueBuf[:0], uint64(m.messages.at(mi).size&sizeMask))
	m.valueBuf = putInt(putInt(m.valueBuf, m.expiresAt(mi)), m.due(mi))
	size := len(m.valueBuf)
	m.valueBuf = m.head(m.valueBuf, mi)
	return len(m.valueBuf) - size
}

func (m *Machine) putOverlay(inc command.Incarnation, seq uint64, overlay []byte) {
	m.keyBuf = appendMessageKey(m.keyBuf[:0], m.group, keyOverlay, inc, seq)
	m.put(m.keyBuf, overlay)
}

// flushClock ends an entry: the two times, the counters and the digest, which covers
// all of this but itself.
func (m *Machine) flushClock() {
	v := putInt(m.valueBuf[:0], m.civil.now)
	v = putInt(v, m.running)
	v = putUint(v, m.handTurn)
	c := &m.counters
	for _, n := range [...]uint64{c.LostPresettled, c.DeadLettered, c.Committed, c.RolledBack, c.Expired, c.Resent, c.ExpiredMessages} {
		v = putUint(v, n)
	}
	v = putInt(putUint(v, m.civil.sets), m.civil.shift)
	v = m.appendNext(v)
	m.keyBuf = appendKey(m.keyBuf[:0], m.group, keyClock)
	m.sum(opPut, m.keyBuf, v)
	m.digest = m.hash.Sum64()
	v = binary.BigEndian.AppendUint64(v, m.digest)
	m.out.Put(m.keyBuf, v)
	m.valueBuf = v
}
