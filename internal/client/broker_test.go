package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// cluster is what a cluster's replicated state would hold, as far as the client can tell, written for these tests. It survives
// connections; what only a home knows hangs on brokerConn and dies with it.
type cluster struct {
	t        testing.TB
	sessions map[SessionID]*bSession
	byNonce  map[amqp.UUID]*bSession
	queues   map[string]*bQueue
	outcomes map[TxID]string
	ids      uint64
	attempts map[amqp.UUID]uint32

	refuseResume bool        // sessions are gone
	resumeError  *amqp.Error // why the next resume is refused
	outcomeError *amqp.Error // the answer to every question
	sendRefusal  func(body string) *amqp.Error
	credit       uint32
	// maxMessageSize is what senders are told.
	maxMessageSize uint64
	decided        []TxID // in order of deciding

	detachQuestions bool // each question ends its link
	sessionLimit    bool // no further session
	replies         int
	filters         bool // filters are honoured
	selectors       []string
	closeBehind     bool // the next answer to Begin has a Close behind it
}

type bSession struct {
	id       SessionID
	last     uint64
	rollback bool
	known    uint64
	unknown  []uint64
	numbers  map[string]map[uint64]*amqp.Error // by link, plain sends seen; nil error: accepted
	held     map[string]map[string]*bMessage   // by link and tag
	order    map[string][]string
	results  map[string]map[string]amqp.DeliveryState
	ended    bool
	clean    bool
}

type bQueue struct {
	ready []*bMessage
	all   []string // bodies ever stored, in order
	dead  []string
}

type bMessage struct {
	id      uint64
	body    string
	attempt uint32
	count   uint32
	seen    bool
	queue   *bQueue
}

func newCluster(t testing.TB) *cluster {
	return &cluster{
		t: t, sessions: map[SessionID]*bSession{}, byNonce: map[amqp.UUID]*bSession{}, queues: map[string]*bQueue{},
		outcomes: map[TxID]string{}, attempts: map[amqp.UUID]uint32{}, credit: 1000,
	}
}

func (c *cluster) queue(name string) *bQueue {
	if c.queues[name] == nil {
		c.queues[name] = &bQueue{}
	}
	return c.queues[name]
}

// put stores a message from outside.
func (c *cluster) put(queue string, bodies ...string) {
	q := c.queue(queue)
	for _, b := range bodies {
		c.ids++
		q.ready = append(q.ready, &bMessage{id: c.ids, body: b, queue: q})
		q.all = append(q.all, b)
	}
}

// back returns a message to its place.
func (q *bQueue) back(m *bMessage, failed bool) {
	if failed {
		m.count++
	}
	i, _ := slices.BinarySearchFunc(q.ready, m.id, func(x *bMessage, id uint64) int { return int(x.id) - int(id) })
	q.ready = slices.Insert(q.ready, i, m)
}

// expire ends the grace of all that s holds.
func (s *bSession) expire() {
	for link, tags := range s.held {
		for tag, m := range tags {
			m.queue.back(m, true)
			delete(tags, tag)
		}
		s.order[link] = nil
	}
}

// brokerConn is one connection at its home.
type brokerConn struct {
	c       *cluster
	sasl    *engine.SASLServer
	e       *engine.Conn
	in      []byte
	txs     map[TxID]*bTx
	senders []*bSender
	answers []func() // held back while mute
	mute    bool
	over    bool
	nonce   amqp.UUID

	refuseDischarge *amqp.Error // what the next discharge is answered, although it is applied
	dropQuestions   bool        // questions are never answered
	producers       []*engine.Link
}

// unmute ends the silence.
func (b *brokerConn) unmute() {
	b.mute = false
	for _, f := range b.answers {
		f()
	}
	b.answers = nil
}

type bTx struct {
	session *bSession
	sends   []bSend
	settles []bSettle
	failed  bool
}

type bSend struct{ queue, body string }

type bSettle struct {
	link, tag string
	state     amqp.DeliveryState
}

// bSender is our end of a client's receiver.
type bSender struct {
	s      *bSession
	l      *engine.Link
	q      *bQueue
	name   string
	resume []string // tags whose transfers are to go on
}

func (c *cluster) connect() *brokerConn {
	b := &brokerConn{c: c, sasl: engine.NewSASLServer("ANONYMOUS"), e: engine.New(engine.Config{Server: true}), txs: map[TxID]*bTx{}}
	return b
}

