package state

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// disk is a store in memory.
type disk struct {
	kv    map[string]string
	log   []string // operations of the entry
	quiet bool     // no log
}

func newDisk() *disk { return &disk{kv: make(map[string]string)} }

func (d *disk) Put(key, value []byte) {
	d.kv[string(key)] = string(value)
	if !d.quiet {
		d.log = append(d.log, fmt.Sprintf("put %x %x", key, value))
	}
}

func (d *disk) Insert(key, value []byte) {
	if old, ok := d.kv[string(key)]; ok {
		panic(fmt.Sprintf("insert of %x, which has the value %x", key, old))
	}
	d.Put(key, value)
}

func (d *disk) Delete(key []byte) {
	delete(d.kv, string(key))
	d.log = append(d.log, fmt.Sprintf("delete %x", key))
}

func (d *disk) DeleteRange(from, to []byte) {
	for k := range d.kv {
		if k >= string(from) && k < string(to) {
			delete(d.kv, k)
		}
	}
	d.log = append(d.log, fmt.Sprintf("range %x %x", from, to))
}

func (d *disk) copy() *disk {
	c := newDisk()
	for k, v := range d.kv {
		c.kv[k] = v
	}
	return c
}

func (d *disk) get(key, dst []byte) ([]byte, bool, error) {
	v, ok := d.kv[string(key)]
	return append(dst, v...), ok, nil
}

