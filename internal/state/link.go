package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// link is a consumer. It lives on a connection, waits detached for its session to
// resume, or has ended and still holds deliveries: for a job to give back, or enlisted
// in open transactions.
type link struct {
	object
	allow   object // the second record: messages, bytes, handed
	id      uint64 // entry index and place of its opening
	slot    uint32
	sub     *subscription
	conn    *conn // nil: detached, or ending
	number  uint32
	session *session // nil for links of generic clients
	name    string
	// presettled: what was written is gone (C13).
	presettled bool
	// ended: detached by LinkEnd; it gets nothing more.
	ended bool
	// lost is how its deliveries go back when the session's grace is over.
	lost endRule
	// ending is how a job gives its deliveries back; 0 while none does.
	ending endRule
	// charged: the oldest delivery of a lost connection has its failure.
	charged bool

	filter *filter // its selector, nil: none

	messages uint32 // allowance [3.4]
	bytes    uint64
	handed   uint64 // hand-outs ever
	told     uint64 // deliveries that its home was told of since LinkOpened

	first, last uint32 // its deliveries, oldest hand-out first
	held        uint32
}

// endRule says how the deliveries of a link that ends go back (C8, C13).
type endRule uint8

const (
	ruleClosed   endRule = 1 + iota // first-acquirer is cleared, the count left
	ruleConnLost                    // counted; the oldest is a failure
	ruleHomeLost                    // counted; none is a failure
	ruleForced                      // as ruleHomeLost, by a home that lives and knows what it wrote
)

func (l *link) ready() bool {
	return l.messages > 0 && l.bytes > 0 && l.conn != nil && !l.ended && l.ending == 0
}

// addLink gives a link a slot and its place at its subscription.
func (m *Machine) addLink(l *link) {
	if n := len(m.freeLink); n > 0 {
		l.slot = m.freeLink[n-1]
		m.freeLink = m.freeLink[:n-1]
		m.links[l.slot] = l
	} else {
		l.slot = uint32(len(m.links))
		m.links = append(m.links, l)
	}
	m.linkByID[l.id] = l
	l.sub.refs++
	insertLink(&l.sub.address.all, l)
	if !l.ended && l.ending == 0 {
		m.joinSubscription(l)
	}
	if l.conn != nil {
		l.conn.links[l.number] = l
	}
}

// joinSubscription makes a link one of its subscription's living ones.
func (m *Machine) joinSubscription(l *link) {
	insertLink(&l.sub.links, l)
	if l.filter != nil {
		insertLink(&l.sub.filtered, l)
		l.filter.begin(l.sub.address)
	}
}

func insertLink(in *[]*link, l *link) {
	at, found := slices.BinarySearchFunc(*in, l.id, func(x *link, id uint64) int { return compare(x.id, id) })
	if !found {
		*in = slices.Insert(*in, at, l)
	}
}

func removeLink(in *[]*link, l *link) bool {
	at, found := slices.BinarySearchFunc(*in, l.id, func(x *link, id uint64) int { return compare(x.id, id) })
	if found {
		*in = slices.Delete(*in, at, at+1)
	}
	return found
}

// openable checks what consumers and senders have in common and finds the queue,
// which is nil where the command will make it.
func (m *Machine) openable(p *plan, number uint32, id command.SessionID, name, address string, create bool, routing command.Routing) *command.Refusal {
	switch {
	case m.place > lastPlace:
		return refusal(condLimit, "too many commands in one entry; attach again")
	case p.conn.links[number] != nil || p.conn.senders[number] != nil || p.conn.attached[number] != nil || number == 0:
		return refusal(condIllegal, "link number %d is in use on this connection", number)
	case len(name) > 4096:
		return refusal(condInvalid, "a link name of %d bytes is too long", len(name))
	}
	if !id.IsZero() {
		s := m.sessions[id]
		if s == nil || s.conn != p.conn {
			return refusal(condNotAllowed, "session %s isn't open on this connection", id)
		}
		p.session = s
	}
	if address == "" && !create {
		return nil
	}
	p.address = m.byName[address]
	switch {
	case p.address != nil:
		if is := p.address.routing(); routing != command.AnyRouting && routing != is {
			return refusal(condNotAllowed, "%q is a %s, no %s", address, is, routing)
		}
	case routing == command.Multicast && isDead(address):
		return refusal(condNotAllowed, "%.300q can't be the name of a topic: dead letters have a queue", address)
	case reservedName(address):
		return refusal(condNotFound, "there is no %+.300q: a temporary node goes with the connection that made it, and isn't made by its name", address)
	case !validName(address):
		return refusal(condNotAllowed, "%.300q can't be the name of a queue: 1 to 255 bytes of UTF-8 without control characters, no $, temp-queue: or temp-topic: in front", address)
	case !create:
		return refusal(condNotFound, "there is no queue %q", address)
	}
	return nil
}

