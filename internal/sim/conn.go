package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
)

// What package server has as well: the wait for the first Open, for a stuck write, for a probe's judgement, and the rounds of
// one turn.
const (
	openTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	probeTime    = 3 * time.Second
	maxRounds    = 8
)

// conn is a client connection at its node. It drives frontend.Conn in the order of internal/server/conn.go, whose method names
// it has.
type conn struct {
	n     *node
	s     *socket
	local uint64
	sasl  *engine.SASLServer // nil once it is done
	fe    *frontend.Conn

	unread  []byte // in the socket, not read while input is held
	held    []byte // what the frontend has not consumed
	holding bool
	writing bool // the socket took all it can
	stuckAt time.Duration
	probing time.Duration
	greeted bool
	opened  time.Duration
	over    bool

	mail  mail
	woken bool // an event that looks at the mail is planned
	timer timer
}

// mail is what others leave for a connection.
type mail struct {
	effects  []command.Effect
	barriers []barrierAnswer
	slices   []*command.BrowseSlice
	ended    bool
	reason   string
}

type barrierAnswer struct {
	id uint64
	ok bool
}

// accept takes a client's socket; false: refused, as the node has no epoch.
func (n *node) accept(s *socket) bool {
	if !n.up || n.epoch == 0 || n.drained {
		return false
	}
	n.lastLocal++
	c := &conn{n: n, s: s, local: n.lastLocal, opened: n.w.now, sasl: engine.NewSASLServer("ANONYMOUS")}
	c.sasl.AllowSkip = true
	n.conns[c.local] = c
	n.order = append(n.order, c)
	if len(n.order) == 1 {
		n.step.WantLease(true)
	}
	life := n.life
	s.up.got = func(b []byte) { n.run(life, func() { c.take(b) }) }
	s.up.ended = func(bool) { n.run(life, func() { c.lost(command.EndReset) }) }
	s.down.room = func() { n.run(life, func() { c.wrote() }) }
	n.after(openTimeout, func() {
		if !c.over && !c.greeted {
			c.lost(command.EndSilent)
		}
	})
	c.fe = n.fe.NewConn(frontend.ConnOptions{Local: c.local, Principal: frontend.Anonymous, Barrier: c.barrier, Browsed: c.browsed}, n.clock())
	return true
}

// barrier is called by the log, within an apply step.
func (c *conn) barrier(id uint64, ok bool) {
	c.mail.barriers = append(c.mail.barriers, barrierAnswer{id, ok})
	c.wake()
}

// browsed is called by the log, within an apply step.
func (c *conn) browsed(s *command.BrowseSlice) {
	c.mail.slices = append(c.mail.slices, s)
	c.wake()
}

// wake plans a look at the mail.
func (c *conn) wake() {
	if c.woken || c.over {
		return
	}
	c.woken = true
	c.n.after(c.n.w.between(0, c.n.w.knobs.wakeup), func() {
		c.woken = false
		if c.over {
			return
		}
		c.collect()
		c.turn()
	})
}

// take reads from the socket.
func (c *conn) take(b []byte) {
	if c.over {
		return
	}
	if c.sasl != nil {
		c.unread = append(c.unread, b...)
		if !c.greet() {
			return
		}
		b, c.unread = c.unread, nil
	}
	if c.holding {
		c.unread = append(c.unread, b...)
		return
	}
	c.read(b)
	c.turn()
}

// greet runs the SASL layer; true once it is over.
func (c *conn) greet() bool {
	for {
		eaten, fault := c.sasl.Input(c.unread)
		c.unread = c.unread[eaten:]
		stepped := false
		for step, more := c.sasl.Next(); more; step, more = c.sasl.Next() {
			stepped = true
			if step.Init {
				c.sasl.Outcome(amqp.SASLCodeOK, nil)
			} else {
				c.sasl.Outcome(amqp.SASLCodeSys, nil)
			}
		}
		c.s.down.write(c.sasl.TakeOutput(nil))
		if fault != nil {
			c.close()
			return false
		}
		if _, _, done := c.sasl.Done(); done {
			c.sasl = nil
			return true
		}
		if eaten == 0 && !stepped {
			return false
		}
	}
}

// read gives bytes to the frontend, or holds them.
func (c *conn) read(b []byte) {
	// A buffer of its own, which is overwritten when it has been consumed: the reader's is used again as well.
	c.held, c.holding = append(append(make([]byte, 0, len(c.held)+len(b)), c.held...), b...), true
	if !c.fe.Busy() {
		c.feed()
	}
}

