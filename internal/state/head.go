package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/selector"
)

// What decides about a message stands in its head: the sections before its body (AMQP 1.0 3.2). The head stays in memory, with its
// record, and only what follows it is read from the disk by those who hand it on [4.1].

// sections are those of a head, encoded as they came; what isn't there is nil. The slices alias the message.
type sections struct {
	header, annotations, properties, application []byte
	size                                         int // of the head in bytes
}

// Descriptor codes of the sections of a head (AMQP 1.0 3.2).
const (
	sectionHeader      = 0x70
	sectionDelivery    = 0x71
	sectionAnnotations = 0x72
	sectionProperties  = 0x73
	sectionApplication = 0x74
)

// splitHead finds the sections of a message's head. What isn't a section in its place begins the body: it is never refused here.
func splitHead(message []byte) (s sections) {
	last := byte(0)
	for {
		rest := message[s.size:]
		code, at := sectionCode(rest)
		if code < sectionHeader || code > sectionApplication || code <= last {
			return s
		}
		n := valueSize(rest[at:], 2)
		if n == 0 {
			return s
		}
		section := rest[:at+n]
		switch code {
		case sectionHeader:
			s.header = section
		case sectionAnnotations:
			s.annotations = section
		case sectionProperties:
			s.properties = section
		case sectionApplication:
			s.application = section
		case sectionDelivery:
		}
		last = code
		s.size += len(section)
	}
}

// priority is what the header says, the usual one where it says none (AMQP 1.0 3.2.1).
func (s *sections) priority() uint8 {
	if v := listField(s.header, 1); len(v) == 2 && v[0] == 0x50 {
		return v[1]
	}
	return usualPriority
}

// listField is a field of a section that is a list, encoded, nil where there is none.
func listField(section []byte, n int) []byte {
	if section == nil {
		return nil
	}
	_, at := sectionCode(section)
	list := section[at:]
	var fields []byte
	var count int
	switch {
	case len(list) >= 3 && list[0] == 0xc0:
		fields, count = list[3:], int(list[2])
	case len(list) >= 9 && list[0] == 0xd0:
		fields, count = list[9:], int(binary.BigEndian.Uint32(list[5:]))
	}
	if n >= count {
		return nil
	}
	for ; n > 0; n-- {
		size := valueSize(fields, 8)
		if size == 0 {
			return nil
		}
		fields = fields[size:]
	}
	return fields[:valueSize(fields, 8)]
}

// sectionCode is the descriptor of the section at b's front, and where its value begins; 0 where there is none.
func sectionCode(b []byte) (code byte, at int) {
	switch {
	case len(b) > 3 && b[0] == 0 && b[1] == 0x53:
		return b[2], 3
	case len(b) > 10 && b[0] == 0 && b[1] == 0x80 && binary.BigEndian.Uint64(b[2:]) <= 0xff:
		return b[9], 10
	}
	return 0, 0
}

// cell is a piece of a head in memory: heads are chains of them, so that they have no pointers and leave no gaps [5.1].
type cell struct {
	next uint32 // 0: the last
	data [cellBytes]byte
}

const cellBytes = 28

// keepHead stores a head, whose length goes before it, and returns its first cell, 0 for an empty one.
func (m *Machine) keepHead(head []byte) uint32 {
	if len(head) == 0 {
		return 0
	}
	first := m.cells.alloc()
	c := m.cells.at(first)
	n := binary.PutUvarint(c.data[:], uint64(len(head)))
	head = head[copy(c.data[n:], head):]
	for len(head) > 0 {
		c.next = m.cells.alloc()
		c = m.cells.at(c.next)
		head = head[copy(c.data[:], head):]
	}
	return first
}

// head appends a message's head to dst.
func (m *Machine) head(dst []byte, mi uint32) []byte {
	i := m.messages.at(mi).head
	if i == 0 {
		return dst
	}
	c := m.cells.at(i)
	left, n := binary.Uvarint(c.data[:])
	for piece := c.data[n:]; ; piece = c.data[:] {
		if left <= uint64(len(piece)) {
			return append(dst, piece[:left]...)
		}
		dst = append(dst, piece...)
		left -= uint64(len(piece))
		c = m.cells.at(c.next)
	}
}

// forgetHead lets a message's head go.
func (m *Machine) forgetHead(p *message) {
	for i := p.head; i != 0; {
		next := m.cells.at(i).next
		m.cells.release(i)
		i = next
	}
	p.head = 0
}

// matches says whether a message fits a selector; count is its delivery-count.
func (m *Machine) matches(f *selector.Selector, mi, count uint32) bool {
	m.headBuf = m.head(m.headBuf[:0], mi)
	s := splitHead(m.headBuf)
	return f.Match(&selector.Message{
		Header: s.header, MessageAnnotations: s.annotations, Properties: s.properties, ApplicationProperties: s.application,
		DeliveryCount: count,
	})
}
