package state

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// window is the resend window of one sender link (C9, the third kind): the message-ids that were stored over it last. Qpid JMS
// says a send again by itself, under its message-id, over a link that it has attached anew behind a lost connection; what the window has
// from before that attachment is accepted and not stored a second time. It belongs to (principal, container-id, link name,
// address), is made by the link's first attachment, and lives while there is one; behind the loss of the last one for a day. A link that is closed,
// alone or with its session or connection, is never attached again: its window goes.
type window struct {
	object
	id     uint64 // entry index and place of its first attachment
	client *client
	key    windowKey
	// attached are the living attachments, by id: one, but for clients that hold several connections under one container-id.
	attached []*attachment
	// until is when it is forgotten, in civil time; 0 while it is attached.
	until int64
	timer [2]int // places in Machine.lost and in its user's, from 1
	ids   []storedID
	next  uint64 // how many ids it ever had: the next one's place is next % windowSize
	// fresh are the places to be written, onDisk those that have a key, as bits.
	fresh, onDisk uint64
	listed        bool // in dirty.ids
}

// windowKey is a window's within its client.
type windowKey struct{ link, address string }

// attachment is one attachment of a window's link to a connection.
type attachment struct {
	window *window
	conn   *conn
	number uint32 // of the link on it
	id     uint64 // entry index and place
}

// storedID is the message-id of a message that was stored.
type storedID struct {
	sum  idSum
	over uint64 // the attachment that it came over
}

// idSum stands for a message-id, exactly as it was encoded: two that differ have no sum in common that anybody could find.
type idSum [16]byte

// Bounds: the ids of a window, and the windows of lost connections of one user; of more the one that was lost first goes.
const (
	windowSize  = 64
	maxUserLost = 10_000
)

func (w *window) moment(int) int64          { return w.until }
func (w *window) before(other *window) bool { return w.id < other.id }
func (w *window) place(which int) *int      { return &w.timer[which] }

// has says whether the window knows an id from other attachments than the named one: within an attachment a client says nothing again,
// and what it sends twice it means twice.
func (w *window) has(sum idSum, over uint64) bool {
	for i := range w.ids {
		if w.ids[i].over != over && w.ids[i].sum == sum {
			return true
		}
	}
	return false
}

// messageID is a message's message-id as it is encoded, nil where it has none.
func messageID(message []byte) []byte {
	properties := splitHead(message).properties
	_, at := sectionCode(properties)
	list := properties[at:]
	switch {
	case len(list) > 3 && list[0] == 0xc0 && list[2] > 0:
		list = list[3:]
	case len(list) > 9 && list[0] == 0xd0 && binary.BigEndian.Uint32(list[5:]) > 0:
		list = list[9:]
	default:
		return nil
	}
	n := valueSize(list, 1)
	if n == 0 || list[0] == 0x40 {
		return nil
	}
	return list[:n]
}

// resent says whether a send repeats one that was stored over an earlier attachment of its link. If not, the plan knows what is to be
// remembered once it is stored.
func (m *Machine) resent(c *command.Send, p *plan) bool {
	a := p.conn.attached[c.Link]
	if a == nil || c.Number != 0 {
		return false
	}
	id := messageID(c.Message)
	if id == nil {
		return false
	}
	sum := sha256.Sum256(id)
	p.attachment, p.sum = a, idSum(sum[:])
	return a.window.has(p.sum, a.id) && !mutant.On(mutant.ResendStored)
}

// remember notes the id of a message that is stored in the same step.
func (m *Machine) remember(p *plan) {
	if p.attachment == nil || p.address.topic && p.address.living == 0 { // nobody subscribes, and nothing is stored
		return
	}
	w := p.attachment.window
	at := w.next % windowSize
	if at == uint64(len(w.ids)) {
		w.ids = append(w.ids, storedID{})
		m.kept += storedIDCost
	}
	w.ids[at] = storedID{sum: p.sum, over: p.attachment.id}
	w.next++
	w.fresh |= 1 << at
	if !w.listed {
		w.listed = true
		m.dirty.ids = append(m.dirty.ids, w)
	}
}

// attachWindow attaches a link to its window, which is made where there is none, and says whether it has ids of earlier attachments.
func (m *Machine) attachWindow(c *conn, number uint32, name, address string) bool {
	id := command.IndexPlace(m.index, m.place)
	key := windowKey{name, address}
	w := c.client.windows[key]
	if w == nil {
		w = &window{id: id, client: c.client, key: key}
		m.addWindow(w)
	}
	for _, a := range slices.Clone(w.attached) {
		if a.conn == c { // a link of the same name on the same connection takes its place
			m.detachWindow(a)
		}
	}
	m.setLost(w, 0)
	w.attach(&attachment{window: w, conn: c, number: number, id: id})
	m.markWindow(w)
	m.steps++
	return len(w.ids) > 0
}

// addWindow puts a new or loaded window into the tables.
func (m *Machine) addWindow(w *window) {
	if w.client.windows == nil {
		w.client.windows = make(map[windowKey]*window)
	}
	w.client.windows[w.key] = w
	m.windows[w.id] = w
}

// attach adds the newest attachment.
func (w *window) attach(a *attachment) {
	if a.conn.attached == nil {
		a.conn.attached = make(map[uint32]*attachment)
	}
	a.conn.attached[a.number] = a
	w.attached = append(w.attached, a) // ids rise
}

// detachWindow ends an attachment, and nothing else.
func (m *Machine) detachWindow(a *attachment) {
	w := a.window
	delete(a.conn.attached, a.number)
	w.attached = slices.DeleteFunc(w.attached, func(x *attachment) bool { return x == a })
	m.markWindow(w)
	m.steps++
}