// lost: the socket is gone.
func (b *brokerConn) lost() {
	if b.over {
		return
	}
	b.over = true
	b.e.Sessions(func(es *engine.Session) {
		if s, ok := es.Data.(*bSession); ok && s.rollback {
			s.expire()
		}
	})
}

// input takes the client's bytes and gives the answer's.
func (b *brokerConn) input(p []byte, now time.Time) []byte {
	b.in = append(b.in, p...)
	if _, _, done := b.sasl.Done(); !done {
		n, err := b.sasl.Input(b.in)
		if err != nil {
			b.c.t.Fatalf("broker: sasl: %v", err)
		}
		b.in = b.in[n:]
		if _, ok := b.sasl.Next(); ok {
			b.sasl.Outcome(amqp.SASLCodeOK, nil)
		}
		out := b.sasl.TakeOutput(nil)
		if _, _, done := b.sasl.Done(); !done || len(out) > 0 {
			return out
		}
	}
	for range 2 {
		n, err := b.e.Input(b.in, now)
		if err != nil {
			b.c.t.Fatalf("broker: the client broke the protocol: %v", err)
		}
		for ev, ok := b.e.Next(); ok; ev, ok = b.e.Next() {
			b.handle(ev)
		}
		b.in = append([]byte(nil), b.in[n:]...)
	}
	b.deliver()
	return append([]byte(nil), b.e.TakeOutput(nil, now)...)
}

// answer does f now, or when the test ends the silence.
func (b *brokerConn) answer(f func()) {
	if b.mute {
		b.answers = append(b.answers, f)
		return
	}
	f()
}

func (b *brokerConn) handle(ev engine.Event) {
	switch ev.Kind {
	case engine.Opened:
		b.opened(ev.Open)
	case engine.Closed:
		b.over = true
		_ = b.e.Close(nil)
	case engine.SessionBegun:
		b.begun(ev)
	case engine.SessionEnded:
		s, _ := ev.Session.Data.(*bSession)
		if s != nil {
			s.ended, s.clean = true, ev.Err == nil
			s.expire()
		}
		_ = ev.Session.End(nil)
	case engine.LinkAttached:
		b.attached(ev)
	case engine.LinkDetached:
		b.detached(ev)
	case engine.Received:
		b.received(ev.Delivery)
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			b.disposed(d, ev.State)
		}
	}
}

func (b *brokerConn) opened(o *amqp.Open) {
	v, _ := o.Properties.Lookup("oncemq:nonce")
	a, _ := o.Properties.Lookup("oncemq:attempt")
	nonce, attempt := v.(amqp.UUID), a.(uint32)
	if attempt <= b.c.attempts[nonce] {
		b.c.t.Fatalf("broker: attempt %d after %d", attempt, b.c.attempts[nonce])
	}
	b.c.attempts[nonce], b.nonce = attempt, nonce
	if !slices.Contains(o.DesiredCapabilities, amqp.CapOncemqClient) {
		b.c.t.Fatal("broker: the client doesn't say that it is ours")
	}
	_ = b.e.Open(amqp.Open{ContainerID: "broker", OfferedCapabilities: []amqp.Symbol{amqp.CapOncemqClient}})
}

func (b *brokerConn) begun(ev engine.Event) {
	v, _ := ev.Begin.Properties.Lookup("oncemq:session")
	id, resume := v.([]byte)
	n, _ := ev.Begin.Properties.Lookup("oncemq:nonce")
	nonce := n.(amqp.UUID)
	var s *bSession
	if resume {
		s = b.c.sessions[SessionID(id)]
		if no := b.c.resumeError; no != nil {
			b.c.resumeError = nil
			_ = ev.Session.Begin(amqp.Begin{})
			_ = ev.Session.End(no)
			return
		}
		if s == nil || b.c.refuseResume {
			b.c.refuseResume = false
			_ = ev.Session.Begin(amqp.Begin{})
			_ = ev.Session.End(&amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no such session"})
			return
		}
	} else if s = b.c.byNonce[nonce]; s == nil {
		if b.c.sessionLimit {
			_ = ev.Session.End(&amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: "enough"})
			return
		}
		b.c.ids++
		s = &bSession{
			numbers: map[string]map[uint64]*amqp.Error{}, held: map[string]map[string]*bMessage{},
			order: map[string][]string{}, results: map[string]map[string]amqp.DeliveryState{},
		}
		binary.BigEndian.PutUint64(s.id[4:], b.c.ids)
		copy(s.id[12:], nonce[:4])
		b.c.sessions[s.id], b.c.byNonce[nonce] = s, s
	}
	r, _ := ev.Begin.Properties.Lookup("oncemq:rollback")
	s.rollback, _ = r.(bool)
	ev.Session.Data = s
	_ = ev.Session.Begin(amqp.Begin{OfferedCapabilities: []amqp.Symbol{amqp.CapOncemqSession}, Properties: amqp.Map{
		{Key: amqp.PropSession, Value: s.id[:]}, {Key: amqp.PropResumed, Value: resume}, {Key: amqp.PropLastNumber, Value: s.last},
	}})
	if b.c.closeBehind {
		b.c.closeBehind = false
		_ = b.e.Close(&amqp.Error{Condition: amqp.ErrCondConnectionForced, Description: "go elsewhere"})
	}
}

