package frontend

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/state"
)

// lone is a Log of one node that applies to a real machine when it is told to, in the caller's goroutine.
type lone struct {
	m        *state.Machine
	kv       map[string][]byte
	index    uint64
	epoch    command.Epoch
	number   uint64
	queue    [][]byte
	conns    map[uint64]*Conn
	barriers []func(bool)
	browsers []*browsing // without an answer
	now      func() time.Time
	running  int64

	down    bool // no epoch
	held    bool // nothing is applied now
	lease   time.Duration
	lag     time.Duration
	backlog int // added to the real one
	room    command.Room
	bodies  int
	// questions counts those of browsers.
	questions int
}

func newLone(t testing.TB, now func() time.Time) *lone {
	t.Helper()
	l := &lone{m: state.New(0), kv: make(map[string][]byte), conns: make(map[uint64]*Conn), now: now, lease: time.Second}
	effects := l.apply(t, command.Record{Body: command.Append(
		command.Append(nil, &command.ClusterInit{Cluster: [16]byte{1}, History: 7, Voters: []command.NodeID{1}, Level: command.Level}),
		&command.NodeUp{Node: 1, Nonce: [16]byte{2}, Announcement: command.Announcement{Level: command.Level}})})
	for _, e := range effects {
		if e.Kind == command.EffectNodeUp {
			l.epoch = command.Epoch(e.Number)
		}
	}
	if l.epoch == 0 {
		t.Fatal("no epoch")
	}
	return l
}

func (l *lone) Put(key, value []byte)    { l.kv[string(key)] = bytes.Clone(value) }
func (l *lone) Insert(key, value []byte) { l.Put(key, value) }
func (l *lone) Delete(key []byte)        { delete(l.kv, string(key)) }
func (l *lone) DeleteRange(from, to []byte) {
	for k := range l.kv {
		if k >= string(from) && k < string(to) {
			delete(l.kv, k)
		}
	}
}

func (l *lone) apply(t testing.TB, records ...command.Record) []command.Effect {
	t.Helper()
	l.index++
	l.running++
	e := command.AppendEntry(nil, command.EntryHeader{Civil: l.now().UnixMilli(), Running: l.running})
	for _, r := range records {
		e = command.AppendRecord(e, r)
	}
	effects, err := l.m.Apply(l.index, e, l, nil)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return effects
}

// step applies what was proposed, and jobs; false if there was nothing to do.
func (l *lone) step(t testing.TB) bool {
	t.Helper()
	if l.held {
		return false
	}
	did := l.browse() || len(l.queue) > 0 || l.m.Next().Job || len(l.barriers) > 0
	var records []command.Record
	for _, b := range l.queue {
		l.number++
		records = append(records, command.Record{Node: 1, Epoch: l.epoch, Number: l.number, Body: b})
	}
	l.queue = nil
	if len(records) == 0 && l.m.Next().Job {
		records = append(records, command.Record{Body: command.Append(nil, &command.Tick{})})
	}
	if len(records) > 0 {
		l.deliver(l.apply(t, records...))
	}
	barriers := l.barriers
	l.barriers = nil
	for _, done := range barriers {
		done(true)
	}
	return did
}

func (l *lone) deliver(effects []command.Effect) {
	by := make(map[uint64][]command.Effect)
	var order []uint64
	for _, e := range effects {
		if e.Local == 0 {
			continue
		}
		if by[e.Local] == nil {
			order = append(order, e.Local)
		}
		by[e.Local] = append(by[e.Local], e)
	}
	for _, local := range order {
		l.conns[local].Effects(by[local], l.now())
	}
}

func (l *lone) Propose(body []byte) bool {
	if l.down {
		return false
	}
	l.bodies++
	l.queue = append(l.queue, body)
	return true
}

func (l *lone) Backlog() int {
	n := l.backlog
	for _, b := range l.queue {
		n += len(b)
	}
	return n
}

// browsing is a browser's question.
type browsing struct {
	of   *state.Browser
	done func(*command.BrowseSlice)
}

func (l *lone) Browse(q command.Browse, done func(*command.BrowseSlice)) error {
	of, err := state.NewBrowser(q)
	l.browsers = slices.DeleteFunc(l.browsers, func(b *browsing) bool { return b.of.Local == q.Local && b.of.Link == q.Link })
	if q.Most > 0 && err == nil {
		l.browsers = append(l.browsers, &browsing{of, done})
		l.questions++
	}
	return err
}