func (c *conn) feed() {
	used := c.fe.Input(c.held, c.n.clock())
	rest := append([]byte(nil), c.held[used:]...)
	if c.fe.Held() {
		c.held = rest
		return
	}
	old := c.held
	c.held, c.holding = rest, false
	for i := range old {
		old[i] = 0xdb
	}
	if len(c.unread) > 0 {
		b := c.unread
		c.unread = nil
		c.read(b)
	}
}

// lost says that the socket has ended.
func (c *conn) lost(cause command.EndCause) {
	if c.over {
		return
	}
	c.fe.Lost(cause, c.n.clock())
	c.turn()
}

// collect takes the mail.
func (c *conn) collect() {
	m := c.mail
	c.mail = mail{}
	now := c.n.clock()
	if len(m.effects) > 0 {
		c.fe.Effects(m.effects, now)
	}
	for _, b := range m.barriers {
		c.fe.BarrierDone(b.id, b.ok, now)
	}
	for _, s := range m.slices {
		c.fe.BrowseDone(s, now)
	}
	if m.ended {
		c.fe.EndEpoch(m.reason, now)
	}
}

// wrote: the socket has room again.
func (c *conn) wrote() {
	if c.over {
		return
	}
	c.writing = false
	c.fe.WriteStuck(time.Time{})
	c.turn()
}

// turn ends what one wake-up began.
func (c *conn) turn() {
	for range maxRounds {
		if c.over {
			return
		}
		if c.holding && !c.fe.Held() && !c.fe.Busy() {
			c.feed()
		}
		c.carry()
		if !c.holding || c.fe.Held() || c.fe.Busy() {
			break
		}
	}
	c.n.kick()
	if c.fe.Done() {
		c.finish()
		return
	}
	c.arm()
}

func (c *conn) carry() {
	c.greeted = c.greeted || c.fe.Greeted()
	c.judge()
	c.fe.Flush(c.n.clock())
	c.put()
	c.fe.Flush(c.n.clock())
}

func (c *conn) put() {
	for !c.writing {
		b := c.fe.TakeOutput(nil, c.n.clock())
		if len(b) == 0 {
			return
		}
		c.n.wrote()
		if !c.s.down.write(b) {
			c.writing, c.stuckAt = true, c.n.w.now
			c.fe.WriteStuck(c.n.clock())
		}
	}
}

// judge starts a probe and ends it [1.5]. The peer's TCP has acknowledged everything when the pipe is empty.
func (c *conn) judge() {
	now := c.n.w.now
	if c.fe.TakeProbe() && c.probing == 0 {
		c.probing = now + probeTime
	}
	if c.probing == 0 || now < c.probing {
		return
	}
	c.probing = 0
	if c.writing || c.s.down.bytes > 0 || c.s.down.lost {
		c.fe.Lost(command.EndSilent, c.n.clock())
	}
}

// arm plans the next tick.
func (c *conn) arm() {
	at := c.n.w.now + time.Second
	if wake := c.fe.Wake(); !wake.IsZero() {
		at = c.n.moment(wake)
	}
	if c.probing != 0 {
		at = min(at, c.probing)
	}
	if c.writing {
		at = min(at, c.stuckAt+writeTimeout)
	}
	life := c.n.life
	c.timer.set(c.n.w, at, func() { c.n.run(life, c.tick) })
}

func (c *conn) tick() {
	if c.over {
		return
	}
	if c.writing && c.n.w.now >= c.stuckAt+writeTimeout {
		c.fe.Lost(command.EndSilent, c.n.clock())
	} else {
		c.fe.Tick(c.n.clock())
	}
	c.turn()
}

// finish writes the last bytes and closes the socket; what came meanwhile may be the answer to a ConnOpen that was given up.
func (c *conn) finish() {
	for b := c.fe.TakeOutput(nil, c.n.clock()); len(b) > 0; b = c.fe.TakeOutput(nil, c.n.clock()) {
		c.s.down.write(b)
	}
	c.fe.Flush(c.n.clock())
	c.close()
	if len(c.mail.effects) > 0 {
		c.fe.Effects(c.mail.effects, c.n.clock())
	}
	c.n.kick()
}

// close ends the socket and forgets the connection.
func (c *conn) close() {
	c.over = true
	c.timer.stop()
	c.s.down.end(false)
	n := c.n
	delete(n.conns, c.local)
	for i, other := range n.order {
		if other == c {
			n.order = append(n.order[:i], n.order[i+1:]...)
			break
		}
	}
	if len(n.order) == 0 {
		n.step.WantLease(false)
	}
}