func (b *brokerConn) attached(ev engine.Event) {
	s := ev.Session.Data.(*bSession)
	reply := *ev.Attach
	reply.Unsettled = nil
	switch {
	case ev.Attach.Coordinator != nil:
		_ = ev.Link.Accept(reply)
		_ = ev.Link.SetCredit(b.c.credit, false)
	case ev.Attach.Role == amqp.RoleSender:
		if ev.Attach.Target.Address.V == "forbidden" {
			_ = ev.Link.Refuse(amqp.Error{Condition: amqp.ErrCondUnauthorizedAccess, Description: "forbidden"})
			return
		}
		if s.numbers[ev.Attach.Name] == nil {
			s.numbers[ev.Attach.Name] = map[uint64]*amqp.Error{}
		}
		reply.Unsettled = []amqp.Unsettled{}
		for _, u := range ev.Attach.Unsettled {
			if no, ok := s.numbers[ev.Attach.Name][binary.BigEndian.Uint64(u.Tag)]; ok {
				reply.Unsettled = append(reply.Unsettled, amqp.Unsettled{Tag: u.Tag, State: outcomeState(no)})
			}
		}
		b.producers = append(b.producers, ev.Link)
		reply.MaxMessageSize = b.c.maxMessageSize
		_ = ev.Link.Accept(reply)
		_ = ev.Link.SetCredit(b.c.credit, false)
	default:
		b.attachReceiver(s, ev, reply)
	}
}

func outcomeState(no *amqp.Error) amqp.DeliveryState {
	if no != nil {
		return &amqp.Rejected{Error: no}
	}
	return &amqp.Accepted{}
}

func (b *brokerConn) attachReceiver(s *bSession, ev engine.Event, reply amqp.Attach) {
	name := ev.Attach.Name
	x := &bSender{s: s, l: ev.Link, q: b.c.queue(ev.Attach.Source.Address.V), name: name}
	if s.held[name] == nil {
		s.held[name], s.results[name] = map[string]*bMessage{}, map[string]amqp.DeliveryState{}
	}
	reply.Unsettled = []amqp.Unsettled{}
	mapped := map[string]bool{}
	var still []string
	for _, u := range ev.Attach.Unsettled {
		tag := string(u.Tag)
		mapped[tag] = true
		if s.held[name][tag] != nil {
			reply.Unsettled = append(reply.Unsettled, amqp.Unsettled{Tag: u.Tag})
			still = append(still, tag)
		} else if r := s.results[name][tag]; r != nil {
			reply.Unsettled = append(reply.Unsettled, amqp.Unsettled{Tag: u.Tag, State: r})
		}
	}
	source := *ev.Attach.Source
	for _, f := range source.Filter {
		if d, ok := f.Value.(*amqp.Described); ok {
			text, _ := d.Value.(string)
			b.c.selectors = append(b.c.selectors, text)
		}
	}
	if !b.c.filters {
		source.Filter = nil
	}
	reply.Source = &source
	_ = ev.Link.Accept(reply)
	ev.Link.Data = x
	b.senders = append(b.senders, x)
	x.resume = still
	for _, tag := range slices.Clone(s.order[name]) {
		if m := s.held[name][tag]; m != nil && !mapped[tag] { // never seen
			delete(s.held[name], tag)
			m.queue.back(m, false)
		}
	}
}

