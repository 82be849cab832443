package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
)

// object is the book-keeping of a thing with a key of its own.
type object struct {
	marked bool // stands in a list of dirty
	stored bool // has a key on disk
	gone   bool // forgotten: the key has to go
}

// mark says whether the object must be put into its list.
func (o *object) mark() bool {
	if o.marked {
		return false
	}
	o.marked = true
	return true
}

// dirty is what an entry has touched. flush writes what is left of it at the entry's
// end, so that what comes and goes within one entry costs no key.
type dirty struct {
	cluster       bool
	configuration bool
	members       []*member
	tokens        []*joinToken
	nodes         []*node
	parts         []*node
	seed          bool
	users         []*user
	conns         []*conn
	sessions      []*session
	progress      []*session
	outcomes      []outcomeAt
	streams       []*stream
	refusals      []refusalAt
	senders       []*sender
	windows       []*window
	ids           []*window // with ids to be written
	results       []*results
	kept          []resultAt
	addresses     []*address
	places        []*address
	subscriptions []*subscription
	positions     []*subscription
	links         []*link
	allowances    []*link
	created       []createdMessage
	overlays      []messageAt
	arrived       []messageAt
	deliveries    []uint32
	freed         []uint32 // deliveries to be released
	// gone are keys to be deleted, one behind the other; goneEnds are their ends. Ranges
	// likewise.
	gone     []byte
	goneEnds []int
	ranges   []keyRange
}

type outcomeAt struct {
	session *session
	number  uint64
}

type refusalAt struct {
	stream *stream
	number uint64
}

type resultAt struct {
	results *results
	key     resultKey
}

type messageAt struct {
	address *address
	seq     uint64
}

type createdMessage struct {
	index   uint32 // slab index
	gone    bool   // dropped in the same entry
	payload []byte // nil for a dead letter
}

func (m *Machine) markNode(n *node) {
	if n.mark() {
		m.dirty.nodes = append(m.dirty.nodes, n)
	}
}

func (m *Machine) markConn(c *conn) {
	if c.mark() {
		m.dirty.conns = append(m.dirty.conns, c)
	}
}

func (m *Machine) markSession(s *session) {
	if s.mark() {
		m.dirty.sessions = append(m.dirty.sessions, s)
	}
}

func (m *Machine) markProgress(s *session) {
	if s.progress.mark() {
		m.dirty.progress = append(m.dirty.progress, s)
	}
}

func (m *Machine) markStream(s *stream) {
	if s.mark() {
		m.dirty.streams = append(m.dirty.streams, s)
	}
}

func (m *Machine) markSender(s *sender) {
	if s.mark() {
		m.dirty.senders = append(m.dirty.senders, s)
	}
}

func (m *Machine) markResults(r *results) {
	if r.mark() {
		m.dirty.results = append(m.dirty.results, r)
	}
}

func (m *Machine) markAddress(a *address) {
	if a.mark() {
		m.dirty.addresses = append(m.dirty.addresses, a)
	}
}

func (m *Machine) markPlace(a *address) {
	if a.place.mark() {
		m.dirty.places = append(m.dirty.places, a)
	}
}

func (m *Machine) markSubscription(s *subscription) {
	if s.mark() {
		m.dirty.subscriptions = append(m.dirty.subscriptions, s)
	}
}

// markPosition is for what moves in a subscription: a queue's stands in its address's place.
func (m *Machine) markPosition(s *subscription) {
	switch {
	case s.slot == 0:
		m.markPlace(s.address)
	case s.position.mark():
		m.dirty.positions = append(m.dirty.positions, s)
	}
}

func (m *Machine) markLink(l *link) {
	if l.mark() {
		m.dirty.links = append(m.dirty.links, l)
	}
}

func (m *Machine) markAllowance(l *link) {
	if l.allow.mark() {
		m.dirty.allowances = append(m.dirty.allowances, l)
	}
}

func (m *Machine) markCreated(index uint32, payload []byte) {
	m.dirty.created = append(m.dirty.created, createdMessage{index: index, payload: payload})
	m.messages.at(index).fresh = uint32(len(m.dirty.created))
}

func (m *Machine) markDelivery(di uint32) {
	d := m.deliveries.at(di)
	if d.flags&deliveryDirty == 0 {
		d.flags |= deliveryDirty
		m.dirty.deliveries = append(m.dirty.deliveries, di)
	}
}

// deleteKey notes that the key built from the end of the last one on has to go.
func (m *Machine) deleteKey() { m.dirty.goneEnds = append(m.dirty.goneEnds, len(m.dirty.gone)) }

func (m *Machine) deleteMessageKey(kind byte, inc command.Incarnation, seq uint64) {
	m.dirty.gone = appendMessageKey(m.dirty.gone, m.group, kind, inc, seq)
	m.deleteKey()
}

func (m *Machine) deleteDeliveryKey(s *subscription, seq uint64) {
	m.dirty.gone = appendDeliveryKey(m.dirty.gone, m.group, s, seq)
	m.deleteKey()
}

func (m *Machine) deleteNumbered(kind byte, id, number uint64) {
	m.dirty.gone = appendNumberedKey(m.dirty.gone, m.group, kind, id, number)
	m.deleteKey()
}

func (m *Machine) deleteOutcomeKey(id command.SessionID, number uint64) {
	m.dirty.gone = appendOutcomeKey(m.dirty.gone, m.group, id, number)
	m.deleteKey()
}

// deleteUnder notes that all keys of a kind that begin with id have to go.
func (m *Machine) deleteUnder(kind byte, id uint64) {
	from := appendIDKey(nil, m.group, kind, id)
	m.deleteRange(from, after(from))
}

// keyRange are the keys from <= key < to.
type keyRange struct{ from, to []byte }

// deleteRange notes that all keys of a range have to go; the slices are kept. Puts of the same entry come later.
func (m *Machine) deleteRange(from, to []byte) {
	m.dirty.ranges = append(m.dirty.ranges, keyRange{from, to})
}

func appendIDKey(dst []byte, group uint16, kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(appendKey(dst, group, kind), id)
}

func appendNumberedKey(dst []byte, group uint16, kind byte, id, number uint64) []byte {
	return binary.BigEndian.AppendUint64(appendIDKey(dst, group, kind, id), number)
}

func appendOutcomeKey(dst []byte, group uint16, id command.SessionID, number uint64) []byte {
	dst = append(appendKey(dst, group, keyOutcome), id[:]...)
	return binary.BigEndian.AppendUint64(dst, number)
}

func appendPartKey(dst []byte, group uint16, id command.NodeID, number, offset uint64) []byte {
	return binary.BigEndian.AppendUint64(appendNumberedKey(dst, group, keyPart, uint64(id), number), offset)
}

// appendDeliveryKey: subscription 0 is a queue's only one.
func appendDeliveryKey(dst []byte, group uint16, s *subscription, seq uint64) []byte {
	dst = appendIDKey(dst, group, keyDelivery, uint64(s.address.inc))
	id := s.id
	if s.slot == 0 {
		id = 0
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, id), seq)
}

func appendSenderKey(dst []byte, group uint16, conn command.ConnID, number uint32) []byte {
	return binary.BigEndian.AppendUint32(appendIDKey(dst, group, keySender, uint64(conn)), number)
}

func appendResultKey(dst []byte, group uint16, id uint64, k resultKey) []byte {
	dst = appendNumberedKey(dst, group, keyResult, id, uint64(k.inc))
	dst = binary.BigEndian.AppendUint64(dst, k.message)
	return binary.BigEndian.AppendUint32(dst, k.attempt)
}
