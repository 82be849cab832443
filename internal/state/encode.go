package state

import "encoding/binary"

// The values of stored records; load.go reads them back. docs/format/state.md draws
// them.

func (n *node) encode(dst []byte) []byte {
	dst = putUint(dst, uint64(n.epoch))
	dst = putUint(dst, n.last)
	dst = append(dst, n.nonce[:]...)
	dst = putUint(dst, uint64(n.level))
	dst = putUint(dst, uint64(len(n.reports)))
	for _, r := range n.reports {
		dst = binary.BigEndian.AppendUint64(putUint(dst, r.index), r.sum)
	}
	dst = append(dst, byte(n.disk))
	return putUint(dst, n.memory)
}

func (c *conn) encode(dst []byte) []byte {
	dst = putUint(dst, uint64(c.node))
	dst = putUint(dst, uint64(c.epoch))
	dst = putUint(dst, c.local)
	dst = putString(dst, c.client.key.principal)
	dst = putString(dst, c.client.key.container)
	dst = append(dst, c.nonce[:]...)
	dst = putUint(dst, uint64(c.attempt))
	return putBools(dst, c.sole)
}

func (s *session) encode(dst []byte) []byte {
	dst = putBools(dst, s.rollback, s.token, s.ended)
	dst = putString(dst, s.principal)
	if s.token {
		return dst
	}
	dst = putString(dst, s.client.key.container)
	dst = append(dst, s.process[:]...)
	dst = append(dst, s.open[:]...)
	var conn uint64
	if s.conn != nil {
		conn = uint64(s.conn.id)
	}
	dst = putUint(dst, conn)
	return putInt(dst, s.graceUntil)
}

func (s *session) encodeProgress(dst []byte) []byte {
	dst = putInt(dst, s.retainUntil)
	dst = putUint(dst, s.last)
	dst = putUint(dst, s.through)
	dst = putUint(dst, uint64(len(s.unknown)))
	var before uint64
	for _, n := range s.unknown {
		dst = putUint(dst, n-before)
		before = n
	}
	return dst
}

func (s *stream) encode(dst []byte) []byte {
	dst = append(dst, s.session.id[:]...)
	dst = putUint(dst, s.last)
	return putString(dst, s.name)
}

func (x *sender) encode(dst []byte) []byte {
	var stream, inc uint64
	if x.stream != nil {
		stream = x.stream.id
	}
	if x.address != nil {
		inc = uint64(x.address.inc)
	}
	return putUint(putUint(dst, stream), inc)
}

func (r *results) encode(dst []byte) []byte {
	return putString(append(dst, r.session.id[:]...), r.name)
}

func (a *address) encode(dst []byte) []byte {
	dst = putString(putBools(dst, a.dying, a.topic, a.temporary != nil), a.name)
	if t := a.temporary; t != nil {
		dst = putUint(putUint(dst, uint64(t.owner.id)), uint64(t.maker))
	}
	return dst
}

func (a *address) encodePlace(dst []byte) []byte {
	s := a.queue
	dst = putUint(dst, uint64(len(a.lanes)))
	for _, next := range a.lanes {
		dst = putUint(append(dst, byte(next>>laneBits)), next&laneMask)
	}
	return s.encodePosition(dst)
}

func (s *subscription) encodePosition(dst []byte) []byte {
	if s.dying {
		dst = putUint(dst, s.left)
	} else {
		dst = putUint(dst, s.turn)
	}
	dst = putUint(dst, uint64(s.purgeGen))
	for i := range s.lanes {
		ln := &s.lanes[i]
		for _, n := range [...]uint64{ln.cursor, ln.from, ln.to} {
			dst = putUint(dst, n&laneMask)
		}
		dst = putUint(dst, ln.taken)
	}
	return dst
}

func (s *subscription) encode(dst []byte) []byte {
	dst = putUint(dst, uint64(s.address.inc))
	dst = putBools(dst, s.dying, s.ending, s.is.Durable, s.is.Shared, s.is.Global, s.is.NoLocal)
	dst = putString(dst, s.is.Name)
	dst = putString(dst, s.key.principal)
	dst = putString(dst, s.key.container)
	return append(dst, s.filter.bytes()...)
}

func (l *link) encode(dst []byte) []byte {
	dst = putUint(dst, uint64(l.sub.address.inc))
	if l.sub.slot != 0 {
		dst = putUint(dst, l.sub.id)
	} else {
		dst = putUint(dst, 0)
	}
	var conn uint64
	if l.conn != nil {
		conn = uint64(l.conn.id)
	}
	dst = putUint(dst, conn)
	dst = putUint(dst, uint64(l.number))
	named := l.session != nil && l.session.links[l.name] == l
	dst = putBools(dst, l.presettled, l.ended, l.charged, l.session != nil, named, l.filter != nil)
	dst = append(dst, byte(l.lost), byte(l.ending))
	if l.session != nil {
		dst = append(dst, l.session.id[:]...)
	}
	dst = putString(dst, l.name)
	if l.filter != nil {
		dst = append(dst, l.filter.encoded...)
	}
	return dst
}

func (l *link) encodeAllowance(dst []byte) []byte {
	dst = putUint(dst, uint64(l.messages))
	dst = putUint(dst, l.bytes)
	dst = putUint(dst, l.handed)
	dst = putUint(dst, l.told)
	if l.filter != nil {
		for _, scan := range l.filter.scan {
			dst = putUint(dst, scan&laneMask)
		}
	}
	return dst
}

func (m *Machine) encodeDelivery(dst []byte, di uint32) []byte {
	d := m.deliveries.at(di)
	var link uint64
	if d.link != 0 {
		link = m.links[d.link].id
	}
	dst = putUint(dst, link)
	dst = putUint(dst, d.order)
	dst = putUint(dst, d.told)
	dst = putUint(dst, uint64(d.attempt))
	dst = putUint(dst, uint64(d.count))
	dst = putUint(dst, uint64(d.failures))
	dst = putUint(dst, uint64(d.gen))
	dst = append(dst, d.flags&(deliverySeen|deliverySkipped|deliveryDelayed))
	e := m.excluded[di]
	dst = putUint(dst, uint64(e.n))
	for _, id := range e.link[:e.n] {
		dst = putUint(dst, id)
	}
	return dst
}