func (b *brokerConn) detached(ev engine.Event) {
	if x, ok := ev.Link.Data.(*bSender); ok {
		for tag, m := range x.s.held[x.name] {
			enlisted := false
			for _, tx := range b.txs {
				for _, st := range tx.settles {
					enlisted = enlisted || st.link == x.name && st.tag == tag
				}
			}
			if !enlisted {
				m.queue.back(m, false)
				delete(x.s.held[x.name], tag)
			}
		}
		b.senders = slices.DeleteFunc(b.senders, func(y *bSender) bool { return x == y })
	}
	_ = ev.Link.Detach(true, nil)
}

// deliver hands out what there is.
func (b *brokerConn) deliver() {
	for _, x := range b.senders {
		for len(x.resume) > 0 && x.l.Credit() > 0 {
			if _, err := x.l.Send(engine.Transfer{Tag: []byte(x.resume[0]), Resume: true}); err != nil {
				b.c.t.Fatalf("broker: resuming %x: %v", x.resume[0], err)
			}
			x.resume = x.resume[1:]
		}
		for len(x.q.ready) > 0 && x.l.Credit() > 0 {
			m := x.q.ready[0]
			x.q.ready = x.q.ready[1:]
			m.attempt++
			tag := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), m.id), m.attempt)
			h := amqp.Header{Durable: true, Priority: 4, DeliveryCount: m.count, FirstAcquirer: !m.seen}
			m.seen = true
			if _, err := x.l.Send(engine.Transfer{Tag: tag, Payload: [][]byte{amqp.AppendData(amqp.AppendHeader(nil, &h), []byte(m.body))}}); err != nil {
				b.c.t.Fatalf("broker: deliver: %v", err)
			}
			x.s.held[x.name][string(tag)] = m
			x.s.order[x.name] = append(x.s.order[x.name], string(tag))
		}
	}
}

func bodyOf(t testing.TB, payload []byte) string {
	s, err := amqp.ParseSections(payload, amqp.Limits{})
	if err != nil {
		t.Fatalf("broker: %v", err)
	}
	var out []byte
	for _, p := range s.Data(nil) {
		out = append(out, p...)
	}
	return string(out)
}

func (b *brokerConn) received(d *engine.Delivery) {
	s := d.Link.Session().Data.(*bSession)
	remote := d.Link.Remote()
	if d.Link.Credit() < b.c.credit/2 {
		_ = d.Link.SetCredit(b.c.credit, false)
	}
	if remote.Coordinator != nil {
		b.control(s, d)
		return
	}
	address := remote.Target.Address.V
	if address == addressOutcome {
		switch {
		case b.c.detachQuestions:
			_ = d.Link.Detach(true, &amqp.Error{Condition: amqp.ErrCondInternalError, Description: "not here"})
		case b.dropQuestions:
		default:
			b.asked(d)
		}
		return
	}
	body := bodyOf(b.c.t, d.Payload)
	if st, ok := d.State.(*amqp.TransactionalState); ok {
		tx := b.txs[TxID(st.TxnID)]
		if tx == nil {
			b.c.t.Fatalf("broker: transfer for %x, which isn't declared", st.TxnID)
		}
		var outcome amqp.DeliveryState = &amqp.Accepted{}
		if b.c.sendRefusal != nil {
			if no := b.c.sendRefusal(body); no != nil {
				outcome, tx.failed = &amqp.Rejected{Error: no}, true
			}
		}
		tx.sends = append(tx.sends, bSend{address, body})
		b.answer(func() { d.Dispose(&amqp.TransactionalState{TxnID: st.TxnID, Outcome: outcome}, false) })
		return
	}
	seen := s.numbers[d.Link.Name()]
	n := binary.BigEndian.Uint64(d.Tag())
	no, repeat := seen[n]
	if !repeat {
		for other := range seen {
			if other > n {
				b.c.t.Fatalf("broker: number %d after %d", n, other)
			}
		}
		if b.c.sendRefusal != nil {
			no = b.c.sendRefusal(body)
		}
		seen[n] = no
		if no == nil {
			b.c.put(address, body)
		}
	}
	b.answer(func() { d.Dispose(outcomeState(no), false) })
}

