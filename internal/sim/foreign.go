package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// foreign is what clients that are not ours have in common: an engine.Conn that is made anew, on the next node, whenever its
// connection is lost.
type foreign struct {
	a      *agent
	w      *world
	conn   *engine.Conn // nil: not connected
	serial uint32       // of the connection
	at     int          // the node that is dialled, from 0
	retry  time.Time
	tickAt time.Time

	pace    time.Duration   // how long it dwells on something, at most
	session *engine.Session // the one of the present connection, once it is begun
	patient bool            // it leaves it to its node to end a connection that comes to nothing

	open  func() *amqp.Open              // what a connection begins with
	begin func() *amqp.Begin             // and its session
	event func(ev *engine.Event)         // all that isn't the connection's own
	reset func()                         // the connection is gone, and all that hung on it
	ended func() bool                    // no further connection
	spoil func(out []byte) (sent []byte) // what is done to the bytes on their way out; nil: nothing
}

// newForeign starts a client by that name; its functions are to be set before the world goes on.
func (w *world) newForeign(name string) *foreign {
	g := &foreign{a: &agent{w: w, name: name}, w: w, at: w.rng.IntN(w.reach()), serial: 1, pace: w.pace()}
	if w.home > 0 {
		g.at = w.home - 1
	}
	g.retry = g.a.clock()
	g.a.m = g
	w.agents = append(w.agents, g.a)
	g.open = func() *amqp.Open { return amqp.NewOpen(name) }
	g.begin = amqp.NewBegin
	g.reset = func() {}
	w.after(0, g.a.pump)
	return g
}

// sole is the Open of a client that is to have one connection at a time: a new one ends the former.
func (g *foreign) sole() *amqp.Open {
	o := amqp.NewOpen(g.a.name)
	o.DesiredCapabilities = []amqp.Symbol{amqp.CapSoleConnection}
	return o
}

func (g *foreign) now() time.Time { return g.a.clock() }

// reconnect drops everything and plans the next dial.
func (g *foreign) reconnect(pause time.Duration) {
	g.reset()
	g.conn, g.session, g.tickAt = nil, nil, time.Time{}
	g.at = (g.at + 1) % g.w.reach()
	g.retry = g.now().Add(pause)
	g.serial++
}

func (g *foreign) socket() (uint32, string) {
	if g.ended() || g.now().Before(g.retry) {
		return 0, ""
	}
	return g.serial, address(g.at + 1)
}

func (g *foreign) dialed(serial uint32, err error) {
	if serial != g.serial {
		return
	}
	if err != nil {
		g.reconnect(g.w.between(20*time.Millisecond, 500*time.Millisecond))
		return
	}
	g.conn = engine.New(engine.Config{IdleTimeout: 10 * time.Second})
	_ = g.conn.Open(*g.open())
	g.a.soon(openTimeout, openTimeout, func() {
		if g.serial == serial && g.session == nil && !g.patient {
			g.hangUp()
		}
	})
}

// hangUp breaks the connection, and makes a new one.
func (g *foreign) hangUp() {
	g.a.hangUp(false)
	g.reconnect(0)
}

func (g *foreign) lost(serial uint32, _ error) {
	if serial == g.serial {
		g.reconnect(g.w.between(0, 200*time.Millisecond))
	}
}

func (g *foreign) input(serial uint32, b []byte) int {
	if serial != g.serial || g.conn == nil {
		return len(b)
	}
	n, err := g.conn.Input(b, g.now())
	g.work()
	if err != nil {
		g.reconnect(time.Second)
	}
	return n
}

func (g *foreign) output(serial uint32) []byte {
	if serial != g.serial || g.conn == nil {
		return nil
	}
	out := g.conn.TakeOutput(nil, g.now())
	if g.spoil != nil && len(out) > 0 {
		return g.spoil(out)
	}
	return out
}

func (g *foreign) events() bool { return false }

func (g *foreign) deadline() time.Time {
	switch {
	case g.conn != nil:
		return g.tickAt
	case g.now().Before(g.retry):
		return g.retry
	default:
		return time.Time{} // dialling
	}
}

func (g *foreign) tick() {
	if g.conn != nil {
		g.tickAt = g.conn.Tick(g.now())
		g.work()
	}
}

// work takes the engine's events. What a tick finds, such as a silent peer, is an event as well.
func (g *foreign) work() {
	for g.conn != nil {
		ev, ok := g.conn.Next()
		if !ok {
			g.tickAt = g.conn.Tick(g.now())
			if ev, ok = g.conn.Next(); !ok {
				return
			}
		}
		g.happened(&ev)
	}
}

func (g *foreign) happened(ev *engine.Event) {
	switch ev.Kind {
	case engine.Opened:
		if _, err := g.conn.Begin(*g.begin()); err != nil {
			g.reconnect(time.Second)
		}
	case engine.SessionBegun:
		g.session = ev.Session
		g.event(ev)
	case engine.Closed:
		g.w.say("%s is closed: %v", g.a.name, ev.Err)
		g.reconnect(g.w.between(0, 200*time.Millisecond))
	case engine.SessionEnded:
		g.event(ev)
		g.w.say("%s: its session has ended: %v", g.a.name, ev.Err)
		g.hangUp()
	case engine.LinkDetached:
		g.w.say("%s: a link is detached: %v", g.a.name, ev.Err)
		g.hangUp()
	default:
		g.event(ev)
	}
}

// soon does something a little later, if the connection is still the same.
func (g *foreign) soon(pause time.Duration, f func()) {
	serial := g.serial
	g.a.soon(0, pause, func() {
		if g.serial == serial && g.conn != nil {
			f()
			g.work()
		}
	})
}

// close ends the connection in order. A node that is gone does not answer: then the socket ends without.
func (g *foreign) close() {
	if g.conn == nil {
		return
	}
	_ = g.conn.Close(nil)
	serial := g.serial
	g.a.soon(openTimeout, openTimeout, func() {
		if g.serial == serial && g.conn != nil {
			g.hangUp()
		}
	})
}

// sender attaches a sender link with a target, or nil and the reason.
func (g *foreign) sender(name, queue string, capabilities ...amqp.Symbol) (*engine.Link, error) {
	a := *amqp.NewAttach(name, amqp.RoleSender)
	a.Source = &amqp.Source{Address: amqp.Some(g.a.name), Outcomes: outcomes}
	a.Target = &amqp.Target{Address: amqp.Some(queue)}
	a.DesiredCapabilities = capabilities
	if len(capabilities) > 0 {
		a.ReceiverSettleMode = amqp.ReceiverSettleSecond
	}
	return g.session.Attach(a)
}

// receiver attaches a receiver link without credit.
func (g *foreign) receiver(name, queue string) (*engine.Link, error) {
	a := *amqp.NewAttach(name, amqp.RoleReceiver)
	a.Source = &amqp.Source{Address: amqp.Some(queue), Outcomes: outcomes, DefaultOutcome: &amqp.Modified{DeliveryFailed: true}}
	a.Target = &amqp.Target{}
	return g.session.Attach(a)
}

var outcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeRejected, amqp.OutcomeReleased, amqp.OutcomeModified}
