package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/oncemq/oncemq/internal/command"
)

// maxTemporary bounds the temporary nodes of one connection: they all go in the entry that ends it [4.2].
const maxTemporary = 1024

// temporary is what a temporary queue has besides. Only the connection that owns it may consume from it, anybody may send to it. It goes,
// with all its messages, when the link that made it is detached, or with its connection. A dying one has none of this any more.
type temporary struct {
	owner *conn
	maker uint32 // number of the link that made it
	// senders are those attached to it, by connection and number: they are told when it goes.
	senders []*sender
}

// reservedName says whether only the broker makes such a name.
func reservedName(name string) bool {
	return strings.HasPrefix(name, command.TemporaryQueuePrefix) || strings.HasPrefix(name, command.TemporaryTopicPrefix)
}

// temporaryName is the name of a new temporary queue: its incarnation, and what those who don't have the cluster's seed can't guess. It
// derives from the log alone, and tells the histories of a restored cluster apart, whose incarnations may be equal.
func (m *Machine) temporaryName(inc command.Incarnation) string {
	b := append([]byte(command.TemporaryQueuePrefix), m.userSeed[:]...)
	b = append(b, m.cluster[:]...)
	b = binary.BigEndian.AppendUint16(b, m.history)
	b = binary.BigEndian.AppendUint64(b, uint64(inc))
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%s%016x-%x", command.TemporaryQueuePrefix, uint64(inc), sum[:8])
}

// checkDynamic checks the making of a temporary node.
func (m *Machine) checkDynamic(kind command.Dynamic, address string, c *conn) *command.Refusal {
	switch {
	case kind != command.DynamicQueue:
		return refusal(condNotImplemented, "a dynamic node that is no queue isn't supported")
	case address != "":
		return refusal(condInvalid, "a dynamic node's address is made by the broker, %+.300q was asked for", address)
	case len(c.temporary) >= maxTemporary:
		return refusal(condLimit, "%d temporary queues are on this connection; close some of the links that made them", maxTemporary)
	}
	return nil
}

// checkOwner refuses consumers of other connections.
func checkOwner(a *address, c *conn) *command.Refusal {
	if a != nil && a.temporary != nil && a.temporary.owner != c {
		return refusal(condLocked, "%s belongs to another connection, which alone may receive from it", a.name)
	}
	return nil
}

// addTemporary makes a temporary queue.
func (m *Machine) addTemporary(inc command.Incarnation, c *conn, maker uint32) *address {
	a := m.addAddress(inc, m.temporaryName(inc), command.Anycast)
	a.own(c, maker)
	return a
}

// own makes a a temporary queue of c.
func (a *address) own(c *conn, maker uint32) {
	a.temporary = &temporary{owner: c, maker: maker}
	c.temporary = append(c.temporary, a) // incarnations rise
}

func compareSenders(a, b *sender) int {
	return cmp.Or(cmp.Compare(a.conn.id, b.conn.id), cmp.Compare(a.number, b.number))
}

// joinTemporary notes that x sends to a, which is temporary.
func (x *sender) joinTemporary(a *address) {
	x.address = a
	t := a.temporary
	at, _ := slices.BinarySearchFunc(t.senders, x, compareSenders)
	t.senders = slices.Insert(t.senders, at, x)
}

// leaveTemporary undoes joinTemporary.
func (x *sender) leaveTemporary() {
	if x.address == nil {
		return
	}
	t := x.address.temporary
	if at, found := slices.BinarySearchFunc(t.senders, x, compareSenders); found {
		t.senders = slices.Delete(t.senders, at, at+1)
	}
	x.address = nil
}

// endMaker deletes the temporary queue that a link has made, if it has made one: the link is detached, or another one takes its name.
func (m *Machine) endMaker(c *conn, number uint32) {
	for _, a := range slices.Clone(c.temporary) {
		if a.temporary.maker == number {
			m.removeAddress(a, func(other *conn, of uint32) bool { return other != c || of != number })
		}
	}
}

// checkMaker refuses to attach a link in the place of the one that made the queue that it is to be attached to, which would go with that.
func checkMaker(p *plan, name string, sender bool) *command.Refusal {
	if p.address == nil || p.address.temporary == nil || p.address.temporary.owner != p.conn || p.session == nil {
		return nil
	}
	maker := p.address.temporary.maker
	l, x := p.conn.links[maker], p.conn.senders[maker]
	if !sender && l != nil && p.session.links[name] == l || sender && x != nil && x.stream != nil && p.session.streams[name] == x.stream {
		return refusal(condIllegal, "the link %+.300q has made %s, which goes with it: attach to it by a link of another name", name, p.address.name)
	}
	return nil
}

// endTemporaries deletes the temporary queues of a connection that ends. It comes before the end of the links: what they hold goes with
// their queues, and nothing waits for a session to resume.
func (m *Machine) endTemporaries(c *conn) {
	for _, a := range slices.Clone(c.temporary) {
		m.removeAddress(a, func(other *conn, _ uint32) bool { return other != c })
	}
}

// dropTemporary takes what makes a temporary off it, and tells its senders where told says so.
func (m *Machine) dropTemporary(a *address, told func(c *conn, link uint32) bool) {
	t := a.temporary
	if t == nil {
		return
	}
	a.temporary = nil
	t.owner.temporary = slices.DeleteFunc(t.owner.temporary, func(x *address) bool { return x == a })
	for _, x := range t.senders {
		if told(x.conn, x.number) {
			m.tellDeleted(x.conn, x.number, a)
		}
		x.address = nil
		if x.stream == nil {
			m.dropSender(x.conn, x)
		} else {
			m.markSender(x)
		}
		m.steps++
	}
}

// tellDeleted tells a link that its queue is gone.
func (m *Machine) tellDeleted(c *conn, number uint32, a *address) {
	e := m.tell(c, command.EffectLinkEnded)
	e.Link = number
	e.Refusal = refusal(condDeleted, "the %s %q was deleted", a.routing(), a.name)
}
