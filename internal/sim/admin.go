package sim

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
)

// Times of the admin API and of its clients.
const (
	adminTimeout = 5 * time.Second        // of a request, at the node and at the client
	adminLook    = 100 * time.Millisecond // how soon a client notices that the process at the other end is gone
)

// admin is a client of the admin API: it makes, deletes, purges and reads queues through any node, repeats what was not
// answered, and, if it has a sender on the anonymous relay, stores messages in its queues.
type admin struct {
	w      *world
	name   string
	queues []string
	left   int
	at     int
	open   *call
	relay  *goClient
	snd    *client.Sender
	sends  int // without an answer
	// again is what is said again, as its last call had no answer.
	again *call
	tries int
	last  int // queues that were read once all was healed
}

// call is one request to one node.
type call struct {
	queue string
	kind  Kind
	op    *Operation
	n     *node
	life  int
}

// startAdmins starts administrators of queues of their own (K7), and others of queues that clients are attached to. room
// bounds how many, 0 or less: none.
func (w *world) startAdmins(room int) {
	if w.knobs.admins {
		queues := []string{"x", "y", "z"}[:1+w.rng.IntN(3)]
		for i := range 2 + w.rng.IntN(2) {
			if room--; room < 0 {
				return
			}
			w.jobs = append(w.jobs, w.newAdmin([]string{"admin0", "admin1", "admin2"}[i], queues, 6+w.rng.IntN(15), w.chance(60)))
		}
	}
	if w.knobs.churn {
		w.mortal["u"] = true
		if room -= 3; room < 0 {
			return
		}
		w.jobs = append(w.jobs, w.newChurner("u0", "u", 40), w.newAdmin("remover", []string{"u"}, 8, false))
		if w.chance(50) {
			w.jobs = append(w.jobs, w.newChurner("u1", "u", 40))
		} else {
			w.jobs = append(w.jobs, w.newPlain("u1", "u", "u", 15))
		}
	}
}

func (w *world) newAdmin(name string, queues []string, requests int, relay bool) *admin {
	x := &admin{w: w, name: name, queues: queues, left: requests, at: w.rng.IntN(len(w.nodes))}
	if relay {
		x.relay = w.newGoClient(name, false, func() { x.snd = x.relay.s.NewSender("", "") })
	}
	x.think()
	return x
}

func (x *admin) think() {
	long := 8 * x.w.knobs.think
	if x.w.winding {
		long = 20 * time.Millisecond
	}
	x.w.after(x.w.between(0, long), x.next)
}

// next makes the next request, or reads all queues at the end.
func (x *admin) next() {
	w := x.w
	switch {
	case x.open != nil:
		return
	case x.again != nil:
		x.request(x.again.queue, x.again.kind)
		return
	case w.winding || x.left == 0:
		x.left = 0
		if w.winding && x.last < len(x.queues) && !w.mortal[x.queues[x.last]] {
			x.request(x.queues[x.last], Read)
		} else if !w.winding {
			w.after(100*time.Millisecond, x.next)
		}
		return
	}
	x.left--
	queue := x.queues[w.rng.IntN(len(x.queues))]
	switch pick := w.rng.IntN(20); {
	case pick < 6:
		x.request(queue, Create)
	case pick < 9:
		x.request(queue, Delete)
	case pick < 12:
		x.request(queue, Purge)
	case pick < 15 && x.snd != nil:
		x.send(queue)
		x.think()
	default:
		x.request(queue, Read)
	}
}

// request asks the node at hand.
func (x *admin) request(queue string, kind Kind) {
	w := x.w
	c := &call{queue: queue, kind: kind, n: w.nodes[x.at], op: w.invoke(w.object(queue), x.name, kind)}
	x.open, x.again = c, nil
	w.ops++
	w.after(w.between(w.knobs.clientDelay[0], w.knobs.clientDelay[1]), func() {
		n := c.n
		switch {
		case n.dark || w.cutOff[n.id]:
			w.after(time.Second, func() { x.fail(c, true, "dial timed out") })
		case !n.up:
			x.fail(c, true, "connection refused")
		default:
			c.life = n.life
			n.after(w.between(0, w.knobs.wakeup), func() { x.serve(c) })
			w.after(adminTimeout, func() { x.fail(c, false, "no answer in time") })
			x.look(c)
		}
	})
}

// look notices that the node's process is gone.
func (x *admin) look(c *call) {
	x.w.after(adminLook, func() {
		switch {
		case x.open != c:
		case c.n.life != c.life && !c.n.dark:
			x.fail(c, false, "connection reset")
		default:
			x.look(c)
		}
	})
}

