package state

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// chaos makes commands that are valid in form and arbitrary in meaning, from bytes: a
// fuzzer's or a seeded generator's. Ids come from small sets and from what effects
// have told, so that commands meet.
type chaos struct {
	*bundle
	bytes    []byte
	conns    []*peer
	sessions []command.SessionID
	refs     []heldRef
	sent     int
	parts    uint64
}

type heldRef struct {
	conn command.ConnID
	link uint32
	inc  command.Incarnation
	ref  command.DeliveryRef
}

func (c *chaos) byte() int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b)
}

func (c *chaos) n(n int) int { return c.byte() % n }

func (c *chaos) chance(percent int) bool { return c.byte()*100/256 < percent }

func (c *chaos) queue() string {
	if c.chance(10) {
		for _, inc := range sortedKeys(c.m.byInc) {
			if a := c.m.byInc[inc]; a.temporary != nil && c.chance(50) {
				return a.name
			}
		}
	}
	return []string{"a", "a", "a", "b", "b", "t", "t", "t", "t", "u", "DLQ.a", "DLQ.t", "$x"}[c.n(13)]
}

// routing is most often what the name is for.
func (c *chaos) routing(name string) command.Routing {
	switch {
	case c.chance(5):
		return command.Routing(c.n(3))
	case name == "t" || name == "u":
		return command.Multicast
	}
	return command.AnyRouting
}

func (c *chaos) subscription() (s command.Subscription) {
	if c.chance(70) {
		s.Name = fmt.Sprint("n", c.n(2))
		s.Durable, s.Shared, s.Global = c.chance(60), c.chance(50), c.chance(30)
	}
	s.NoLocal = c.chance(25)
	return s
}

// link is a link number, most often one that is there.
func (c *chaos) link(p *peer) uint32 {
	if x := c.m.conns[p.id]; x != nil && len(x.links) > 0 && c.chance(75) {
		numbers := sortedKeys(x.links)
		return numbers[c.n(len(numbers))]
	}
	return uint32(1 + c.n(4))
}

// session is most often one that is open on the connection.
func (c *chaos) session(p *peer) (id command.SessionID) {
	if x := c.m.conns[p.id]; x != nil && len(x.sessions) > 0 && c.chance(75) {
		return x.sessions[c.n(len(x.sessions))].id
	}
	if len(c.sessions) > 0 && c.chance(85) {
		return c.sessions[len(c.sessions)-1-c.n(min(len(c.sessions), 6))]
	}
	return id
}

// waiting is most often a session of the connection's client that could resume.
func (c *chaos) waiting(p *peer) command.SessionID {
	if x := c.m.conns[p.id]; x != nil && c.chance(80) {
		for _, id := range c.sessions {
			if s := c.m.sessions[id]; s != nil && s.client == x.client && s.process == x.nonce && s.conn == nil && c.chance(50) {
				return id
			}
		}
	}
	return c.session(p)
}

// someRefs are deliveries, most of them the link's own.
func (c *chaos) someRefs(p *peer, link uint32) (refs []command.DeliveryRef) {
	if x := c.m.conns[p.id]; x != nil && x.links[link] != nil && c.chance(85) {
		for di := x.links[link].first; di != 0 && len(refs) < 5; di = c.m.deliveries.at(di).next {
			if d := c.m.deliveries.at(di); c.chance(50) {
				refs = append(refs, command.DeliveryRef{Message: c.m.messages.at(d.message).seq, Attempt: d.attempt})
			}
		}
	}
	for i := len(c.refs) - 1; i >= 0 && len(refs) < 5 && c.chance(20); i-- {
		refs = append(refs, c.refs[i].ref)
	}
	if c.chance(3) {
		refs = append(refs, command.DeliveryRef{Message: uint64(c.n(20)), Attempt: uint32(c.n(4))})
	}
	return refs
}

// received is most often that everything was.
func (c *chaos) received() uint64 {
	return []uint64{0, 0, noneReceived, uint64(1 + c.n(12))}[c.n(4)]
}