// endAttachment ends an attachment. Where the link is closed, and nobody else has it, its window goes; else it waits for the next attachment.
func (m *Machine) endAttachment(a *attachment, closed bool) {
	w := a.window
	m.detachWindow(a)
	switch {
	case len(w.attached) > 0:
	case closed || len(w.ids) == 0:
		m.dropWindow(w)
	default:
		m.setLost(w, m.civil.kept()+retention)
	}
}

// endAttachments ends those of a connection.
func (m *Machine) endAttachments(c *conn, closed bool) {
	for _, number := range sortedKeys(c.attached) {
		m.endAttachment(c.attached[number], closed)
	}
}

// setLost sets when a window is forgotten, within its user's bound; 0: it is attached.
func (m *Machine) setLost(w *window, until int64) {
	if w.until == until {
		return
	}
	w.until = until
	m.orderLost(w)
	m.markWindow(w)
	if of := m.lostOf[w.client.key.principal]; of != nil && len(of.heap) > m.maxLost {
		m.dropWindow(of.heap[0])
	}
}

// orderLost puts a window where its moment belongs, among all and among its user's.
func (m *Machine) orderLost(w *window) {
	m.lost.update(w, w.gone)
	user := w.client.key.principal
	of := m.lostOf[user]
	if of == nil {
		of = &timers[*window]{which: 1}
		m.lostOf[user] = of
	}
	if of.update(w, w.gone); len(of.heap) == 0 {
		delete(m.lostOf, user)
	}
}

// dropWindow forgets a window that is not attached.
func (m *Machine) dropWindow(w *window) {
	w.gone = true
	m.orderLost(w)
	delete(w.client.windows, w.key)
	delete(m.windows, w.id)
	m.releaseClient(w.client)
	m.kept -= storedIDCost * uint64(len(w.ids))
	for at := range w.ids {
		if w.onDisk&(1<<at) != 0 {
			m.dirty.gone = appendStoredIDKey(m.dirty.gone, m.group, w.id, at)
			m.deleteKey()
			m.steps++
		}
	}
	m.markWindow(w)
	m.steps++
}

// forgetLost forgets the windows whose time is over, earliest first, within the entry's work [4.2].
func (m *Machine) forgetLost() {
	for m.lost.next() <= m.civil.kept() && m.steps < m.maxSteps/2 {
		m.dropWindow(m.lost.heap[0])
	}
}

func (m *Machine) markWindow(w *window) {
	if w.mark() {
		m.dirty.windows = append(m.dirty.windows, w)
	}
}

func appendStoredIDKey(dst []byte, group uint16, window uint64, at int) []byte {
	return append(appendIDKey(dst, group, keyStoredID, window), byte(at))
}

func (w *window) encode(dst []byte) []byte {
	dst = putString(putString(dst, w.client.key.principal), w.client.key.container)
	dst = putString(putString(dst, w.key.link), w.key.address)
	dst = putInt(dst, w.until)
	dst = putUint(dst, uint64(len(w.attached)))
	for _, a := range w.attached {
		dst = putUint(dst, uint64(a.conn.id))
		dst = putUint(dst, uint64(a.number))
		dst = putUint(dst, a.id)
	}
	return dst
}

// flushWindows writes the windows, and of their ids those that are new.
func (m *Machine) flushWindows() {
	d := &m.dirty
	for _, w := range d.windows {
		m.write(&w.object, appendIDKey(m.keyBuf[:0], m.group, keyWindow, w.id), w.encode)
	}
	for _, w := range d.ids {
		w.listed = false
		for at := 0; at < len(w.ids) && !w.gone; at++ {
			bit := uint64(1) << at
			if w.fresh&bit == 0 {
				continue
			}
			// The number of the id is what its place says, and the rounds that came before.
			number := w.next - 1 - (w.next-1-uint64(at))%windowSize
			m.valueBuf = append(putUint(m.valueBuf[:0], number), w.ids[at].sum[:]...)
			m.valueBuf = putUint(m.valueBuf, w.ids[at].over)
			m.keyBuf = appendStoredIDKey(m.keyBuf[:0], m.group, w.id, at)
			m.save(w.onDisk&bit != 0, m.keyBuf, m.valueBuf)
		}
		w.onDisk |= w.fresh
		w.fresh = 0
	}
	d.windows, d.ids = emptied(d.windows), emptied(d.ids)
}

func (m *loader) window(kind byte, k, v *fields) error {
	id := k.be64()
	if kind == keyStoredID {
		w := m.windows[id]
		if w == nil {
			return missing("the resend window")
		}
		at := k.byte()
		if int(at) != len(w.ids) {
			return missing("the id before the one")
		}
		w.next = max(w.next, v.uint()+1)
		w.ids = append(w.ids, storedID{sum: v.id16(), over: v.uint()})
		w.onDisk |= 1 << at
		m.kept += storedIDCost
		return nil
	}
	w := &window{object: object{stored: true}, id: id}
	w.client = m.client(clientKey{v.string(), v.string()})
	w.key = windowKey{v.string(), v.string()}
	w.until = v.int()
	for range min(v.uint(), uint64(len(v.b))) {
		a := &attachment{window: w, conn: m.conns[command.ConnID(v.uint())], number: uint32(v.uint()), id: v.uint()}
		if a.conn == nil {
			return missing("the connection")
		}
		w.attach(a)
	}
	m.addWindow(w)
	m.orderLost(w)
	return nil
}
