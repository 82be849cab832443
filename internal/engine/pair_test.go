package engine

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// end is one of two engines back to back, with a user that answers what needs an answer and notes the rest.
type end struct {
	c        *Conn
	in       []byte // from the other end, not consumed
	spare    []byte
	received []*Delivery
	payloads []string
	disposed []*Delivery
	drained  int
	err      error
	onEvent  func(Event) bool // true: handled
}

// pair is a client and a server in one goroutine.
type pair struct {
	t              testing.TB
	client, server *end
	now            time.Time
}

// newPair is a pair with Open exchanged; the server's end has the same Config.
func newPair(t testing.TB, cfg Config) *pair {
	n := &pair{t: t, now: t0}
	n.client = &end{c: New(cfg)}
	cfg.Server = true
	n.server = &end{c: New(cfg)}
	_ = n.client.c.Open(amqp.Open{ContainerID: "client"})
	n.run()
	return n
}

// run carries bytes to and fro and answers events until all is quiet.
func (n *pair) run() {
	for turns := 0; n.step(n.client, n.server) || n.step(n.server, n.client); turns++ {
		if turns > 100_000 {
			n.t.Fatal("the two never come to rest")
		}
	}
}

// step carries what from has to say to to; false if it is nothing.
func (n *pair) step(from, to *end) bool {
	b := from.c.TakeOutput(from.spare, n.now)
	to.in = append(to.in, b...)
	from.spare = b
	if len(to.in) == 0 {
		return false
	}
	for {
		k, err := to.c.Input(to.in, n.now)
		if err != nil {
			to.err = err
		}
		for ev, ok := to.c.Next(); ok; ev, ok = to.c.Next() {
			if to.onEvent == nil || !to.onEvent(ev) {
				to.handle(ev)
			}
		}
		to.in = append(to.in[:0], to.in[k:]...)
		if len(to.in) == 0 || k == 0 {
			return true
		}
	}
}

// handle answers what the peer began, and keeps what came.
func (e *end) handle(ev Event) {
	switch ev.Kind {
	case Opened:
		_ = e.c.Open(amqp.Open{ContainerID: "server"})
	case Closed:
		_ = e.c.Close(nil)
	case SessionBegun:
		_ = ev.Session.Begin(amqp.Begin{})
	case SessionEnded:
		_ = ev.Session.End(nil)
	case LinkAttached:
		_ = ev.Link.Accept(*ev.Attach)
	case LinkDetached:
		_ = ev.Link.Detach(ev.Closed, nil)
	case Received:
		e.received = append(e.received, ev.Delivery)
		e.payloads = append(e.payloads, string(ev.Delivery.Payload))
	case Disposed:
		e.disposed = append(e.disposed, ev.Deliveries...)
	case Drained:
		e.drained++
	}
}

// link attaches a sender of the client's to the server and gives both ends.
func (n *pair) link(mode amqp.ReceiverSettleMode) (out, in *Link) {
	n.t.Helper()
	s, err := n.client.c.Begin(amqp.Begin{})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.linkOn(s, "link", mode)
}

func (n *pair) linkOn(s *Session, name string, mode amqp.ReceiverSettleMode) (out, in *Link) {
	n.t.Helper()
	a := amqp.NewAttach(name, amqp.RoleSender)
	a.ReceiverSettleMode = mode
	a.Source, a.Target = &amqp.Source{}, &amqp.Target{}
	out, err := s.Attach(*a)
	if err != nil {
		n.t.Fatal(err)
	}
	n.run()
	n.server.c.Sessions(func(s *Session) {
		s.Links(func(l *Link) {
			if l.Name() == name {
				in = l
			}
		})
	})
	if in == nil || !out.Attached() || !in.Attached() {
		n.t.Fatalf("not attached: %v %v", n.client.err, n.server.err)
	}
	return out, in
}