func (c *chaos) disposition() (d command.Disposition) {
	d.Outcome = command.Disposed(1 + min(c.n(8), 3))
	if d.Outcome == command.Modified {
		d.Failed, d.UndeliverableHere = c.chance(50), c.chance(40)
		if c.chance(30) {
			d.Annotations = wrapMap(appendText(appendSymbol(nil, fmt.Sprint("k", c.n(3))), fmt.Sprint(c.n(9))), 2)
		}
	}
	if d.Outcome == command.Rejected && c.chance(50) {
		d.Reason = "bad"
	}
	return d
}

func (c *chaos) tx(p *peer) (tx command.TxID) {
	if c.chance(25) {
		return tx
	}
	return command.NewTxID(c.session(p), uint64(c.n(12)))
}

func (c *chaos) known() (k command.Known) {
	if c.chance(40) {
		k.Through = uint64(c.n(12))
		if c.chance(40) {
			k.Unknown = []uint64{uint64(c.n(6)), uint64(4 + c.n(8))}
		}
	}
	return k
}

func (c *chaos) message() []byte {
	c.sent++
	m := []byte(fmt.Sprint("message ", c.sent))
	if c.chance(60) {
		m = coloured(string(m), 1+c.n(3))
	}
	if c.chance(20) {
		m = late(m, annotationDeliveryDelay, int64(1+c.n(3)*1500))
	}
	switch {
	case c.chance(25):
		m = urgent(m, uint8(c.n(4)*3))
	case c.chance(30):
		m = brief(m, uint8(4+c.n(2)), uint32(1+c.n(3)*2000))
	}
	return m
}

func (c *chaos) txSettles(p *peer) (all []command.TxSettle) {
	link := c.link(p)
	for _, ref := range c.someRefs(p, link) {
		all = append(all, command.TxSettle{Link: link, Ref: ref, Settled: c.chance(60), Disposition: c.disposition()})
	}
	return all
}

func (c *chaos) inc(name string) command.Incarnation {
	q, _ := c.m.Queue(name)
	if c.chance(5) {
		q.Incarnation++
	}
	return q.Incarnation
}