// replaceLink ends a session's link whose name a new one takes. One that has ended
// and still holds what is enlisted in transactions stays for those.
func (m *Machine) replaceLink(old *link) {
	if old.ended && old.conn != nil {
		delete(old.session.links, old.name)
		m.markLink(old)
		return
	}
	rule := old.lost
	if old.conn != nil {
		rule = ruleClosed
		if old.presettled {
			rule = ruleHomeLost // its home had no say in it: what it may have written is counted (C13)
		}
		m.stolen(old.conn, old.number)
		m.endMaker(old.conn, old.number)
		if old.gone {
			return
		}
	}
	m.endLink(old, rule)
}

func (m *Machine) stolen(c *conn, number uint32) {
	e := m.tell(c, command.EffectLinkEnded)
	e.Link = number
	e.Refusal = refusal(condStolen, "the same session has attached a link of the same name")
}

// resume answers each entry of a client's unsettled map [3.3] and marks what it has
// seen.
func (m *Machine) resume(l *link, c *command.LinkOpen) []command.Resumed {
	if len(c.Unsettled) == 0 {
		return nil
	}
	all := make([]command.Resumed, 0, len(c.Unsettled))
	for _, u := range c.Unsettled {
		r := command.Resumed{Unsettled: u, State: command.WasLost}
		if mutant.On(mutant.AbsentAccepted) {
			r.State = command.WasAccepted
		}
		if di := m.held(l, u.Ref); di != 0 && u.Incarnation == l.sub.address.inc {
			r.State = command.StillHeld
			d := m.deliveries.at(di)
			d.flags |= deliverySeen | deliveryMarked
			d.told = 0
			m.markDelivery(di)
		} else if l.session != nil {
			if kept := l.session.results[l.name]; kept != nil {
				if state, ok := kept.states[resultKey{u.Incarnation, u.Ref.Message, u.Ref.Attempt}]; ok {
					r.State = state
				}
			}
		}
		m.steps++
		all = append(all, r)
	}
	return all
}

// sendUnseen sends what the link holds and resume has not marked: the client has
// proven that it never saw them (wire.md).
func (m *Machine) sendUnseen(l *link) {
	for di := l.first; di != 0; di = m.deliveries.at(di).next {
		if d := m.deliveries.at(di); d.flags&deliveryMarked != 0 {
			d.flags &^= deliveryMarked
			continue
		}
		m.deliver(l, di)
		m.markDelivery(di)
		m.steps++
	}
}

func (m *Machine) changeLinkEnd(c *command.LinkEnd, p *plan) {
	l := p.link
	if m.endMaker(p.conn, c.Link); l.gone {
		return
	}
	m.giveUnwritten(l, c.Unwritten)
	m.giveUnreceived(l, c.Received)
	if l.gone { // it had ended before and holds nothing any more
		return
	}
	if !c.Closed && !l.presettled { // on a pre-settled link all the rest was written: gone (C13)
		m.stopLink(l)
		m.emptied(l)
		return
	}
	if s := l.session; s != nil && s.links[l.name] == l {
		if r := s.results[l.name]; r != nil {
			m.dropResults(r)
		}
	}
	m.splitEnlisted(l, c.Enlisted)
	if sub := l.sub; c.Terminus && sub.slot != 0 && sub.is.Durable && !slices.ContainsFunc(sub.links, func(x *link) bool { return x != l }) {
		m.endSubscription(sub) // AMQP 2.6.4: what is closed is gone
	}
	m.endLink(l, ruleClosed)
}

// stopLink takes a link out of all hand-outs; what it holds stays.
func (m *Machine) stopLink(l *link) {
	m.setAllowance(l, 0, 0)
	if !l.ended {
		l.ended = true
		m.markLink(l)
		m.leaveSubscription(l)
	}
}

// leaveSubscription takes a link off its subscription's living ones.
func (m *Machine) leaveSubscription(l *link) {
	if l.filter != nil {
		removeLink(&l.sub.filtered, l)
		l.filter.scan, l.filter.matched = nil, nil
	}
	if removeLink(&l.sub.links, l) && !l.sub.address.dying && len(l.sub.picky) > 0 {
		m.forgetExclusions(l.sub)
	}
}