// browse answers the browsers for which there is something; false for none.
func (l *lone) browse() (did bool) {
	list := l.browsers
	l.browsers = nil
	for _, b := range list {
		s, _ := l.m.Slice(b.of)
		if b.of.Wait && s.Incarnation != 0 && len(s.Messages) == 0 {
			b.of.After = s.Next
			did = did || s.More
			l.browsers = append(l.browsers, b)
			continue
		}
		did = true
		b.done(&s)
	}
	return did
}

// reads answers barriers and questions, and applies nothing.
func (l *lone) reads() {
	for len(l.barriers) > 0 {
		done := l.barriers[0]
		l.barriers = l.barriers[1:]
		done(true)
	}
	for l.browse() {
	}
}

func (l *lone) Barrier(done func(bool)) { l.barriers = append(l.barriers, done) }
func (l *lone) LeaseUntil() time.Time   { return l.now().Add(l.lease) }
func (l *lone) Lag() time.Duration      { return l.lag }
func (l *lone) Room() command.Room      { return l.room }

func (l *lone) Message(dst []byte, inc command.Incarnation, message uint64) ([]byte, error) {
	b, ok, err := state.ReadMessage(dst, 0, inc, message, func(key, dst []byte) ([]byte, bool, error) {
		v, ok := l.kv[string(key)]
		return append(dst, v...), ok, nil
	})
	if err == nil && !ok {
		err = ErrNoMessage
	}
	return b, err
}

// rig is a node and its clients, in one goroutine, with a clock of its own.
type rig struct {
	t     testing.TB
	log   *lone
	node  *Node
	now   time.Time
	pairs []*pair
	local uint64
}

func newRig(t testing.TB, cfg ...Config) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.log = newLone(t, func() time.Time { return r.now })
	c := Config{Dev: true, ContainerID: "node1", Version: "test"}
	if len(cfg) > 0 {
		c = cfg[0]
	}
	r.node = New(c, r.log)
	r.node.EpochBegun(r.log.epoch)
	return r
}

// pair is a connection with both its ends.
type pair struct {
	r      *rig
	cl     *engine.Conn
	fe     *Conn
	local  uint64
	up     []byte // to the frontend, not consumed
	down   []byte // to the client, not consumed
	cut    bool   // the socket is gone
	stuck  bool   // the socket takes nothing from the node
	deaf   bool   // the client looks at nothing that the node has written
	events []engine.Event
	wrote  int
	shadow []byte // all that the node has written
}

// connect makes a connection whose client hasn't opened yet.
func (r *rig) connect() *pair {
	r.local++
	p := &pair{r: r, cl: engine.New(engine.Config{}), local: r.local}
	p.fe = r.node.NewConn(ConnOptions{Local: r.local, Principal: Anonymous, Barrier: func(id uint64, ok bool) {
		p.fe.BarrierDone(id, ok, r.now)
	}, Browsed: func(s *command.BrowseSlice) {
		p.fe.BrowseDone(s, r.now)
	}}, r.now)
	r.log.conns[r.local] = p.fe
	r.pairs = append(r.pairs, p)
	return p
}

// pump moves bytes, entries and effects until nothing moves any more.
func (r *rig) pump() {
	r.t.Helper()
	for range 10_000 {
		moved := false
		for _, p := range r.pairs {
			moved = p.move() || moved
		}
		moved = r.log.step(r.t) || moved
		if !moved {
			return
		}
	}
	r.t.Fatal("it never comes to rest")
}

func (p *pair) move() (moved bool) {
	if p.cut {
		return false
	}
	p.up = append(p.up, p.cl.TakeOutput(nil, p.r.now)...)
	n := p.fe.Input(p.up, p.r.now)
	p.up = append([]byte(nil), p.up[n:]...)
	moved = n > 0
	p.fe.Flush(p.r.now)
	if !p.stuck {
		out := p.fe.TakeOutput(nil, p.r.now)
		p.shadow = append(p.shadow, out...)
		p.wrote += len(out)
		p.down = append(p.down, out...)
		moved = moved || len(out) > 0
	}
	p.fe.Flush(p.r.now)
	if p.deaf {
		return moved
	}
	n, _ = p.cl.Input(p.down, p.r.now)
	for ev, ok := p.cl.Next(); ok; ev, ok = p.cl.Next() {
		if ev.Delivery != nil {
			ev.Delivery.Payload = bytes.Clone(ev.Delivery.Payload)
		}
		ev.Deliveries = slices.Clone(ev.Deliveries)
		p.events = append(p.events, ev)
		moved = true
	}
	p.down = append([]byte(nil), p.down[n:]...)
	return moved || n > 0
}