// serve is the node's side, in the order of package admin's handlers and of package node.
func (x *admin) serve(c *call) {
	n := c.n
	var cmd command.Command
	switch c.kind {
	case Create:
		cmd = &command.QueueCreate{Name: c.queue}
	case Delete:
		cmd = &command.QueueDelete{Name: c.queue}
	case Purge:
		cmd = &command.QueuePurge{Name: c.queue}
	default:
		n.step.Barrier(func(ok bool) {
			var found Operation
			if q, is := n.step.Machine().Queue(c.queue); ok && is {
				found = Operation{Incarnation: uint64(q.Incarnation), Number: q.Depth}
			}
			x.answer(c, func() {
				if !ok {
					x.fail(c, true, "no majority")
					return
				}
				x.done(c, found)
			})
		})
		n.kick()
		return
	}
	err := n.step.Request(cmd, func(e command.Effect, err error) {
		x.answer(c, func() { x.applied(c, &e, err) })
	})
	if err != nil {
		x.answer(c, func() { x.fail(c, errors.Is(err, replica.ErrNoEpoch), err.Error()) })
	}
	n.kick()
}

// answer carries an answer from a node to its client; it is lost with the node, or with the network between the two.
func (x *admin) answer(c *call, then func()) {
	w := x.w
	c.n.after(w.between(0, w.knobs.wakeup), func() {
		if !w.cutOff[c.n.id] {
			w.after(w.between(w.knobs.clientDelay[0], w.knobs.clientDelay[1]), then)
		}
	})
}

// applied takes the effect of a command.
func (x *admin) applied(c *call, e *command.Effect, err error) {
	switch {
	case err != nil:
		x.fail(c, false, err.Error())
	case e.Refusal != nil && e.Refusal.Condition == "amqp:not-found":
		x.done(c, Operation{})
	case e.Refusal != nil:
		x.fail(c, true, e.Refusal.Description)
	default:
		x.done(c, Operation{Incarnation: uint64(e.Incarnation), Existed: e.Existed, Number: e.Number})
	}
}

// done: the client has an answer.
func (x *admin) done(c *call, found Operation) {
	w := x.w
	if x.open != c {
		return
	}
	op := c.op
	op.Incarnation, op.Existed, op.Number = found.Incarnation, found.Existed, found.Number
	w.told(op)
	w.say("%s at n%d: %s: %v", x.name, c.n.id, c.queue, op)
	if found.Incarnation != 0 {
		w.count("queue: " + c.kind.String())
	}
	if c.kind == Read && w.winding {
		x.last++
	}
	x.open, x.tries = nil, 0
	if c.kind != Read && w.chance(40) { // and at once: does another node say so, too?
		x.again = &call{queue: c.queue, kind: Read}
		x.at = (x.at + 1 + w.rng.IntN(2)) % len(w.nodes)
		w.after(w.between(0, time.Millisecond), x.next)
		return
	}
	x.think()
}

// fail: there is no answer. void: for certain it had no effect. It is safe to ask again, at another node.
func (x *admin) fail(c *call, void bool, why string) {
	w := x.w
	if x.open != c {
		return
	}
	c.op.void = void || c.kind == Read
	w.say("%s at n%d: %v %s: %s", x.name, c.n.id, c.kind, c.queue, why)
	if !c.op.void {
		w.count("queue: no answer")
	}
	x.open = nil
	x.at = (x.at + 1 + w.rng.IntN(2)) % len(w.nodes)
	if x.tries++; x.tries <= 3 || c.kind == Read && w.winding {
		x.again = c
	} else {
		x.tries = 0
	}
	w.after(w.between(20*time.Millisecond, 400*time.Millisecond), x.next)
}

// send stores a message by the anonymous relay, which makes the queue unless its connection did before.
func (x *admin) send(queue string) {
	w := x.w
	if x.relay.ended() || x.snd.Err() != nil {
		return
	}
	op := w.invoke(w.object(queue), x.name, Send)
	payload := amqp.AppendProperties(nil, &amqp.Properties{To: queue})
	s := x.snd.Send(amqp.AppendData(payload, []byte("thing")))
	x.sends++
	w.ops++
	x.relay.k.then(&s.Op, func() {
		x.sends--
		err := s.Err()
		var refused *amqp.Error
		switch {
		case err == nil:
			op.Incarnation = AnyIncarnation
			w.told(op)
			w.count("queue: send")
		case errors.Is(err, client.ErrUnknown):
		case errors.As(err, &refused) && refused.Condition == amqp.ErrCondNotFound:
			w.told(op)
		case errors.As(err, &refused):
			op.Kind = Create // the message was refused; the queue that it was for may have been made
		default:
			op.void = true
		}
	})
	x.relay.a.pump()
}

// leave closes the relay.
func (x *admin) leave() {
	if x.relay != nil {
		x.relay.leave()
	}
}

func (x *admin) over() bool {
	if x.open != nil || x.again != nil {
		return false
	}
	if x.relay != nil && !x.relay.ended() && (x.sends > 0 || !x.relay.s.Opening.Done()) {
		return false
	}
	return x.w.winding && (x.last >= len(x.queues) || x.w.mortal[x.queues[0]])
}

func (x *admin) about() string { return x.name + " administers" }