// splitEnlisted moves deliveries that are enlisted in open transactions to an ended
// link of the same number, which keeps them until those are decided.
func (m *Machine) splitEnlisted(l *link, refs []command.DeliveryRef) {
	var stub *link
	for _, ref := range refs {
		di := m.held(l, ref)
		if di == 0 || m.place > lastPlace {
			continue
		}
		if stub == nil {
			stub = &link{
				id: command.IndexPlace(m.index, m.place), sub: l.sub, number: l.number,
				session: l.session, name: l.name, presettled: l.presettled, ended: true,
			}
		}
		if stub.slot == 0 {
			m.addLink(stub)
		}
		m.unchain(l, di)
		m.chain(stub, di)
		stub.handed++
		m.deliveries.at(di).order = stub.handed
		m.markDelivery(di)
		m.steps++
	}
	if stub == nil {
		return
	}
	c := l.conn
	m.unlinkConn(l)
	stub.conn = c
	c.links[stub.number] = stub
	if s := l.session; s != nil && s.links[l.name] == l {
		s.links[l.name] = stub
	}
	m.markLink(stub)
	m.markAllowance(stub)
}

// unlinkConn takes a link off its connection.
func (m *Machine) unlinkConn(l *link) {
	if l.conn != nil && l.conn.links[l.number] == l {
		delete(l.conn.links, l.number)
	}
	l.conn = nil
}

// detachLink makes a link wait for its session; rule is how its deliveries go back if
// that doesn't come.
func (m *Machine) detachLink(l *link, rule endRule) {
	m.setAllowance(l, 0, 0)
	m.unlinkConn(l)
	l.lost = rule
	m.markLink(l)
	m.steps++
}

// endLink ends a link for good; a job gives back what it holds.
func (m *Machine) endLink(l *link, rule endRule) {
	m.setAllowance(l, 0, 0)
	m.leaveSubscription(l)
	m.unlinkConn(l)
	if s := l.session; s != nil && s.links[l.name] == l {
		delete(s.links, l.name)
	}
	l.session = nil
	m.steps++
	m.markLink(l)
	if l.held == 0 {
		m.dropLink(l)
		return
	}
	l.ending = rule
	l.sub.returning++
	insertLink(&m.ending, l)
}

// dropLink forgets a link that holds nothing.
func (m *Machine) dropLink(l *link) {
	if l.gone {
		return
	}
	l.gone = true
	m.links[l.slot] = nil
	m.freeLink = append(m.freeLink, l.slot)
	delete(m.linkByID, l.id)
	removeLink(&l.sub.address.all, l)
	m.markLink(l)
	m.markAllowance(l)
	l.sub.refs--
	m.release(l.sub)
}

// emptied forgets a link that had ended and now holds nothing. (An ending one is its
// job's business.)
func (m *Machine) emptied(l *link) {
	if !l.ended || l.held != 0 || l.ending != 0 {
		return
	}
	m.unlinkConn(l)
	if s := l.session; s != nil && s.links[l.name] == l {
		delete(s.links, l.name)
	}
	m.dropLink(l)
}

// setAllowance sets what may be handed out to a link.
func (m *Machine) setAllowance(l *link, messages uint32, bytes uint64) {
	if l.messages == messages && l.bytes == bytes {
		return
	}
	l.messages, l.bytes = messages, bytes
	m.markAllowance(l)
	if l.ready() {
		insertLink(&l.sub.ready, l)
		m.touch(l.sub)
	} else {
		removeLink(&l.sub.ready, l)
	}
}

// Bounds of an allowance: more than a home ever grants.
const (
	maxAllowMessages = 1 << 20
	maxAllowBytes    = 1 << 32
)

func (m *Machine) changeAllow(c *command.Allow, p *plan) {
	l := p.link
	if l.ended {
		return
	}
	m.setAllowance(l, min(l.messages+min(c.Messages, maxAllowMessages), maxAllowMessages),
		min(l.bytes+min(c.Bytes, maxAllowBytes), maxAllowBytes))
}

func (m *Machine) changeWithdraw(c *command.Withdraw, p *plan) {
	if l := p.link; l != nil {
		m.setAllowance(l, 0, 0)
		m.giveUnwritten(l, c.Unwritten)
		if !mutant.On(mutant.WithdrawPartly) {
			m.giveUnreceived(l, c.Received)
		}
	}
	e := m.tell(p.conn, command.EffectWithdrawn)
	e.Link, e.Request = c.Link, c.Request
}
