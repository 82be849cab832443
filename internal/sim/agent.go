package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/client"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset")
	errTimeout = errors.New("dial timed out")
)

// machine is one end of a client's sockets: client.Core, or an engine.Conn that stands for a JMS client.
type machine interface {
	// socket is what should exist: its serial, 0 for none, and the node's address.
	socket() (serial uint32, addr string)
	dialed(serial uint32, err error)
	input(serial uint32, b []byte) (consumed int)
	output(serial uint32) []byte
	lost(serial uint32, err error)
	events() bool // works off what happened; false: nothing did
	deadline() time.Time
	tick()
}

// agent is a client process: a machine, its socket, and the part of the workload that it does.
type agent struct {
	w      *world
	name   string
	m      machine
	serial uint32
	sock   *socket
	in     []byte // not consumed
	stuck  bool
	paused bool
	wentOn time.Duration // the end of the last pause
	away   bool          // its connection was lost, and it has no other yet: what it takes lay at it
	queue  []func()      // while paused
	dead   bool
	timer  timer
	busy   bool // pump runs
}

// address is a node's.
func address(id int) string { return fmt.Sprintf("n%d:5672", id) }

// clock is the client's.
func (a *agent) clock() time.Time { return began.Add(a.w.now) }

// pump moves what can be moved, and plans the next timer.
func (a *agent) pump() {
	if a.busy || a.dead || a.paused {
		return
	}
	a.busy = true
	for moved := true; moved && !a.dead; {
		moved = a.m.events()
		if serial, addr := a.m.socket(); serial != a.serial {
			a.hangUp(true)
			a.serial = serial
			if serial != 0 {
				a.dial(serial, addr)
			}
			moved = true
		}
		if a.sock == nil || a.stuck {
			continue
		}
		if out := a.m.output(a.serial); len(out) > 0 {
			moved = true
			a.stuck = !a.sock.up.write(out)
		}
	}
	a.busy = false
	if a.dead {
		return
	}
	if at := a.m.deadline(); !at.IsZero() {
		a.timer.set(a.w, at.Sub(began), a.tick)
	}
}

func (a *agent) tick() {
	if a.dead || a.paused {
		return
	}
	a.m.tick()
	a.pump()
}

// dial connects to a node after a while.
func (a *agent) dial(serial uint32, addr string) {
	var id int
	_, _ = fmt.Sscanf(addr, "n%d:", &id)
	n := a.w.nodeAt(id)
	delay := a.w.between(100*time.Microsecond, time.Millisecond)
	if n != nil && (n.dark || a.w.cutOff[n.id]) {
		delay = time.Second
	}
	a.w.after(delay, func() {
		if a.dead || a.serial != serial {
			return
		}
		switch {
		case n == nil:
			a.m.dialed(serial, errRefused)
		case n.dark || a.w.cutOff[n.id]:
			a.m.dialed(serial, errTimeout)
		case !n.up || n.epoch == 0 && !n.paused:
			a.m.dialed(serial, errRefused)
		default:
			a.open(n, serial)
			a.m.dialed(serial, nil)
		}
		a.pump()
	})
}

// open makes the socket.
func (a *agent) open(n *node, serial uint32) {
	s := a.w.connect(fmt.Sprintf("%s-n%d", a.name, n.id))
	s.node = n
	a.sock, a.in, a.stuck = s, nil, false
	s.down.got = func(b []byte) { a.got(s, serial, b) }
	s.down.ended = func(bool) {
		if a.sock != s || a.dead {
			return
		}
		a.run(func() {
			if a.sock == s {
				a.sock = nil
				s.up.end(false)
				a.m.lost(serial, errReset)
				a.pump()
			}
		})
	}
	s.up.room = func() {
		if a.sock == s && a.stuck {
			a.stuck = false
			a.pump()
		}
	}
	life := n.life
	s.up.got = func([]byte) {}
	s.up.ended = func(bool) {}
	if n.paused { // its kernel takes the connection, and what is sent
		var early [][]byte
		n.backlog = append(n.backlog, s)
		s.up.got = func(b []byte) { early = append(early, b) }
		n.queue = append(n.queue, func() {
			n.backlog = n.backlog[1:] // in the order in which they came
			if !n.accept(s) {
				s.down.end(true)
				return
			}
			for _, b := range early {
				s.up.got(b)
			}
		})
		return
	}
	if n.life != life || !n.accept(s) {
		s.down.end(true)
	}
}

// run calls f, or once the client goes on.
func (a *agent) run(f func()) {
	switch {
	case a.dead:
	case a.paused:
		a.queue = append(a.queue, f)
	default:
		f()
	}
}

// pause stops the process for a while.
func (a *agent) pause(d time.Duration) {
	if a.dead || a.paused {
		return
	}
	a.w.say("%s stands still", a.name)
	a.paused = true
	a.w.after(d, func() {
		a.paused, a.wentOn = false, a.w.now
		queue := a.queue
		a.queue = nil
		for _, f := range queue {
			a.run(f)
		}
		if !a.dead {
			a.tick()
		}
	})
}

