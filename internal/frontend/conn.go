package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// ConnOptions describe a connection that passed its SASL layer.
type ConnOptions struct {
	// Local is the connection's key in the node's table, unique within the epoch, 1 and up.
	Local uint64
	// Principal is the authenticated user.
	Principal string
	// Secure says that the client came with TLS; Web, that it came over WebSocket.
	Secure, Web bool
	// Barrier is called by the log, on any goroutine, when barrier id has ended: it must not block and has to bring both to
	// Conn.BarrierDone on the loop.
	Barrier func(id uint64, ok bool)
	// Browsed is the same for the answer to a browser's question: it has to bring s to Conn.BrowseDone.
	Browsed func(s *command.BrowseSlice)
}

// phase is how far a connection has come.
type phase uint8

const (
	phaseNew     phase = iota // the client's Open has not come
	phaseOpening              // ConnOpen is proposed
	phaseOpen
	phaseOver // nothing more is understood; only output remains
)

// Conn is one client connection as the broker understands it. One goroutine owns it.
//
// The order of a loop's turn: Input, Effects, BarrierDone and Tick in any number; then Flush; then TakeOutput where the
// socket is idle; then, where TakeOutput gave bytes, Flush again.
type Conn struct {
	node *Node
	log  Log
	opts ConnOptions
	eng  *engine.Conn
	life uint64    // the node's, as it was made
	now  time.Time // of the present call

	phase phase
	id    command.ConnID
	// ended: no command may be proposed any more, since the connection's end is in the log, or isn't ours to put there.
	ended    bool
	ours     bool // the client has our capability: it resumes, and is told that we live
	quirks   quirks
	deadline time.Time // of ConnOpen

	batch []byte // commands gathered for the next record, in a buffer of the node's
	// proposed counts the records, confirmed those that are known to be applied: not all that are.
	proposed, confirmed uint64
	scratch             commands
	answers             answers
	due                 int // answers that the client waits for
	sending             int // bytes of its sends not applied
	// arriving: a frame or a delivery of the client's has come in part.
	arriving bool

	sessions  []*session
	producers map[uint32]*producer
	consumers map[uint32]*consumer
	names     map[linkKey]*engine.Link
	lastLink  uint32
	made      map[string]bool // queues that relayed messages have had made
	txs       map[command.TxID]*tx
	deciding  int // discharges in flight

	dirty   []*consumer // allowance or drain to be looked at in Flush
	ready   []*consumer // with handed-out messages that wait
	turn    int
	busy    []*consumer // with deliveries in the engine
	starved []*producer // credit withheld
	buffers [][]byte
	spare   []byte // for output, kept while there was nothing to write

	barriers    map[uint64]barrier
	lastBarrier uint64

	stuckSince time.Time // a write waits for the socket
	noLease    time.Time // since when there is no lease
	pinged     time.Time
	wake       time.Time // when Tick wants to be called
	txBytes    int       // of messages collected in transactions
	txHeld     int64     // this connection's part of Node.txHeld
	probe      bool
	stopping   string
	moving     bool // stopping is because others are to take it
}

// NewConn begins with the AMQP protocol header; SASL is over.
func (n *Node) NewConn(opts ConnOptions, now time.Time) *Conn {
	return &Conn{
		node: n, log: n.log, life: n.life.Load(), opts: opts, now: now,
		eng: engine.New(engine.Config{
			Server: true, IdleTimeout: n.cfg.IdleTimeout, MaxMessageSize: maxMessageSize, MaxUnsettled: maxUnsettled,
		}),
		producers: make(map[uint32]*producer),
		consumers: make(map[uint32]*consumer),
		names:     make(map[linkKey]*engine.Link),
		txs:       make(map[command.TxID]*tx),
		barriers:  make(map[uint64]barrier),
	}
}

// Input takes bytes from the client and says how many it consumed; the rest is to be handed in again with more behind it.
// After the answer to Open (see Effects) held bytes must be handed in again.
func (c *Conn) Input(b []byte, now time.Time) (consumed int) {
	c.now = now
	consumed, _ = c.eng.Input(b, now) // its error is the event Closed as well
	c.events()
	if c.ours {
		c.noteArriving(consumed < len(b))
	}
	return consumed
}

// noteArriving notes whether something of the client's has come in part, so that it is owed an answer that isn't due here
// yet: a message of 64 MiB takes its time, and the client must not take our silence for death meanwhile.
func (c *Conn) noteArriving(partFrame bool) {
	before := c.arriving
	c.arriving = partFrame
	for _, p := range c.producers {
		if _, part := p.link.Partial(); part {
			c.arriving = true
			break
		}
	}
	if c.arriving && !before && c.due == 0 {
		c.pinged = c.now
		c.wakeBy(c.now.Add(pingTime))
	}
}