// wait moves the clock on and ticks.
func (r *rig) wait(d time.Duration) {
	r.t.Helper()
	const step = 100 * time.Millisecond
	for d > 0 {
		r.now = r.now.Add(min(d, step))
		d -= step
		for _, p := range r.pairs {
			if !p.cut && !p.fe.Done() {
				p.fe.Tick(r.now)
			}
		}
		r.pump()
	}
}

// lose cuts the socket.
func (p *pair) lose(cause command.EndCause) {
	p.r.t.Helper()
	p.fe.Lost(cause, p.r.now)
	p.cut = true
	p.r.pump()
}

// find gives the first event of a kind, and drops those before it.
func (p *pair) find(kind engine.EventKind) engine.Event {
	p.r.t.Helper()
	p.r.pump()
	for i, ev := range p.events {
		if ev.Kind == kind {
			p.events = p.events[i+1:]
			return ev
		}
	}
	p.r.t.Fatalf("no event %d among %s", kind, p.list())
	return engine.Event{}
}

func (p *pair) none(kind engine.EventKind) {
	p.r.t.Helper()
	p.r.pump()
	for _, ev := range p.events {
		if ev.Kind == kind {
			p.r.t.Fatalf("unexpected event %d: %+v", kind, ev)
		}
	}
}

func (p *pair) list() string {
	s := ""
	for _, ev := range p.events {
		s += fmt.Sprintf(" %d(err %v)", ev.Kind, ev.Err)
	}
	return s
}

// open opens a connection as a plain client.
func (r *rig) open(container string, change ...func(*amqp.Open)) *pair {
	r.t.Helper()
	p := r.connect()
	o := amqp.NewOpen(container)
	for _, f := range change {
		f(o)
	}
	if err := p.cl.Open(*o); err != nil {
		r.t.Fatal(err)
	}
	p.find(engine.Opened)
	return p
}

// ours makes an Open that of our client.
func ours(nonce byte, attempt uint32) func(*amqp.Open) {
	return func(o *amqp.Open) {
		o.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqClient}
		o.Properties = amqp.Map{
			{Key: amqp.PropProduct, Value: "oncemq"},
			{Key: amqp.PropNonce, Value: amqp.UUID{nonce}},
			{Key: amqp.PropAttempt, Value: attempt},
		}
	}
}

func (p *pair) begin(change ...func(*amqp.Begin)) *engine.Session {
	p.r.t.Helper()
	b := amqp.NewBegin()
	for _, f := range change {
		f(b)
	}
	s, err := p.cl.Begin(*b)
	if err != nil {
		p.r.t.Fatal(err)
	}
	p.find(engine.SessionBegun)
	return s
}

// resumable makes a Begin that of a session with an identity; nil begins a new one.
func resumable(nonce byte, id []byte) func(*amqp.Begin) {
	return func(b *amqp.Begin) {
		b.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqSession}
		b.Properties = amqp.Map{{Key: amqp.PropSession, Value: nil}, {Key: amqp.PropNonce, Value: amqp.UUID{nonce}}}
		if id != nil {
			b.Properties[0].Value = id
		}
	}
}

func sessionID(s *engine.Session) []byte {
	v, _ := s.Remote().Properties.Lookup(string(amqp.PropSession))
	id, _ := v.([]byte)
	return id
}

var allOutcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeRejected, amqp.OutcomeReleased, amqp.OutcomeModified}

// attach attaches and gives the event of the answer.
func (p *pair) attach(s *engine.Session, a *amqp.Attach) (*engine.Link, engine.Event) {
	p.r.t.Helper()
	l, err := s.Attach(*a)
	if err != nil {
		p.r.t.Fatal(err)
	}
	return l, p.find(engine.LinkAttached)
}

func senderAttach(name, address string) *amqp.Attach {
	a := amqp.NewAttach(name, amqp.RoleSender)
	a.Source = &amqp.Source{Outcomes: allOutcomes}
	a.Target = &amqp.Target{}
	if address != "" {
		a.Target.Address = amqp.Some(address)
	}
	return a
}

func (p *pair) sender(s *engine.Session, address string, change ...func(*amqp.Attach)) *engine.Link {
	p.r.t.Helper()
	a := senderAttach(fmt.Sprintf("s-%s-%d", address, len(p.shadow)), address)
	for _, f := range change {
		f(a)
	}
	l, ev := p.attach(s, a)
	if ev.Refused {
		p.r.t.Fatalf("refused: %v", p.find(engine.LinkDetached).Err)
	}
	p.r.pump()
	return l
}