// command is a random command of a connection.
func (c *chaos) command(p *peer) command.Command {
	link := c.link(p)
	switch c.n(26) {
	case 0:
		return &command.SessionOpen{Conn: p.id, Request: 1, Session: c.waiting(p), Nonce: [16]byte{byte(c.n(4))}, Rollback: c.chance(20)}
	case 1:
		return &command.SessionEnd{Conn: p.id, Session: c.session(p), Known: c.known()}
	case 2, 3:
		o := &command.LinkOpen{
			Conn: p.id, Link: uint32(1 + c.n(6)), Session: c.session(p), Name: fmt.Sprint("l", c.n(2)), Address: c.queue(),
			Create: c.chance(80), Presettled: c.chance(15), Resume: c.chance(50), Subscription: c.subscription(),
		}
		if o.Routing = c.routing(o.Address); c.chance(5) {
			o.Address = ""
		}
		if c.chance(40) {
			o.Filter = colours(c, c.n(4))
		}
		if c.chance(15) {
			o.Dynamic, o.Address = command.DynamicQueue, ""
			return o
		}
		if s := c.m.sessions[o.Session]; s != nil && s.links[o.Name] != nil && c.chance(80) {
			sub := s.links[o.Name].sub
			o.Address, o.Routing, o.Subscription = sub.address.name, command.AnyRouting, sub.is
			if c.chance(70) {
				if o.Filter = s.links[o.Name].filter.bytes(); sub.address.topic {
					o.Filter = sub.filter.bytes()
				}
			}
			for di := s.links[o.Name].first; di != 0 && o.Resume; di = c.m.deliveries.at(di).next {
				if d := c.m.deliveries.at(di); c.chance(60) {
					o.Unsettled = append(o.Unsettled, command.Unsettled{
						Incarnation: s.links[o.Name].sub.address.inc,
						Ref:         command.DeliveryRef{Message: c.m.messages.at(d.message).seq, Attempt: d.attempt},
					})
				}
			}
		}
		if o.Resume {
			for i := 0; i < len(c.refs) && len(o.Unsettled) < 6; i++ {
				if r := c.refs[len(c.refs)-1-i]; c.chance(30) {
					o.Unsettled = append(o.Unsettled, command.Unsettled{Incarnation: r.inc, Ref: r.ref})
				}
			}
		}
		return o
	case 4:
		return &command.LinkEnd{Conn: p.id, Link: link, Closed: c.chance(60), Terminus: c.chance(50), Received: c.received(), Unwritten: c.someRefs(p, link), Enlisted: c.someRefs(p, link)}
	case 5:
		address := c.queue()
		s := &command.SenderOpen{
			Routing: c.routing(address),
			Conn:    p.id, Link: uint32(1 + c.n(6)), Session: c.session(p), Name: fmt.Sprint("s", c.n(2)), Address: address,
			Create: c.chance(80), Numbered: c.chance(50), Held: []uint64{1, 2, 3}, Resends: c.chance(80),
		}
		if c.chance(15) {
			s.Dynamic, s.Address = command.DynamicQueue, ""
		}
		return s
	case 6:
		if x := c.m.conns[p.id]; x != nil && len(x.attached) > 0 && c.chance(60) {
			link = sortedKeys(x.attached)[0]
		}
		return &command.SenderEnd{Conn: p.id, Link: link, Closed: c.chance(50)}
	case 7, 8, 9:
		return &command.Allow{Conn: p.id, Link: link, Messages: uint32(c.n(6)), Bytes: uint64(c.n(100))}
	case 10:
		return &command.Withdraw{Conn: p.id, Link: link, Received: c.received(), Unwritten: c.someRefs(p, link)}
	case 11, 12, 13, 14:
		q := c.queue()
		s := &command.Send{Conn: p.id, Link: link, Request: 1, Number: uint64(max(0, c.n(12)-6)), Address: q, Message: c.message()}
		if c.chance(60) {
			s.Target = c.inc(q)
		}
		if x := c.m.conns[p.id]; x != nil && len(x.attached) > 0 && c.chance(60) {
			s.Link, s.Number = sortedKeys(x.attached)[0], 0
			s.Message = identified(fmt.Sprint("id", c.n(20)), s.Message)
		} else if x != nil && len(x.senders) > 0 && c.chance(60) {
			numbers := sortedKeys(x.senders)
			s.Link = numbers[c.n(len(numbers))]
			if st := x.senders[s.Link].stream; st != nil {
				s.Number = st.last + uint64(c.n(4))
			}
		}
		return s
	case 15:
		if x := c.m.conns[p.id]; x != nil && len(x.senders) > 0 {
			link = sortedKeys(x.senders)[0]
		}
		return &command.SendForget{Conn: p.id, Link: link, Numbers: []uint64{uint64(c.n(6)), uint64(c.n(20))}}
	case 16, 17, 18:
		return &command.Settle{Conn: p.id, Link: link, Request: uint64(c.n(2)), Keep: c.chance(40), Disposition: c.disposition(), Refs: c.someRefs(p, link)}
	case 19:
		return &command.Forget{Conn: p.id, Link: link, Refs: c.someRefs(p, link)}
	}
	return c.decision(p)
}

func (c *chaos) decision(p *peer) command.Command {
	switch c.n(9) {
	case 0, 1, 2:
		t := &command.Commit{Conn: p.id, Request: 1, Tx: c.tx(p), Named: c.chance(25), Operations: -1, Known: c.known(), Settles: c.txSettles(p)}
		for range c.n(3) {
			q := c.queue()
			t.Sends = append(t.Sends, command.TxSend{Target: c.inc(q), Address: q, Message: c.message()})
		}
		t.Counted = uint32(len(t.Sends) + len(t.Settles))
		if c.chance(20) {
			t.Operations = int64(c.n(4))
		}
		return t
	case 3:
		return &command.Rollback{Conn: p.id, Request: 1, Tx: c.tx(p), Named: c.chance(25), Known: c.known(), Reason: []string{"", "odd"}[c.n(2)], Settles: c.txSettles(p)}
	case 4:
		return &command.Outcome{Conn: p.id, Request: 1, Tx: c.tx(p), Decide: c.chance(50)}
	case 5:
		return &command.TokenOpen{Conn: p.id, Request: 1}
	case 6:
		name := c.queue()
		return &command.QueueCreate{Conn: p.id, Request: 1, Name: name, Routing: c.routing(name)}
	case 7:
		if c.chance(30) {
			return &command.QueueDelete{Conn: p.id, Request: 1, Name: c.queue()}
		}
		return &command.QueuePurge{Conn: p.id, Request: 1, Name: c.queue()}
	}
	if c.chance(60) {
		return &command.Allow{Conn: p.id, Link: c.link(p), Messages: 3, Bytes: 1000}
	}
	e := &command.ConnEnd{Conn: p.id, Cause: command.EndCause(1 + c.n(5))}
	for n := uint32(1); n <= 4; n++ {
		e.Links = append(e.Links, command.LinkUnwritten{Link: n, Received: c.received(), Unwritten: c.someRefs(p, n)})
	}
	return e
}