// next walks over the keys that Load needs.
func (d *disk) next(group uint16) func() ([]byte, []byte, bool) {
	from, to := BodyRange(group)
	keys := make([]string, 0, len(d.kv))
	for k := range d.kv {
		if k < string(from) || k >= string(to) {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return func() ([]byte, []byte, bool) {
		if len(keys) == 0 {
			return nil, nil, false
		}
		k := keys[0]
		keys = keys[1:]
		return []byte(k), []byte(d.kv[k]), true
	}
}

// bundle drives a machine and, entry by entry, another one that is loaded from the
// keys before the entry: both must do the same.
type bundle struct {
	testing.TB
	m       *Machine
	disk    *disk
	index   uint64
	civil   int64
	running int64
	epochs  map[command.NodeID]command.Epoch
	numbers map[command.NodeID]uint64
	effects []command.Effect // of the last entry
	all     []command.Effect // of all entries, but for EffectApplied
	locals  uint64
	request uint64
	nonces  byte
	// single leaves out the second machine, for large tests.
	single bool
	tape   *tape // takes what is applied; nil: nothing does
}

const testGroup = 3

// newBundle is a cluster with nodes 1 to 3 up.
func newBundle(t testing.TB) *bundle { return newTapedBundle(t, nil) }

// newTapedBundle is a bundle whose entries are recorded, if tape isn't nil.
func newTapedBundle(t testing.TB, tape *tape) *bundle {
	b := &bundle{
		tape: tape, single: tape != nil,
		TB: t, m: New(testGroup), disk: newDisk(), civil: 1_700_000_000_000, running: 1000,
		epochs: make(map[command.NodeID]command.Epoch), numbers: make(map[command.NodeID]uint64),
	}
	b.system(&command.ClusterInit{Cluster: [16]byte{7}, History: 5, Voters: []command.NodeID{1, 2, 3}, Level: command.Level, Version: "v0"})
	for n := command.NodeID(1); n <= 3; n++ {
		b.up(n)
	}
	return b
}

func (b *bundle) up(n command.NodeID) {
	b.nonces++
	b.system(&command.NodeUp{Node: n, Nonce: [16]byte{b.nonces}, Announcement: command.Announcement{Level: command.Level}})
	b.epochs[n], _ = b.m.Epoch(n)
	b.numbers[n] = 0
}

// record is a record of node n with these commands.
func (b *bundle) record(n command.NodeID, cs ...command.Command) command.Record {
	b.numbers[n]++
	var body []byte
	for _, c := range cs {
		b.received(c)
		body = command.Append(body, c)
	}
	return command.Record{Node: n, Epoch: b.epochs[n], Number: b.numbers[n], Body: body}
}

// noneReceived says that a home has had nothing yet.
const noneReceived = 1 << 63

// received fills in, where a test doesn't say otherwise, that the home has had all that
// was handed out.
func (b *bundle) received(c command.Command) {
	fill := func(conn command.ConnID, number uint32, n *uint64) {
		switch c := b.m.conns[conn]; {
		case *n == noneReceived:
			*n = 0
		case *n == 0 && c != nil && c.links[number] != nil:
			*n = c.links[number].told
		}
	}
	switch c := c.(type) {
	case *command.LinkEnd:
		fill(c.Conn, c.Link, &c.Received)
	case *command.Withdraw:
		fill(c.Conn, c.Link, &c.Received)
	case *command.ConnEnd:
		for i := range c.Links {
			fill(c.Conn, c.Links[i].Link, &c.Links[i].Received)
		}
	}
}

func (b *bundle) system(cs ...command.Command) []command.Effect {
	b.Helper()
	var body []byte
	for _, c := range cs {
		body = command.Append(body, c)
	}
	return b.entry(command.Record{Body: body})
}

// skip passes over an entry, on both machines.
func (b *bundle) skip(records ...command.Record) {
	b.Helper()
	entry := command.AppendEntry(nil, b.m.Stamp())
	for _, r := range records {
		entry = command.AppendRecord(entry, r)
	}
	b.index++
	b.tape.add(tapeSkip, b.index, entry)
	defer b.tape.digest(b.m)
	twin, err := Load(testGroup, b.disk.next(testGroup))
	if err == nil {
		err = twin.Skip(b.index, entry, b.disk.copy())
	}
	if err == nil {
		err = b.m.Skip(b.index, entry, b.disk)
	}
	if err != nil {
		b.Fatalf("skipping entry %d: %v", b.index, err)
	}
	b.same("the loaded machine, behind a skipped entry", b.m.dump(), twin.dump())
	b.effects = b.effects[:0]
}

// do applies one entry with one record of node n.
func (b *bundle) do(n command.NodeID, cs ...command.Command) []command.Effect {
	b.Helper()
	return b.entry(b.record(n, cs...))
}

// entry applies records as one entry.
func (b *bundle) entry(records ...command.Record) []command.Effect {
	b.Helper()
	e := command.AppendEntry(nil, command.EntryHeader{Civil: b.civil, Running: b.running, Sets: b.m.civil.sets})
	for _, r := range records {
		e = command.AppendRecord(e, r)
	}
	return b.apply(e)
}

func (b *bundle) apply(entry []byte) []command.Effect {
	b.Helper()
	b.tape.add(tapeEntry, b.index+1, entry)
	return b.run(func(m *Machine, out Changes) ([]command.Effect, error) { return m.Apply(b.index, entry, out, nil) })
}

// configure applies an entry that changes raft's configuration.
func (b *bundle) configure(c Configuration) []command.Effect {
	b.Helper()
	b.tape.add(tapeConfiguration, b.index+1, AppendConfiguration(nil, &c))
	return b.run(func(m *Machine, out Changes) ([]command.Effect, error) { return m.Configure(b.index, c, out, nil) })
}

// run applies an entry to the machine and to its twin.
func (b *bundle) run(apply func(*Machine, Changes) ([]command.Effect, error)) []command.Effect {
	b.Helper()
	b.index++
	var twin *Machine
	var before *disk
	if !b.single {
		var err error
		if twin, err = Load(testGroup, b.disk.next(testGroup)); err != nil {
			b.Fatalf("entry %d: load: %v", b.index, err)
		}
		twin.maxSteps, twin.leastSteps, twin.maxLost = b.m.maxSteps, b.m.leastSteps, b.m.maxLost
		b.same("the loaded machine", b.m.dump(), twin.dump())
		before = b.disk.copy()
	}
	b.disk.log, b.disk.quiet = nil, b.single
	effects, err := apply(b.m, b.disk)
	if err != nil {
		b.Fatalf("entry %d: %v", b.index, err)
	}
	b.tape.digest(b.m)
	if twin != nil {
		again, err := apply(twin, before)
		if err != nil {
			b.Fatalf("entry %d: the loaded machine: %v", b.index, err)
		}
		if !slices.Equal(b.disk.log, before.log) {
			b.Fatalf("entry %d: changes differ:\n%v\n%v", b.index, b.disk.log, before.log)
		}
		if !reflect.DeepEqual(effects, again) {
			b.Fatalf("entry %d: effects differ:\n%+v\n%+v", b.index, effects, again)
		}
		b.same("the loaded machine, an entry later", b.m.dump(), twin.dump())
		if b.m.Digest() != twin.Digest() {
			b.Fatal("digests differ")
		}
		if err := b.m.verify(); err != nil {
			b.Fatalf("entry %d: %v\n%s", b.index, err, b.m.dump())
		}
	}
	b.effects = b.effects[:0]
	for _, e := range effects {
		if e.Kind != command.EffectApplied {
			b.effects = append(b.effects, e)
			b.all = append(b.all, e)
		}
	}
	return b.effects
}

func (b *bundle) same(what, want, got string) {
	b.Helper()
	if want == got {
		return
	}
	w, g := bytes.Split([]byte(want), []byte("\n")), bytes.Split([]byte(got), []byte("\n"))
	for i := range w {
		if i >= len(g) || !bytes.Equal(w[i], g[i]) {
			other := []byte("(nothing)")
			if i < len(g) {
				other = g[i]
			}
			b.Fatalf("entry %d: %s differs:\nlive   %s\nloaded %s", b.index, what, w[i], other)
		}
	}
	b.Fatalf("entry %d: %s has more", b.index, what)
}

// tick lets running and civil time pass (ms) and ticks until nothing is left to do.
func (b *bundle) tick(ms int64) {
	b.Helper()
	b.civil += ms
	b.running += ms
	for i := 0; i == 0 || b.m.Next().Now(b.civil, b.running); i++ {
		if i > 10_000 {
			b.Fatal("the work has no end")
		}
		b.system(&command.Tick{})
	}
}

// peer is one connection in a test.
type peer struct {
	*bundle
	node  command.NodeID
	local uint64
	id    command.ConnID
}

// connect opens a connection of a generic client.
func (b *bundle) connect(n command.NodeID, container string) *peer {
	b.Helper()
	return b.connectAs(n, &command.ConnOpen{Principal: "alice", ContainerID: container})
}

// connectGo opens a connection of a client that can resume.
func (b *bundle) connectGo(n command.NodeID, container string, nonce byte, attempt uint32) *peer {
	b.Helper()
	return b.connectAs(n, &command.ConnOpen{Principal: "alice", ContainerID: container, Nonce: [16]byte{nonce}, Attempt: attempt})
}

func (b *bundle) connectAs(n command.NodeID, c *command.ConnOpen) *peer {
	b.Helper()
	b.locals++
	c.Local = b.locals
	b.do(n, c)
	e := b.one(command.EffectConnOpened)
	if e.Refusal != nil {
		b.Fatalf("connection refused: %+v", *e.Refusal)
	}
	return &peer{bundle: b, node: n, local: c.Local, id: e.Detail.(*command.ConnOpened).Conn}
}

// one is the only effect of that kind in the last entry.
func (b *bundle) one(kind command.EffectKind) command.Effect {
	b.Helper()
	es := b.kind(kind)
	if len(es) != 1 {
		b.Fatalf("want one effect of kind %d, got %d in %+v", kind, len(es), b.effects)
	}
	return es[0]
}

func (b *bundle) kind(kind command.EffectKind) (es []command.Effect) {
	for _, e := range b.effects {
		if e.Kind == kind {
			es = append(es, e)
		}
	}
	return es
}

func (p *peer) next() uint64 { p.request++; return p.request }

// receiver attaches a consumer and gives it an allowance.
func (p *peer) receiver(number uint32, queue string, allowance uint32) {
	p.Helper()
	p.attach(&command.LinkOpen{Link: number, Name: fmt.Sprint("r", number), Address: queue, Create: true}, allowance)
}

func (p *peer) attach(c *command.LinkOpen, allowance uint32) *command.LinkOpened {
	p.Helper()
	c.Conn, c.Request = p.id, p.next()
	cs := []command.Command{c}
	if allowance > 0 {
		cs = append(cs, &command.Allow{Conn: p.id, Link: c.Link, Messages: allowance, Bytes: 1 << 30})
	}
	p.do(p.node, cs...)
	e := p.one(command.EffectLinkOpened)
	if e.Refusal != nil {
		p.Fatalf("link refused: %+v", *e.Refusal)
	}
	return e.Detail.(*command.LinkOpened)
}

func (p *peer) allow(number, messages uint32) []command.Effect {
	p.Helper()
	return p.do(p.node, &command.Allow{Conn: p.id, Link: number, Messages: messages, Bytes: 1 << 30})
}

// send stores plain messages on an anonymous link, one command each.
func (p *peer) send(queue string, bodies ...string) {
	p.Helper()
	var cs []command.Command
	for _, body := range bodies {
		cs = append(cs, &command.Send{Conn: p.id, Link: 99, Request: p.next(), Address: queue, Message: []byte(body)})
	}
	p.do(p.node, cs...)
	for _, e := range p.kind(command.EffectSent) {
		if e.Refusal != nil {
			p.Fatalf("send refused: %+v", *e.Refusal)
		}
	}
}

// session opens (or resumes) a session.
func (p *peer) session(c command.SessionOpen) command.SessionID {
	p.Helper()
	c.Conn, c.Request = p.id, p.next()
	p.do(p.node, &c)
	e := p.one(command.EffectSessionOpened)
	if e.Refusal != nil {
		p.Fatalf("session refused: %+v", *e.Refusal)
	}
	return e.Detail.(*command.SessionOpened).Session
}

func (p *peer) settle(number uint32, outcome command.Disposed, refs ...command.DeliveryRef) {
	p.Helper()
	p.do(p.node, &command.Settle{Conn: p.id, Link: number, Request: p.next(), Disposition: command.Disposition{Outcome: outcome}, Refs: refs})
	if lost := p.one(command.EffectSettled).Refs; len(lost) != 0 {
		p.Fatalf("lost: %v", lost)
	}
}

// commit sends a commit and returns its answer.
func (p *peer) commit(c command.Commit) command.Effect {
	p.Helper()
	c.Conn, c.Request = p.id, p.next()
	if c.Counted == 0 {
		c.Counted = uint32(len(c.Sends) + len(c.Settles))
	}
	if c.Operations == 0 {
		c.Operations = -1
	}
	p.do(p.node, &c)
	return p.one(command.EffectDecided)
}

func (p *peer) rollback(c command.Rollback) command.Effect {
	p.Helper()
	c.Conn, c.Request = p.id, p.next()
	p.do(p.node, &c)
	return p.one(command.EffectDecided)
}

func (p *peer) outcome(tx command.TxID, decide bool) command.Effect {
	p.Helper()
	p.do(p.node, &command.Outcome{Conn: p.id, Request: p.next(), Tx: tx, Decide: decide})
	return p.one(command.EffectOutcome)
}

// body is the stored message of a delivery.
func (b *bundle) body(e command.Effect) string {
	b.Helper()
	v, ok, err := ReadMessage(nil, testGroup, e.Incarnation, e.Ref.Message, b.disk.get)
	if err != nil || !ok {
		b.Fatalf("message %+v isn't on disk: %v", e.Ref, err)
	}
	if e.Payload != nil && string(e.Payload) != string(v) {
		b.Fatalf("payload %q, on disk %q", e.Payload, v)
	}
	return string(v)
}

// delivered are the deliveries of the last entry: body, count and first-acquirer.
func (b *bundle) delivered() (all []string) {
	b.Helper()
	for _, e := range b.kind(command.EffectDeliver) {
		s := fmt.Sprintf("%s/%d", b.body(e), e.Count)
		if !e.FirstAcquirer {
			s += "+"
		}
		all = append(all, s)
	}
	return all
}

func (b *bundle) wantDelivered(want ...string) {
	b.Helper()
	if got := b.delivered(); !slices.Equal(got, want) {
		b.Fatalf("delivered %q, want %q", got, want)
	}
}

func (b *bundle) refs() (refs []command.DeliveryRef) {
	for _, e := range b.kind(command.EffectDeliver) {
		refs = append(refs, e.Ref)
	}
	return refs
}

func (b *bundle) wantDepth(queue string, depth, inFlight uint64) {
	b.Helper()
	q, _ := b.m.Queue(queue)
	if q.Depth != depth || q.InFlight != inFlight {
		b.Fatalf("%s: depth %d, in flight %d; want %d, %d", queue, q.Depth, q.InFlight, depth, inFlight)
	}
}

func wantOutcome(t testing.TB, e command.Effect, outcome command.TxOutcome, reason string) {
	t.Helper()
	if e.Refusal != nil || e.Outcome != outcome || e.Reason != reason {
		t.Fatalf("got %v %q %+v, want %v %q", e.Outcome, e.Reason, e.Refusal, outcome, reason)
	}
}
