package state

import (
	"bytes"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// keyOf is the identity of a subscription of a connection's.
func keyOf(c *conn, s *command.Subscription) subscriptionKey {
	key := subscriptionKey{principal: c.client.key.principal, name: s.Name, durable: s.Durable}
	if !s.Global {
		key.container = c.client.key.container
	}
	return key
}

// wanted is what a consumer asks for, without what means nothing.
func wanted(s command.Subscription) command.Subscription {
	if !s.Named() {
		return command.Subscription{NoLocal: s.NoLocal}
	}
	return s
}

// maxSubscriptions bounds the subscriptions of a topic.
const maxSubscriptions = 100_000

// checkSubscribe finds which subscription a consumer of a topic reads: an identity's, or none yet. It may have to be replaced (replace).
func (m *Machine) checkSubscribe(c *command.LinkOpen, p *plan) *command.Refusal {
	is := &c.Subscription
	if p.address != nil && p.address.living >= maxSubscriptions {
		return refusal(condLimit, "topic %q has %d subscriptions; end some", c.Address, maxSubscriptions)
	}
	if !is.Named() {
		return nil
	}
	if is.Name == "" || len(is.Name) > 4096 {
		return refusal(condInvalid, "a durable or shared subscription has a name of 1 to 4,096 bytes, not %d", len(is.Name))
	}
	s := m.named[keyOf(p.conn, is)]
	if s == nil {
		return nil
	}
	if s.address == p.address && s.is == *is && bytes.Equal(s.filter.bytes(), c.Filter) {
		p.subscription = s
		return nil
	}
	if s.attached() > 0 {
		return refusal(condLocked, "subscription %q is in use, with another topic, selector, no-local or sharing: end its consumers first", s.fullName())
	}
	p.replace = s
	return nil
}

// checkFind finds the subscription that a consumer without an address means: JMS ends a durable subscription so.
func (m *Machine) checkFind(c *command.LinkOpen, p *plan) *command.Refusal {
	is := c.Subscription
	is.Durable = true
	s := m.named[keyOf(p.conn, &is)]
	switch {
	case s == nil:
		return refusal(condNotFound, "there is no durable subscription %q here", is.Name)
	case s.attached() > 0:
		return refusal(condLocked, "subscription %q is in use: end its consumers first", s.fullName())
	}
	p.subscription, p.address = s, s.address
	return nil
}

// subscribe is the subscription that the plan of a LinkOpen found, or a new one.
func (m *Machine) subscribe(a *address, c *command.LinkOpen, p *plan) *subscription {
	if p.replace != nil {
		m.endSubscription(p.replace)
	}
	if s := p.subscription; s != nil {
		if !s.is.Shared {
			for _, l := range slices.Clone(s.links) {
				m.takeOver(l)
			}
		}
		return s
	}
	s := &subscription{id: command.IndexPlace(m.index, m.place), address: a}
	s.is, s.filter = wanted(c.Subscription), p.filter
	if s.is.Named() || s.is.NoLocal {
		s.key = keyOf(p.conn, &s.is)
	}
	for _, next := range a.lanes {
		s.lanes = append(s.lanes, lane{cursor: next})
	}
	m.addSubscription(s)
	m.markSubscription(s)
	m.markPosition(s)
	return s
}

// takeOver ends an unshared subscription's link for a newcomer.
func (m *Machine) takeOver(l *link) {
	rule := ruleClosed
	if l.conn != nil {
		if l.presettled {
			rule = ruleHomeLost
		}
		m.stolen(l.conn, l.number)
	} else if l.lost != 0 {
		rule = l.lost
	}
	m.endLink(l, rule)
}

// addSubscription gives a topic's subscription a slot and its places.
func (m *Machine) addSubscription(s *subscription) {
	if n := len(m.freeSubscription); n > 0 {
		s.slot = m.freeSubscription[n-1]
		m.freeSubscription = m.freeSubscription[:n-1]
		m.subscriptions[s.slot] = s
	} else {
		s.slot = uint32(len(m.subscriptions))
		m.subscriptions = append(m.subscriptions, s)
	}
	m.subscriptionByID[s.id] = s
	a := s.address
	a.subs = append(a.subs, s) // ids rise
	if s.is.NoLocal {
		a.noLocal = append(a.noLocal, s)
	}
	if s.over() {
		return
	}
	a.living++
	if s.is.Named() && !s.ending {
		m.named[s.key] = s
	}
}

// endSubscription frees a subscription's identity; it goes with its last link.
func (m *Machine) endSubscription(s *subscription) {
	if m.named[s.key] == s {
		delete(m.named, s.key)
	}
	if !s.ending {
		s.ending = true
		m.markSubscription(s)
	}
	m.release(s)
}

// release ends a topic's subscription that isn't to outlive its last link.
func (m *Machine) release(s *subscription) {
	if s.slot == 0 || s.refs > 0 || s.over() || s.is.Durable && !s.ending {
		return
	}
	if m.named[s.key] == s {
		delete(m.named, s.key)
	}
	a := s.address
	a.living--
	s.left = s.fresh() + s.deliveries
	s.dying, s.turn = true, 0
	m.steps++
	if s.left == 0 {
		m.forgetSubscription(s)
		return
	}
	s.returned, s.picky, s.doomed, s.count = nil, nil, nil, 0
	for i, next := range a.lanes {
		s.lanes[i] = lane{cursor: s.lanes[i].cursor, from: firstOf(next), to: next}
	}
	m.markSubscription(s)
	m.markPosition(s)
	m.work(s)
}

// forgetSubscription forgets a topic's subscription for which nothing is pending.
func (m *Machine) forgetSubscription(s *subscription) {
	a := s.address
	same := func(x *subscription) bool { return x == s }
	a.subs = slices.DeleteFunc(a.subs, same)
	a.noLocal = slices.DeleteFunc(a.noLocal, same)
	m.working = slices.DeleteFunc(m.working, same)
	s.gone = true
	m.subscriptions[s.slot] = nil
	m.freeSubscription = append(m.freeSubscription, s.slot)
	delete(m.subscriptionByID, s.id)
	m.markSubscription(s)
	m.markPosition(s)
}

// subscription reads a topic's subscription, or where it stands.
func (m *loader) subscription(kind byte, k, v *fields) error {
	id := k.be64()
	if kind == keyPosition {
		s := m.subscriptionByID[id]
		if s == nil {
			return missing("the subscription")
		}
		s.position.stored = true
		m.position(s, v)
		return nil
	}
	s := &subscription{object: object{stored: true}, id: id}
	if s.address = m.byInc[command.Incarnation(v.uint())]; s.address == nil {
		return missing("the topic")
	}
	flags := v.byte()
	s.dying, s.ending = flags&1 != 0, flags&2 != 0
	s.is = command.Subscription{Durable: flags&4 != 0, Shared: flags&8 != 0, Global: flags&16 != 0, NoLocal: flags&32 != 0, Name: v.string()}
	s.key = subscriptionKey{principal: v.string(), container: v.string(), name: s.is.Name, durable: s.is.Durable}
	var err error
	if s.filter, err = newFilter(v.b); err != nil {
		return stored(err)
	}
	v.b = nil
	m.addSubscription(s)
	return nil
}
