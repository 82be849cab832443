package sim

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// generic is a client as any AMQP 1.0 library makes one: none of our capabilities, and no connection but those that a story
// asks for.
type generic struct {
	s    *stage
	name string
	sole bool // it wants to be its container-id's only connection
	a    *agent

	conn    *engine.Conn
	serial  uint32
	at      *node
	session *engine.Session
	opened  bool
	ended   bool
	fault   *engine.Error // of its end, if any
	tag     uint64

	queues  map[*engine.Link]string // receivers
	targets map[*engine.Link]string // and senders
	got     []received
	replies [][]byte // what came from a queue for replies
	drained bool
	said    map[*engine.Delivery]amqp.DeliveryState // the broker's answers
}

// received is a message that came.
type received struct {
	m     *message
	d     *engine.Delivery
	count uint32 // AMQP delivery-count
	first bool   // first-acquirer
}

// generic connects one to a node, and waits until its connection and its session are open.
func (s *stage) generic(name string, at *node) *generic {
	g := s.call(name, name, at, false)
	s.until(name+" is open", func() bool { return g.session != nil && g.opened })
	return g
}

// call connects one under a container-id and doesn't wait.
func (s *stage) call(name, container string, at *node, sole bool) *generic {
	g := &generic{
		s: s, name: name, at: at, sole: sole, serial: 1, queues: map[*engine.Link]string{}, targets: map[*engine.Link]string{},
		said: map[*engine.Delivery]amqp.DeliveryState{},
	}
	g.a = &agent{w: s.world, name: name, m: g}
	s.agents = append(s.agents, g.a)
	s.generics = append(s.generics, g)
	g.say("connects to n%d", at.id)
	g.conn = engine.New(engine.Config{IdleTimeout: time.Minute})
	o := amqp.NewOpen(container)
	if sole {
		o.DesiredCapabilities = []amqp.Symbol{amqp.CapSoleConnection}
	}
	_ = g.conn.Open(*o)
	s.after(0, g.a.pump)
	return g
}

func (g *generic) say(format string, args ...any) { g.s.say(g.name+" "+format, args...) }

func (g *generic) socket() (uint32, string) {
	if g.ended {
		return 0, ""
	}
	return g.serial, address(g.at.id)
}

func (g *generic) dialed(_ uint32, err error) {
	if err != nil {
		g.end(nil)
	}
}

func (g *generic) lost(uint32, error) { g.end(nil) }

func (g *generic) end(fault *engine.Error) {
	if g.ended {
		return
	}
	g.ended, g.fault = true, fault
	if fault != nil {
		g.say("is closed by its node: %s", fault.AMQP.Condition)
	} else {
		g.say("has no connection any more")
	}
}

func (g *generic) input(_ uint32, b []byte) int {
	n, _ := g.conn.Input(b, g.a.clock())
	g.work()
	return n
}

func (g *generic) output(uint32) []byte { return g.conn.TakeOutput(nil, g.a.clock()) }
func (g *generic) events() bool         { return false }
func (g *generic) deadline() time.Time {
	if g.ended {
		return time.Time{}
	}
	return g.conn.Tick(g.a.clock())
}
func (g *generic) tick() { g.conn.Tick(g.a.clock()); g.work() }

func (g *generic) work() {
	for ev, ok := g.conn.Next(); ok; ev, ok = g.conn.Next() {
		switch ev.Kind {
		case engine.Opened:
			g.opened = true
			g.session, _ = g.conn.Begin(*amqp.NewBegin())
		case engine.Closed:
			g.end(ev.Err)
		case engine.Received:
			g.receive(ev.Delivery)
		case engine.Disposed:
			for _, d := range ev.Deliveries {
				g.said[d] = ev.State
			}
		case engine.Drained:
			g.drained = true
		default:
		}
	}
}

func (g *generic) receive(d *engine.Delivery) {
	queue := g.queues[d.Link]
	if strings.HasPrefix(queue, "reply.") {
		g.replies = append(g.replies, append([]byte(nil), d.Payload...))
		d.Dispose(&amqp.Accepted{}, true)
		return
	}
	m := g.s.delivered(g.name, queue, append([]byte(nil), d.Payload...))
	sections, _ := amqp.ParseSections(d.Payload, amqp.Limits{})
	h, _ := amqp.DecodeHeader(sections.Header)
	g.got = append(g.got, received{m: m, d: d, count: h.DeliveryCount, first: h.FirstAcquirer})
}

// listen attaches a receiver with that much credit.
func (g *generic) listen(queue string, credit uint32) *engine.Link {
	return g.attach(queue, credit, amqp.SenderSettleMixed)
}

func (g *generic) attach(queue string, credit uint32, mode amqp.SenderSettleMode) *engine.Link {
	a := *amqp.NewAttach("from "+queue, amqp.RoleReceiver)
	a.SenderSettleMode = mode
	a.Source = &amqp.Source{Address: amqp.Some(queue), Outcomes: outcomes, DefaultOutcome: &amqp.Modified{DeliveryFailed: true}}
	a.Target = &amqp.Target{}
	l, err := g.session.Attach(a)
	if err != nil {
		g.s.stop("%s can't attach: %v", g.name, err)
	}
	g.queues[l] = queue
	g.credit(l, credit, false)
	g.s.until(g.name+" is attached", l.Attached)
	return l
}

func (g *generic) credit(l *engine.Link, n uint32, drain bool) {
	_ = l.SetCredit(n, drain)
	g.a.pump()
}

// die ends the client as a process that is killed, or silently, as a machine without power.
func (g *generic) die(silent bool) { g.a.die(silent) }

// producer attaches a sender.
func (g *generic) producer(target string) *engine.Link {
	for l, to := range g.targets {
		if to == target {
			return l
		}
	}
	a := *amqp.NewAttach("to "+target, amqp.RoleSender)
	a.Source = &amqp.Source{Address: amqp.Some(g.name), Outcomes: outcomes}
	a.Target = &amqp.Target{Address: amqp.Some(target)}
	l, err := g.session.Attach(a)
	if err != nil {
		g.s.stop("%s can't attach: %v", g.name, err)
	}
	g.targets[l] = target
	g.a.pump()
	g.s.until(g.name+" may send", func() bool { return l.Credit() > 0 })
	return l
}

// put sends a message and gives its delivery, for whose answer one waits with answer.
func (g *generic) put(l *engine.Link, state amqp.DeliveryState, payload []byte) *engine.Delivery {
	g.tag++
	d, err := l.Send(engine.Transfer{Tag: binary.BigEndian.AppendUint64(nil, g.tag), State: state, Payload: [][]byte{payload}})
	if err != nil {
		g.s.stop("%s can't send: %v", g.name, err)
	}
	g.a.pump()
	return d
}

// answer waits for what the broker says of a delivery.
func (g *generic) answer(d *engine.Delivery) amqp.DeliveryState {
	g.s.until(g.name+" is answered", func() bool { return g.said[d] != nil || g.ended })
	return g.said[d]
}