// step applies one random entry.
func (c *chaos) step() {
	c.conns = slices.DeleteFunc(c.conns, func(p *peer) bool { return c.m.conns[p.id] == nil && len(c.conns) > 3 && !c.chance(10) })
	switch k := c.n(100); {
	case k == 99 && c.chance(15):
		c.newHistory() // nothing of the old one is found any more
	case k == 0:
		c.up(command.NodeID(1 + c.n(3)))
	case k == 1:
		n := command.NodeID(1 + c.n(3))
		c.system(&command.NodeDown{Node: n, Epoch: c.epochs[n]})
		if c.chance(80) {
			c.up(n)
		}
	case k == 2:
		pass := []int64{1, 4_000, 6_000, 61_000, retention / 2, retention + 1}[c.n(6)]
		c.civil, c.running = c.civil+pass, c.running+pass
		c.system(&command.Tick{})
	case k == 3 && c.chance(50):
		c.system(&command.NodeRoom{Node: command.NodeID(1 + c.n(4)), Disk: command.Room(c.n(8) / 3), Memory: []uint64{0, 0, 30_000, 1 << 30}[c.n(4)]})
	case k == 4 && c.chance(50):
		c.clusterCommand()
	case k < 7 || len(c.conns) == 0 || k < 30 && len(c.m.conns) < 3:
		c.locals++
		n := command.NodeID(1 + c.n(3))
		c.do(n, &command.ConnOpen{
			Local: c.locals, Principal: []string{"alice", "bob"}[c.n(8)/7], ContainerID: []string{"x", "y"}[c.n(2)],
			Nonce: [16]byte{byte(c.n(3))}, Attempt: uint32(c.locals) - uint32(c.n(8)/7), SoleConnection: c.chance(10),
		})
	case k < 34:
		p := c.conns[len(c.conns)-1]
		body := command.Append(command.Append(nil, c.command(p)), c.command(p))
		at := len(body) / 2
		c.parts++
		c.do(p.node, &command.Part{Command: c.parts, Data: body[:at]})
		c.do(p.node, &command.Part{Command: c.parts, Offset: uint64(at), Last: true, Data: body[at:]})
	case k == 34:
		c.memberStep()
	case k < 36:
		var cs []command.Command
		for _, name := range []string{"alice", "bob"} {
			if !c.m.guarded { // from now on connections need a user
				cs = append(cs, &command.UserPut{Rule: command.UserNew, Name: name})
			}
		}
		c.do(command.NodeID(1+c.n(3)), append(cs, c.userCommand())...)
	case k < 45:
		c.refusedChangesNothing()
	default:
		var records []command.Record
		for range 1 + c.n(3) {
			p := c.conns[len(c.conns)-1-c.n(min(len(c.conns), 4))]
			var cs []command.Command
			for range 1 + c.n(4) {
				cs = append(cs, c.command(p))
			}
			records = append(records, c.record(p.node, cs...))
		}
		c.entry(records...)
	}
	c.learn()
}