func (b *brokerConn) control(s *bSession, d *engine.Delivery) {
	sec, err := amqp.ParseSections(d.Payload, amqp.Limits{})
	if err != nil {
		b.c.t.Fatal(err)
	}
	ann, _ := amqp.DecodeMessageAnnotations(sec.MessageAnnotations, amqp.Limits{})
	v, err := sec.Value(amqp.Limits{})
	if err != nil {
		b.c.t.Fatal(err)
	}
	b.acknowledge(s, ann)
	switch x := v.(type) {
	case *amqp.Declare:
		n, _ := ann.Lookup("x-opt-oncemq-number")
		id := txID(s.id, n.(uint64))
		if o, ok := b.c.outcomes[id]; ok {
			b.answer(func() { d.Dispose(decidedState(o), true) })
			return
		}
		if id.number() <= s.known && !slices.Contains(s.unknown, id.number()) {
			b.c.t.Fatalf("broker: declare of %d, known through %d", id.number(), s.known)
		}
		b.txs[id] = &bTx{session: s}
		b.answer(func() { d.Dispose(&amqp.Declared{TxnID: id[:]}, true) })
	case *amqp.Discharge:
		ops, _ := ann.Lookup("x-opt-oncemq-operations")
		state := b.discharge(TxID(x.TxnID), x.Fail, ops.(uint32))
		if no := b.refuseDischarge; no != nil {
			b.refuseDischarge, state = nil, &amqp.Rejected{Error: no}
		}
		b.answer(func() { d.Dispose(state, true) })
	default:
		b.c.t.Fatalf("broker: %T to the coordinator", v)
	}
}

func (id TxID) number() uint64 { return binary.BigEndian.Uint64(id[16:]) }

func txID(s SessionID, n uint64) (id TxID) {
	copy(id[:], s[:])
	binary.BigEndian.PutUint64(id[16:], n)
	return id
}

func decidedState(outcome string) amqp.DeliveryState {
	return &amqp.Rejected{Error: &amqp.Error{
		Condition: amqp.ErrCondTransactionDecided,
		Info:      amqp.Map{{Key: amqp.InfoOutcome, Value: amqp.Symbol(outcome)}, {Key: amqp.InfoReason, Value: "as recorded"}},
	}}
}

// acknowledge drops the outcomes that the client knows (C2).
func (b *brokerConn) acknowledge(s *bSession, ann amqp.Map) {
	k, ok := ann.Lookup("x-opt-oncemq-known")
	if !ok {
		b.c.t.Fatal("broker: a control message without known")
	}
	if k.(uint64) < s.known {
		b.c.t.Fatalf("broker: known falls from %d to %d", s.known, k)
	}
	s.known, s.unknown = k.(uint64), nil
	if v, ok := ann.Lookup("x-opt-oncemq-unknown"); ok {
		for _, n := range v.(amqp.Array).Items {
			s.unknown = append(s.unknown, n.(uint64))
		}
	}
	if len(s.unknown) > maxUnknown {
		b.c.t.Fatalf("broker: %d unknown", len(s.unknown))
	}
	for id := range b.c.outcomes {
		if SessionID(id[:16]) == s.id && id.number() <= s.known && !slices.Contains(s.unknown, id.number()) {
			delete(b.c.outcomes, id)
		}
	}
}

// discharge decides by the record, then the count, then the operations [2.1].
func (b *brokerConn) discharge(id TxID, fail bool, operations uint32) amqp.DeliveryState {
	s := b.c.sessions[SessionID(id[:16])]
	if o, ok := b.c.outcomes[id]; ok {
		switch {
		case o == "committed" && !fail, o == "rolled-back" && fail:
			return &amqp.Accepted{}
		case fail:
			return decidedState(o)
		}
		return rolledBack("as recorded")
	}
	tx := b.txs[id]
	if tx == nil {
		return &amqp.Rejected{Error: &amqp.Error{Condition: amqp.ErrCondTransactionUnknownID}}
	}
	delete(b.txs, id)
	s.last = max(s.last, id.number())
	ok := !fail && !tx.failed && int(operations) == len(tx.sends)+len(tx.settles)
	for _, st := range tx.settles {
		ok = ok && s.held[st.link][st.tag] != nil
	}
	b.c.decided = append(b.c.decided, id)
	if !ok {
		b.c.outcomes[id] = "rolled-back"
		for _, st := range tx.settles {
			if m := s.held[st.link][st.tag]; m != nil {
				delete(s.held[st.link], st.tag)
				m.queue.back(m, true)
			}
		}
		if fail {
			return &amqp.Accepted{}
		}
		return rolledBack("incomplete")
	}
	b.c.outcomes[id] = "committed"
	for _, st := range tx.settles {
		delete(s.held[st.link], st.tag)
	}
	for _, x := range tx.sends {
		b.c.put(x.queue, x.body)
	}
	return &amqp.Accepted{}
}

