package state

import "github.com/oncemq/oncemq/internal/command"

func (m *loader) senderLink(id command.ConnID, k, v *fields) error {
	s := &sender{object: object{stored: true}, conn: m.conns[id], number: k.be32()}
	stream, inc := v.uint(), command.Incarnation(v.uint())
	if stream != 0 {
		s.stream = m.streams[stream]
	}
	if s.conn == nil || stream != 0 && s.stream == nil {
		return missing("the connection or sender link")
	}
	s.conn.senders[s.number] = s
	if inc != 0 {
		m.senders[inc] = append(m.senders[inc], s)
	}
	return nil
}

func (m *loader) temporary(a *address, v *fields) error {
	owner, maker := m.conns[command.ConnID(v.uint())], uint32(v.uint())
	if owner == nil {
		return missing("the connection")
	}
	a.own(owner, maker)
	for _, s := range m.senders[a.inc] {
		s.joinTemporary(a)
	}
	delete(m.senders, a.inc)
	return nil
}