func (a *agent) got(s *socket, serial uint32, b []byte) {
	a.run(func() {
		if a.sock != s {
			return
		}
		a.in = append(a.in, b...)
		n := a.m.input(serial, a.in)
		a.in = append([]byte(nil), a.in[n:]...)
		a.pump()
	})
}

// hangUp closes the socket.
func (a *agent) hangUp(orderly bool) {
	if a.sock == nil {
		return
	}
	a.sock.up.end(!orderly)
	a.sock = nil
}

// die ends the client process: by a reset, or without a word.
func (a *agent) die(silent bool) {
	if a.dead {
		return
	}
	a.w.say("%s dies", a.name)
	a.w.count("client died")
	a.dead = true
	a.timer.stop()
	if a.sock == nil {
		return
	}
	if silent {
		a.sock.up.vanish()
		a.sock.down.vanish()
		return
	}
	a.hangUp(false)
}

// core is client.Core as a machine.
type core struct {
	a *agent
	c *client.Core
	// available is called for a receiver that has something.
	available map[*client.Receiver]func()
	// arrivals are when what lies at a receiver came, in order.
	arrivals map[*client.Receiver][]time.Duration
	gone     func(err error) // the client is over
	breaks   int             // connections that it lost
}

// newCore starts a Go client.
func (w *world) newCore(name string) (*agent, *core) {
	addrs := []string{}
	at := w.rng.IntN(w.reach())
	if w.home > 0 {
		at = w.home - 1
	}
	for i := range w.reach() {
		addrs = append(addrs, address((at+i)%w.reach()+1))
	}
	return w.newCoreAt(name, addrs)
}

// newCoreAt starts a Go client that knows those nodes.
func (w *world) newCoreAt(name string, addrs []string) (*agent, *core) {
	a := &agent{w: w, name: name}
	k := &core{a: a, available: map[*client.Receiver]func(){}, arrivals: map[*client.Receiver][]time.Duration{}}
	a.m = k
	var nonce [16]byte
	binary.BigEndian.PutUint64(nonce[:], w.rng.Uint64())
	w.agents = append(w.agents, a)
	k.c = client.New(client.Config{Addrs: addrs, ContainerID: name, Nonce: nonce, Seed: w.rng.Uint64(), Version: "sim"}, a.clock())
	w.after(0, a.pump)
	return a, k
}

func (k *core) socket() (uint32, string)        { return k.c.Socket() }
func (k *core) dialed(serial uint32, err error) { k.c.Dialed(serial, err, k.a.clock()) }
func (k *core) lost(serial uint32, err error)   { k.c.Lost(serial, err, k.a.clock()) }
func (k *core) deadline() time.Time             { return k.c.Deadline() }
func (k *core) tick()                           { k.c.Tick(k.a.clock()) }
func (k *core) output(serial uint32) []byte     { return k.c.TakeOutput(serial, nil, k.a.clock()) }

func (k *core) input(serial uint32, b []byte) int {
	n, _ := k.c.Input(serial, b, k.a.clock())
	return n
}

func (k *core) events() (moved bool) {
	for ev, ok := k.c.Next(); ok; ev, ok = k.c.Next() {
		moved = true
		switch ev.Kind {
		case client.Finished:
			if f, ok := ev.Op.Data.(func()); ok {
				f()
			}
		case client.Available:
			k.arrivals[ev.Receiver] = append(k.arrivals[ev.Receiver], k.a.w.now)
			if f := k.available[ev.Receiver]; f != nil {
				f()
			}
		case client.Connected:
			k.a.away = false
			k.a.w.say("%s is on %s", k.a.name, ev.Addr)
			if ev.Failover {
				k.a.w.count("client failover")
			}
		case client.Disconnected:
			k.breaks++
			k.a.away = true
			k.a.w.say("%s lost %s: %v", k.a.name, ev.Addr, ev.Err)
			if errors.Is(ev.Err, client.ErrSilent) {
				k.a.w.count("client left a silent node")
			}
		case client.Closed:
			k.a.w.say("%s is closed: %v", k.a.name, ev.Err)
			if k.gone != nil {
				k.gone(ev.Err)
			}
		default: // dials
		}
	}
	return moved
}

// take takes a delivery, nil if there is none, and says when it came at the earliest: one that is given up while it lies here leaves
// its moment to the next.
func (k *core) take(r *client.Receiver) (d *client.Delivery, arrived time.Duration) {
	if d = r.Take(); d == nil {
		delete(k.arrivals, r)
		return nil, 0
	}
	if moments := k.arrivals[r]; len(moments) > 0 {
		arrived, k.arrivals[r] = moments[0], moments[1:]
	}
	return d, arrived
}

// then sets what happens at the end of an operation; at once where it has ended.
func (k *core) then(op *client.Op, f func()) {
	if op.Done() {
		f()
		return
	}
	op.Data = f
}

// soon does something a little later as this client.
func (a *agent) soon(from, to time.Duration, f func()) {
	a.w.after(a.w.between(from, to), func() {
		a.run(func() {
			f()
			a.pump()
		})
	})
}