// memberStep lets nodes join and go, and changes the configuration; nodes 1 to 3 stay, since they are the homes here.
func (c *chaos) memberStep() {
	node := command.NodeID(1 + c.n(3))
	other := c.m.LastNode() + 1 - command.NodeID(c.n(4))
	switch c.n(5) {
	case 4:
		c.system(&command.MemberGone{Node: max(other, 4)})
	case 0:
		c.do(node, &command.TokenPut{Request: 1, Hash: [32]byte{byte(c.n(3))}, Expires: c.civil + 50_000 - int64(c.n(60_000))})
	case 1:
		c.do(node, &command.MemberAdd{
			Request: 1, Token: [32]byte{byte(c.n(3))}, Key: [32]byte{byte(c.n(3))}, Name: []string{"", "d", "e"}[c.n(3)],
			Addresses: command.Addresses{Peer: "peer"},
		})
	case 2:
		c.do(node, &command.MemberRemove{Request: 1, Nodes: []command.NodeID{max(other, 4)}})
	case 3:
		cfg := Configuration{Voters: []command.NodeID{1, 2, 3}, AutoLeave: c.chance(20)}
		for _, m := range c.m.Members() {
			if m.ID > 3 && c.chance(60) {
				cfg.Learners = append(cfg.Learners, m.ID)
			}
		}
		c.configure(cfg)
	}
}

// clusterCommand sets the time or says that the level is to be raised, or an entry is skipped.
func (c *chaos) clusterCommand() {
	switch c.n(4) {
	case 0:
		c.do(command.NodeID(1+c.n(3)), &command.Finalize{Request: 1, Level: command.Level + uint32(c.n(2)), Version: "v9"})
	case 1:
		c.skip(c.record(1, &command.QueueCreate{Name: "skipped"}))
		c.numbers[1]-- // it has to come again
	default:
		to := c.civil + int64(c.n(200)-150)*3_600_000
		c.do(command.NodeID(1+c.n(3)), &command.SetTime{Request: 1, Civil: to, By: "chaos"})
		if c.m.civil.now == to { // not through a node that is down
			c.civil = to
		}
	}
}

// userCommand makes, changes or deletes a user; whose connections end then.
func (c *chaos) userCommand() command.Command {
	name := []string{"alice", "bob", "ANONYMOUS", ""}[c.n(16)/5]
	if c.chance(25) {
		return &command.UserDelete{Request: 1, Name: name}
	}
	return &command.UserPut{
		Request: 1, Name: name, Rule: command.UserRule(1 + c.n(2)), Seed: [32]byte{byte(c.n(4))},
		Keys: command.ScramKeys{Iterations: []uint32{0, 1, 50_000}[c.n(3)], Salt: [16]byte{byte(c.n(4))}},
	}
}

// refusedChangesNothing applies one command alone; if it is refused, only the clock and
// its node's number change [4.4]. (A refused numbered send is kept with its number.)
func (c *chaos) refusedChangesNothing() {
	idle := !c.m.Next().Now(c.civil, c.running)
	p := c.conns[len(c.conns)-1]
	x := c.command(p)
	c.do(p.node, x)
	s, isSend := x.(*command.Send)
	refused := slices.ContainsFunc(c.effects, func(e command.Effect) bool { return e.Refusal != nil && e.Kind != command.EffectLinkEnded })
	if !idle || !refused || isSend && s.Number != 0 {
		return
	}
	for _, op := range c.disk.log {
		if !strings.HasPrefix(op, "put 000301") && !strings.HasPrefix(op, "put 000303") {
			c.Fatalf("%+v was refused (%+v) and did %s", x, c.effects, op)
		}
	}
}