func receiverAttach(name, address string) *amqp.Attach {
	a := amqp.NewAttach(name, amqp.RoleReceiver)
	a.SenderSettleMode = amqp.SenderSettleUnsettled
	a.Source = &amqp.Source{Address: amqp.Some(address), Outcomes: allOutcomes}
	a.Target = &amqp.Target{}
	return a
}

func (p *pair) receiver(s *engine.Session, address string, credit uint32, change ...func(*amqp.Attach)) *engine.Link {
	p.r.t.Helper()
	a := receiverAttach(fmt.Sprintf("r-%s-%d", address, len(p.shadow)), address)
	for _, f := range change {
		f(a)
	}
	l, ev := p.attach(s, a)
	if ev.Refused {
		p.r.t.Fatalf("refused: %v", p.find(engine.LinkDetached).Err)
	}
	if credit > 0 {
		if err := l.SetCredit(credit, false); err != nil {
			p.r.t.Fatal(err)
		}
	}
	return l
}

// text is a message with a text body.
func text(s string) []byte { return amqp.AppendAMQPValue(nil, s) }

var tags uint64

func (p *pair) send(l *engine.Link, t engine.Transfer) *engine.Delivery {
	p.r.t.Helper()
	if t.Tag == nil {
		tags++
		t.Tag = []byte(fmt.Sprint("t", tags))
	}
	d, err := l.Send(t)
	if err != nil {
		p.r.t.Fatal(err)
	}
	return d
}

func (p *pair) sendText(l *engine.Link, texts ...string) (ds []*engine.Delivery) {
	p.r.t.Helper()
	for _, s := range texts {
		if l.Credit() == 0 {
			p.r.pump()
		}
		ds = append(ds, p.send(l, engine.Transfer{Payload: [][]byte{text(s)}}))
	}
	p.r.pump()
	return ds
}

// got is a message as a client received it.
type got struct {
	d    *engine.Delivery
	text string
	head amqp.Header
}

// received gives the messages that came since the last take of events.
func (p *pair) received() (all []got) {
	p.r.t.Helper()
	p.r.pump()
	rest := p.events[:0:0]
	for _, ev := range p.events {
		if ev.Kind != engine.Received {
			rest = append(rest, ev)
			continue
		}
		g := got{d: ev.Delivery}
		s, err := amqp.ParseSections(ev.Delivery.Payload, amqp.Limits{})
		if err != nil {
			p.r.t.Fatalf("a bad message came: %v", err)
		}
		g.head, _ = amqp.DecodeHeader(s.Header)
		if v, err := s.Value(amqp.Limits{}); err == nil {
			g.text, _ = v.(string)
		}
		all = append(all, g)
	}
	p.events = rest
	return all
}

// texts are the bodies of messages, joined.
func texts(all []got) string {
	s := ""
	for _, g := range all {
		if s != "" {
			s += " "
		}
		s += g.text
	}
	return s
}

func (p *pair) want(want string) []got {
	p.r.t.Helper()
	all := p.received()
	if g := texts(all); g != want {
		p.r.t.Fatalf("received %q, want %q", g, want)
	}
	return all
}

func wantState[S amqp.DeliveryState](t testing.TB, d *engine.Delivery, settled bool) S {
	t.Helper()
	s, ok := d.State.(S)
	if !ok || d.Settled != settled {
		t.Fatalf("state %T %+v settled %v, want %T settled %v", d.State, d.State, d.Settled, s, settled)
	}
	return s
}

func wantRejected(t testing.TB, d *engine.Delivery, condition amqp.Symbol) *amqp.Error {
	t.Helper()
	s, ok := d.State.(*amqp.Rejected)
	if !ok || s.Error == nil || s.Error.Condition != condition {
		t.Fatalf("state %T %+v, want rejected %s", d.State, d.State, condition)
	}
	return s.Error
}

// wantDetached waits for the link's end with an error.
func (p *pair) wantDetached(l *engine.Link, condition amqp.Symbol) {
	p.r.t.Helper()
	ev := p.find(engine.LinkDetached)
	if ev.Link != l || ev.Err == nil || ev.Err.AMQP.Condition != condition {
		p.r.t.Fatalf("detached: link %v err %v, want %s", ev.Link == l, ev.Err, condition)
	}
}

// depth is the number of messages in a queue, and how many of them are in somebody's hands.
func (r *rig) depth(queue string) string {
	q, ok := r.log.m.Queue(queue)
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%d/%d", q.Depth, q.InFlight)
}

func (r *rig) wantDepth(queue, want string) {
	r.t.Helper()
	r.pump()
	if d := r.depth(queue); d != want {
		r.t.Fatalf("queue %s holds %s, want %s", queue, d, want)
	}
}
