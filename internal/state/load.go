package state

import (
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// loader builds a machine from its keys, which come in an order in which what others
// refer to is there.
type loader struct {
	*Machine
	address *address                          // of the last message or delivery key
	senders map[command.Incarnation][]*sender // of temporary queues whose key is still to come
}

// Load rebuilds a machine from its keys, which next yields in ascending order (all
// keys with the group's prefix; bodies may be left out: they are never read here,
// see BodyRange). Key and value are borrowed until the following call. Errors wrap
// ErrState.
func Load(group uint16, next func() (key, value []byte, ok bool)) (*Machine, error) {
	ld := &loader{Machine: New(group), senders: make(map[command.Incarnation][]*sender)}
	for key, value, ok := next(); ok; key, value, ok = next() {
		if len(key) < 3 || uint16(key[0])<<8|uint16(key[1]) != group {
			return nil, fmt.Errorf("%w: key %x isn't of group %d", ErrState, key, group)
		}
		k, v := fields{b: key[3:]}, fields{b: value}
		if err := ld.record(key[2], &k, &v); err != nil {
			return nil, fmt.Errorf("key %x: %w", key, err)
		}
		if k.err != nil || v.err != nil {
			return nil, fmt.Errorf("%w: the record under key %x is malformed", ErrState, key)
		}
	}
	if len(ld.senders) > 0 {
		return nil, missing("the temporary queue of a sender link")
	}
	ld.complete()
	return ld.Machine, nil
}

// stored is an error of another package about a record.
func stored(err error) error { return fmt.Errorf("%w: %w", ErrState, err) }

func missing(what string) error {
	return fmt.Errorf("%w: %s that it refers to isn't there", ErrState, what)
}

func (m *loader) record(kind byte, k, v *fields) error {
	switch kind {
	case keyLevel:
		return m.loadLevel(v)
	case keyClock:
		m.clock(v)
	case keyCluster:
		m.cluster, m.founded = v.id16(), true
		m.history, m.lastNode = uint16(v.uint()), command.NodeID(v.uint())
	case keyNode:
		m.node(k, v)
	case keyPart:
		return m.part(k, v)
	case keyMember:
		return m.member(k, v)
	case keyToken:
		m.token(k, v)
	case keyConfiguration:
		v.configuration(&m.configuration)
	case keyTimeSet:
		m.timeSet(v)
	case keySkip:
		m.skips = append(m.skips, Skipped{Index: k.be64(), Sum: v.be64()})
	case keySeed:
		copy(m.userSeed[:], v.take(len(m.userSeed)))
		m.guarded = true
	case keyUser:
		return m.user(k, v)
	case keyConn:
		m.conn(k, v)
	case keySession:
		return m.session(k, v)
	case keyProgress, keyOutcome:
		return m.ofSession(kind, k, v)
	case keyStream, keyRefusal, keySender, keyWindow, keyStoredID:
		return m.sender(kind, k, v)
	case keyResults, keyResult:
		return m.result(kind, k, v)
	case keyQueue, keyPlace:
		return m.queueRecord(kind, k, v)
	case keySubscription, keyPosition:
		return m.subscription(kind, k, v)
	case keyLink, keyAllowance:
		return m.link(kind, k, v)
	case keyMessage, keyOverlay, keyMoved:
		return m.message(kind, k, v)
	case keyDelivery:
		return m.delivery(k, v)
	case keyBody:
	default:
		return fmt.Errorf("%w: key kind %#x: written by a newer version", ErrState, kind)
	}
	return nil
}

func (m *loader) node(k, v *fields) {
	n := &node{
		object: object{stored: true}, id: command.NodeID(k.be64()), epoch: command.Epoch(v.uint()), last: v.uint(),
		nonce: v.id16(), level: uint32(v.uint()),
	}
	for range min(v.uint(), keptReports) {
		n.reports = append(n.reports, report{v.uint(), v.be64()})
	}
	n.disk, n.memory = command.Room(v.byte()), v.uint()
	m.nodes[n.id] = n
}

func (m *loader) clock(v *fields) {
	m.civil.now, m.running, m.handTurn = v.int(), v.int(), v.uint()
	c := &m.counters
	for _, n := range [...]*uint64{&c.LostPresettled, &c.DeadLettered, &c.Committed, &c.RolledBack, &c.Expired, &c.Resent, &c.ExpiredMessages} {
		*n = v.uint()
	}
	m.civil.sets, m.civil.shift = v.uint(), v.int()
	m.loadNext(v)
	m.digest = v.be64()
}

func (m *loader) part(k, v *fields) error {
	n := m.nodes[command.NodeID(k.be64())]
	if n == nil {
		return missing("the node")
	}
	p := &n.parts
	p.command = k.be64()
	if k.be64() != uint64(len(p.data)) {
		return fmt.Errorf("%w: a piece of a large command is missing", ErrState)
	}
	p.stored = append(p.stored, uint64(len(p.data)))
	p.data = append(p.data, v.b...)
	p.flushed = uint64(len(p.data))
	m.partBytes += uint64(len(v.b))
	return nil
}

func (m *loader) conn(k, v *fields) {
	c := &conn{
		object: object{stored: true}, id: command.ConnID(k.be64()), node: command.NodeID(v.uint()),
		epoch: command.Epoch(v.uint()), local: v.uint(),
	}
	c.client = m.client(clientKey{v.string(), v.string()})
	c.nonce = v.id16()
	c.attempt = uint32(v.uint())
	c.sole = v.byte()&1 != 0
	m.addConn(c)
}

func (m *loader) session(k, v *fields) error {
	s := &session{object: object{stored: true}, id: k.session()}
	if s.id.History() != m.history {
		m.former = append(m.former, s) // ids rise
	}
	flags := v.byte()
	s.rollback, s.token, s.ended = flags&1 != 0, flags&2 != 0, flags&4 != 0
	s.principal = v.string()
	if !s.token {
		s.client = m.client(clientKey{s.principal, v.string()})
		s.process, s.open = v.id16(), v.id16()
		if id := command.ConnID(v.uint()); id != 0 {
			if s.conn = m.conns[id]; s.conn == nil {
				return missing("the connection")
			}
			s.conn.sessions = append(s.conn.sessions, s) // ids rise
		}
		until := v.int()
		m.addSession(s)
		m.setGrace(s, until)
		return nil
	}
	m.addSession(s)
	return nil
}

func (m *loader) ofSession(kind byte, k, v *fields) error {
	s := m.sessions[k.session()]
	if s == nil {
		return missing("the session")
	}
	if kind == keyProgress {
		s.progress.stored = true
		m.setRetain(s, v.int())
		s.last, s.through = v.uint(), v.uint()
		var n uint64
		for range min(v.uint(), command.MaxUnknown) {
			n += v.uint()
			s.unknown = append(s.unknown, n)
		}
		return nil
	}
	r := outcomeRecord{number: k.be64(), outcome: command.TxOutcome(v.byte()), reason: v.byte(), civil: v.int(), stored: true}
	switch {
	case r.reason == reasonOther:
		if s.reasons == nil {
			s.reasons = make(map[uint64]string)
		}
		s.reasons[r.number] = v.string()
	case int(r.reason) > len(reasonCodes):
		return fmt.Errorf("%w: reason code %d: written by a newer version", ErrState, r.reason)
	}
	s.outcomes = append(s.outcomes, r)
	m.kept += s.outcomeBytes(&r)
	return nil
}

func (m *loader) result(kind byte, k, v *fields) error {
	id := k.be64()
	if kind == keyResults {
		s := m.sessions[v.session()]
		if s == nil {
			return missing("the session")
		}
		r := &results{
			object: object{stored: true}, id: id, session: s, name: v.string(),
			states: make(map[resultKey]command.UnsettledState),
		}
		s.results[r.name], m.results[id] = r, r
		return nil
	}
	r := m.results[id]
	if r == nil {
		return missing("the link's list of results")
	}
	r.states[resultKey{command.Incarnation(k.be64()), k.be64(), k.be32()}] = command.UnsettledState(v.byte())
	m.kept += resultCost
	return nil
}

func (m *loader) queueRecord(kind byte, k, v *fields) error {
	inc := command.Incarnation(k.be64())
	if kind == keyQueue {
		flags := v.byte()
		a := &address{object: object{stored: true}, inc: inc, dying: flags&1 != 0, topic: flags&2 != 0, name: v.string(), lanes: []uint64{1}}
		a.queue = &subscription{id: uint64(inc), address: a, lanes: []lane{{cursor: 1}}}
		m.placeAddress(a)
		if !a.dying {
			m.byName[a.name] = a
		}
		if flags&4 != 0 {
			return m.temporary(a, v)
		}
		return nil
	}
	a := m.byInc[inc]
	if a == nil {
		return missing("the queue")
	}
	a.place.stored = true
	a.lanes = nil
	for range min(v.uint(), 1<<(64-laneBits)) {
		a.lanes = append(a.lanes, uint64(v.byte())<<laneBits|v.uint())
	}
	m.position(a.queue, v)
	return nil
}

// position reads where a subscription stands.
func (m *loader) position(s *subscription, v *fields) {
	if s.dying {
		s.left = v.uint()
	} else {
		s.turn = v.uint()
	}
	s.purgeGen = uint32(v.uint())
	s.lanes = nil
	for _, next := range s.address.lanes {
		number := func() uint64 {
			if n := v.uint(); n != 0 {
				return n | next&^laneMask
			}
			return 0
		}
		s.lanes = append(s.lanes, lane{cursor: number(), from: number(), to: number(), taken: v.uint()})
	}
}

func (m *loader) link(kind byte, k, v *fields) error {
	id := k.be64()
	if kind == keyAllowance {
		l := m.linkByID[id]
		if l == nil {
			return missing("the link")
		}
		l.allow.stored = true
		l.messages, l.bytes, l.handed, l.told = uint32(v.uint()), v.uint(), v.uint(), v.uint()
		if l.filter != nil {
			for at := range l.filter.scan {
				l.filter.scan[at] += v.uint() - 1
			}
		}
		return nil
	}
	a := m.byInc[command.Incarnation(v.uint())]
	if a == nil {
		return missing("the queue")
	}
	l := &link{object: object{stored: true}, id: id, sub: a.queue}
	if id := v.uint(); id != 0 {
		if l.sub = m.subscriptionByID[id]; l.sub == nil {
			return missing("the subscription")
		}
	}
	conn := command.ConnID(v.uint())
	l.number = uint32(v.uint())
	flags := v.byte()
	l.presettled, l.ended, l.charged = flags&1 != 0, flags&2 != 0, flags&4 != 0
	l.lost, l.ending = endRule(v.byte()), endRule(v.byte())
	if conn != 0 {
		if l.conn = m.conns[conn]; l.conn == nil {
			return missing("the connection")
		}
	}
	if flags&8 != 0 {
		if l.session = m.sessions[v.session()]; l.session == nil {
			return missing("the session")
		}
	}
	l.name = v.string()
	if flags&32 != 0 {
		var err error
		if l.filter, err = newFilter(v.b); err != nil {
			return stored(err)
		}
		v.b = nil
	}
	m.addLink(l)
	if flags&16 != 0 {
		l.session.links[l.name] = l
	}
	return nil
}

// complete rebuilds what is derived, once all keys are there.
func (m *loader) complete() {
	m.leaveTables()
	for _, l := range m.links {
		if l == nil {
			continue
		}
		m.sortDeliveries(l)
		if l.ready() {
			insertLink(&l.sub.ready, l)
		}
		if l.ending != 0 {
			l.sub.returning++
			insertLink(&m.ending, l)
		}
	}
	for _, a := range m.addresses {
		if a == nil {
			continue
		}
		m.began(a.queue)
		if a.topic {
			m.countPending(a)
		}
	}
	for _, s := range m.subscriptions {
		if s != nil {
			m.began(s)
		}
	}
	left := m.touched[:0]
	for _, s := range m.touched {
		if s.touched = m.canHandOut(s); s.touched {
			left = append(left, s)
		}
	}
	m.touched = left
	m.forgetMarks()
	m.reckonRoom()
}

// began finds what a subscription was about.
func (m *loader) began(s *subscription) {
	m.scanned(s)
	m.touch(s)
	if s.slot != 0 && s.address.dying {
		return // its topic's job
	}
	if s.over() || s.purging() || len(s.doomed) > 0 {
		m.work(s)
	}
}

// sortDeliveries brings a link's list into the order of hand-out.
func (m *loader) sortDeliveries(l *link) {
	list := make([]uint32, 0, l.held)
	for di := l.first; di != 0; di = m.deliveries.at(di).next {
		list = append(list, di)
	}
	slices.SortFunc(list, func(a, b uint32) int { return compare(m.deliveries.at(a).order, m.deliveries.at(b).order) })
	l.first, l.last, l.held = 0, 0, 0
	for _, di := range list {
		m.chain(l, di)
	}
}

// forgetMarks undoes what loading has marked as to be written.
func (m *loader) forgetMarks() {
	for _, s := range m.dirty.sessions {
		s.marked = false
	}
	for _, s := range m.dirty.progress {
		s.progress.marked = false
	}
	m.dirty = dirty{}
}