func rolledBack(reason string) amqp.DeliveryState {
	return &amqp.Rejected{Error: &amqp.Error{
		Condition: amqp.ErrCondTransactionRollback, Description: reason,
		Info: amqp.Map{{Key: amqp.InfoReason, Value: reason}},
	}}
}

// disposed: the client settles something.
func (b *brokerConn) disposed(d *engine.Delivery, said amqp.DeliveryState) {
	x, ok := d.Link.Data.(*bSender)
	if !ok {
		return
	}
	tag := string(d.Tag())
	m := x.s.held[x.name][tag]
	if st, ok := d.State.(*amqp.TransactionalState); ok {
		tx := b.txs[TxID(st.TxnID)]
		if tx == nil {
			b.c.t.Fatalf("broker: disposition for %x, which isn't declared", st.TxnID)
			return
		}
		tx.settles = append(tx.settles, bSettle{x.name, tag, st.Outcome})
		return
	}
	if said == nil {
		delete(x.s.results[x.name], tag) // the third step
		return
	}
	state := amqp.CloneState(d.State)
	if m == nil {
		if r := x.s.results[x.name][tag]; r == nil && !d.Settled {
			b.answer(func() { d.Dispose(&amqp.Rejected{Error: &amqp.Error{Condition: amqp.ErrCondDeliveryLost}}, true) })
		}
		return
	}
	delete(x.s.held[x.name], tag)
	var kept amqp.DeliveryState = &amqp.Released{}
	switch st := state.(type) {
	case *amqp.Accepted:
		kept = state
	case *amqp.Rejected:
		m.queue.dead = append(m.queue.dead, m.body)
	case *amqp.Released:
		m.queue.back(m, false)
	case *amqp.Modified:
		m.queue.back(m, st.DeliveryFailed)
	}
	if !d.Settled {
		x.s.results[x.name][tag] = kept
		b.answer(func() { d.Dispose(state, false) })
	}
}

// asked answers $oncemq.outcome.
func (b *brokerConn) asked(d *engine.Delivery) {
	sec, _ := amqp.ParseSections(d.Payload, amqp.Limits{})
	p, _ := amqp.DecodeProperties(sec.Properties, amqp.Limits{})
	app, err := amqp.DecodeApplicationProperties(sec.ApplicationProperties, amqp.Limits{})
	if err != nil {
		b.c.t.Fatal(err)
	}
	v, _ := app.Lookup("tx")
	id := TxID(v.([]byte))
	decide, _ := app.Lookup("decide")
	state, ok := b.c.outcomes[id]
	s := b.c.sessions[SessionID(id[:16])]
	switch {
	case ok:
	case s == nil || id.number() <= s.known && !slices.Contains(s.unknown, id.number()):
		state = "expired"
	case decide == true:
		state = "rolled-back"
		b.c.outcomes[id] = state
	default:
		state = "open"
	}
	h := amqp.NewHeader()
	reply := amqp.AppendProperties(amqp.AppendHeader(nil, &h), &amqp.Properties{CorrelationID: p.MessageID})
	reply = amqp.AppendApplicationProperties(reply, amqp.Map{
		{Key: "outcome", Value: state},
		{Key: "reason", Value: "as recorded"},
		{Key: "decided-at", Value: amqp.Timestamp(1000)},
	})
	if no := b.c.outcomeError; no != nil {
		reply = amqp.AppendProperties(nil, &amqp.Properties{CorrelationID: p.MessageID})
		reply = amqp.AppendApplicationProperties(reply, amqp.Map{{Key: "error", Value: string(no.Condition)}, {Key: "description", Value: no.Description}})
	}
	for _, x := range b.senders {
		if x.l.Remote().Source.Address.V == p.ReplyTo {
			b.c.replies++
			_, _ = x.l.Send(engine.Transfer{Tag: fmt.Appendf(nil, "reply-%013d", b.c.replies), Payload: [][]byte{reply}})
		}
	}
	d.Dispose(&amqp.Accepted{}, false)
}

var errCut = errors.New("cut")