// learn remembers what effects have told.
func (c *chaos) learn() {
	for _, e := range c.effects {
		switch d := e.Detail.(type) {
		case *command.ConnOpened:
			c.conns = append(c.conns, &peer{bundle: c.bundle, node: e.Node, local: e.Local, id: d.Conn})
		case *command.SessionOpened:
			c.sessions = append(c.sessions, d.Session)
		}
		if e.Kind == command.EffectTokenOpened && e.Refusal == nil {
			c.sessions = append(c.sessions, e.Tx.Session())
		}
		if e.Kind != command.EffectDeliver {
			continue
		}
		held := false
		for _, p := range c.conns {
			if p.local != e.Local {
				continue
			}
			c.refs = append(c.refs, heldRef{p.id, e.Link, e.Incarnation, e.Ref})
			if x := c.m.conns[p.id]; x != nil && c.m.held(x.links[e.Link], e.Ref) != 0 {
				held = true
			}
		}
		if !held {
			// What ended in the same entry may have taken the message with it, such as a
			// pre-settled link without its home's report (C13): the home reads nothing.
			continue
		}
		if v, ok, _ := ReadMessage(nil, testGroup, e.Incarnation, e.Ref.Message, c.disk.get); e.Payload != nil && (!ok || string(v) != string(e.Payload)) {
			c.Fatalf("payload %q, on disk %q", e.Payload, v)
		} else if !ok || !strings.Contains(string(v), "message") || len(v) != int(e.Size) {
			c.Fatalf("delivery %+v: on disk %q", e, v)
		}
	}
	if len(c.refs) > 60 {
		c.refs = c.refs[len(c.refs)-60:]
	}
	c.all = nil
}

// finishUp ends everything: nothing may be left but queues and waiting messages.
func (c *chaos) finishUp() {
	for n := command.NodeID(1); n <= 3; n++ {
		c.system(&command.NodeDown{Node: n, Epoch: c.epochs[n]})
	}
	c.tick(0)
	c.tick(2*retention + 1)
	c.tick(2*retention + 1)
	if c.m.Sessions() != 0 || len(c.m.clients) != 0 || len(c.m.ofUser) != 0 || len(c.m.linkByID) != 0 || len(c.m.streams) != 0 || len(c.m.results) != 0 || len(c.m.windows) != 0 || len(c.m.lostOf) != 0 {
		c.Fatalf("something is left:\n%s", c.m.dump())
	}
	c.up(1)
	for _, q := range c.m.Queues() {
		if q.InFlight != 0 {
			c.Fatalf("%+v", q)
		}
		c.do(1, &command.QueueDelete{Name: q.Name})
	}
	for _, u := range c.m.Users() {
		c.do(1, &command.UserDelete{Name: u.Name})
	}
	c.tick(0)
	for k := range c.disk.kv {
		if k[2] > keySeed && k[2] != keyTimeSet && k[2] != keySkip || k[2] == keyPart {
			c.Fatalf("key %x is left", k)
		}
	}
	if c.m.messages.live()+c.m.deliveries.live()+c.m.chunks.live()+len(c.m.overlays)+len(c.m.moved)+len(c.m.excluded) != 0 {
		c.Fatal("memory is left")
	}
}

func runChaos(t testing.TB, data []byte) { runTaped(t, data, nil) }

func runTaped(t testing.TB, data []byte, tape *tape) {
	c := &chaos{bundle: newTapedBundle(t, tape), bytes: data}
	if c.chance(50) { // little work an entry: jobs are the rule
		c.m.maxSteps, c.m.leastSteps = 6, 4
		tape.add(tapeFewSteps, 0, nil)
	}
	for len(c.bytes) > 0 {
		c.step()
	}
	c.finishUp()
}

var chaosSeeds = flag.Int("chaos", 40, "seeds of TestChaos")

// The most important test: whatever happens, a machine loaded from the keys is the
// same, goes on the same, and its invariants hold.
func TestChaos(t *testing.T) {
	const length = 3000
	for seed := range *chaosSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			data := make([]byte, length)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			runChaos(t, data)
		})
	}
}

func FuzzCommands(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 600 {
			data = data[:600]
		}
		runChaos(t, data)
	})
}

// FuzzApply: arbitrary bytes as an entry never panic.
func FuzzApply(f *testing.F) {
	b := newBundle(f)
	p := b.connect(1, "p")
	f.Add(command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{}), b.record(1, &command.Allow{Conn: p.id, Link: 1})))
	f.Add(command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{}), command.Record{Body: command.Append(nil, &command.NodeUp{Node: 1})}))
	f.Fuzz(func(t *testing.T, entry []byte) {
		b := newBundle(t)
		p := b.connect(1, "p")
		p.receiver(1, "q", 3)
		p.send("q", "a")
		if _, err := b.m.Apply(100, entry, b.disk, nil); err != nil {
			return
		}
		if err := b.m.verify(); err != nil {
			t.Fatal(err)
		}
	})
}