func (c *Conn) events() {
	for ev, ok := c.eng.Next(); ok; ev, ok = c.eng.Next() {
		if c.phase == phaseOver {
			continue
		}
		c.event(&ev)
	}
}

func (c *Conn) event(ev *engine.Event) {
	switch ev.Kind {
	case engine.Opened:
		c.onOpen(ev.Open)
	case engine.Closed:
		c.onClosed(ev.Err)
	case engine.SessionBegun:
		c.onBegin(ev.Session, ev.Begin)
	case engine.SessionEnded:
		c.onEnd(ev.Session, ev.Err)
	case engine.LinkAttached:
		c.onAttach(ev.Session, ev.Link, ev.Attach)
	case engine.LinkDetached:
		c.onDetach(ev.Link, ev.Closed, ev.Err != nil)
	case engine.Received:
		c.onReceived(ev.Link, ev.Delivery)
	case engine.Aborted:
		if p, ok := ev.Link.Data.(*producer); ok {
			c.credit(p)
		}
	case engine.Disposed:
		c.onDisposed(ev)
	case engine.Credit:
		c.onCredit(ev)
	case engine.WindowOpened:
		c.onWindow(ev.Session)
	case engine.Drained, engine.SenderFlow:
		// We never drain, and what senders have available changes nothing.
	}
}

func (c *Conn) onReceived(l *engine.Link, d *engine.Delivery) {
	switch x := l.Data.(type) {
	case *producer:
		c.onTransfer(x, d)
	case *coordinator:
		c.onControl(x, d)
	}
}

func (c *Conn) onDisposed(ev *engine.Event) {
	switch x := ev.Link.Data.(type) {
	case *consumer:
		c.onDisposition(x, ev)
	case *producer:
		if ev.Settled {
			c.onSendsSettled(x, ev.Deliveries)
		}
	}
}

// Effects takes what applied entries brought for this connection, in order. The slice is only read.
func (c *Conn) Effects(effects []command.Effect, now time.Time) {
	c.now = now
	for i := range effects {
		if c.phase == phaseOver {
			c.node.EndOrphan(&effects[i])
			continue
		}
		c.effect(&effects[i])
	}
}

func (c *Conn) effect(e *command.Effect) {
	switch e.Kind {
	case command.EffectConnOpened:
		c.onConnOpened(e)
	case command.EffectConnEnded:
		c.onConnEnded(e)
	case command.EffectProbe:
		c.probe = true // a flag, not a message: it has no place of its own [4.8]
	case command.EffectSessionOpened:
		c.onSessionOpened(e)
	case command.EffectLinkOpened:
		c.onLinkOpened(e)
	case command.EffectSenderOpened:
		c.onSenderOpened(e)
	case command.EffectLinkEnded:
		c.onLinkEnded(e)
	case command.EffectQueue:
		c.onQueueMade(e)
	case command.EffectDeliver:
		c.onDeliver(e)
	case command.EffectWithdrawn:
		c.onWithdrawn(e)
	case command.EffectSent:
		c.onSent(e)
	case command.EffectSettled:
		c.onSettled(e)
	case command.EffectDecided:
		c.onDecided(e)
	case command.EffectOutcome:
		c.onOutcome(e)
	case command.EffectTokenOpened:
		c.onTokenOpened(e)
	default: // answers to the node's own commands never come here
	}
}

// Flush proposes the gathered commands as one record.
func (c *Conn) Flush(now time.Time) {
	c.now = now
	c.review()
	c.propose()
}

// Done says that the connection is over: write what TakeOutput still gives, then close the socket.
func (c *Conn) Done() bool { return c.phase == phaseOver }

// Held says that input is held until the answer to Open.
func (c *Conn) Held() bool { return c.eng.Held() && c.phase != phaseOver }

// Greeted says that the client's Open has come.
func (c *Conn) Greeted() bool { return c.phase != phaseNew }

// Busy says that the connection's own unapplied bytes are above its bound: don't read more from the socket now.
func (c *Conn) Busy() bool { return c.sending > 2*MaxBacklog }

// TakeProbe says once that the host is to probe the socket: have a heartbeat written and see within 3 s whether the peer's
// TCP acknowledges it; if not, call Lost(EndSilent) [1.5].
func (c *Conn) TakeProbe() bool {
	if !c.probe {
		return false
	}
	c.probe = false
	c.eng.Heartbeat()
	return true
}

// symbolIn says whether list has s.
func symbolIn(list []amqp.Symbol, s amqp.Symbol) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// amqpError is a refusal as it stands on the wire.
func amqpError(r *command.Refusal) amqp.Error {
	return amqp.Error{Condition: amqp.Symbol(r.Condition), Description: r.Description}
}
