package engine

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Conn is one end of a connection. One goroutine owns it with all its sessions, links and deliveries.
type Conn struct {
	// Data is the user's, untouched by the engine.
	Data any

	cfg Config
	dec amqp.Decoder

	// headerIn, openIn, closeIn: what the peer sent; headerOut, openOut, closeOut: what we have queued. told: the event Closed is out.
	// ours is our max-frame-size that holds for the peer: MaxOpenSize until its Open is there.
	headerIn, headerOut bool
	openIn              *amqp.Open
	openOut             bool
	closeIn, closeOut   bool
	told                bool
	err                 *Error

	// maxOut is the largest frame that we may make: 512 until the peer's Open, then the lesser of its size and ours.
	maxOut         uint32
	peerChannelMax uint16

	events []Event
	next   int
	runs   []*Delivery // what Event.Deliveries are cut from

	// sessions by our channel and by the peer's. Invariant: a session is in byPeer exactly while its Begin has come and its
	// End has not; in byLocal until End went both ways.
	byLocal, byPeer []*Session

	out       []byte // frames made, not taken
	lazy      int    // so much of out was made lazily, and nothing is in front of it
	taken     uint64
	waiting   int        // payload bytes of deliveries that wait or are sent in part
	sendable  []*Session // those with waiting deliveries that aren't known to be blocked, served in turn
	turn      int
	reopening []*Session // whose incoming window is to be opened anew
	free      *outgoing  // recycled
	pending   pendingDisposition
	frame     frameScratch

	partialBytes    uint64 // what all partial incoming deliveries hold
	lastIn, lastOut time.Time
	peerIdle        time.Duration
}

// frameScratch holds the performatives of the hot path, so that making a frame allocates nothing.
type frameScratch struct {
	transfer    amqp.Transfer
	flow        amqp.Flow
	disposition amqp.Disposition
}

// New is the end of a connection that nothing was exchanged on yet. A client's protocol header is queued at once.
func New(cfg Config) *Conn {
	c := &Conn{cfg: cfg.withDefaults(), maxOut: amqp.MinMaxFrameSize, peerChannelMax: amqp.DefaultChannelMax}
	c.setLimit(c.cfg.MaxOpenSize)
	if !c.cfg.Server {
		c.header()
	}
	return c
}

// Input takes bytes that came from the peer and says how many it consumed: whole frames only. The rest is to be handed in
// again with more behind it; a buffer of Config.MaxFrameSize bytes always suffices. If nothing was consumed although a
// frame is whole, the connection is held (see Held). Slices in the events of this call alias b until the next call, before
// which all events are to be taken.
//
// An error (*Error of ScopeConnection) means that the peer broke the protocol: the event Closed is queued, and so is the
// Close frame: write what TakeOutput gives, then close the socket. Afterwards Input consumes and ignores everything.
func (c *Conn) Input(b []byte, now time.Time) (consumed int, err error) {
	if len(b) > 0 {
		c.lastIn = now
	}
	clear(c.runs)
	c.runs = c.runs[:0]
	if cap(c.runs) > maxIdleEvents {
		c.runs = nil
	}
	if !c.headerIn {
		n, ok := c.takeHeader(b)
		if !ok {
			return c.result(n, len(b))
		}
		consumed = n
	}
	for consumed < len(b) && !c.Held() {
		if c.closeIn || c.err != nil {
			return len(b), nil
		}
		n := c.takeFrame(b[consumed:])
		consumed += n
		if n == 0 || c.err != nil {
			break
		}
	}
	return c.result(consumed, len(b))
}

// result is what Input answers: on an error all is consumed.
func (c *Conn) result(consumed, all int) (int, error) {
	if c.err != nil {
		return all, c.err
	}
	return consumed, nil
}

// Held says that Input consumes nothing for now, though whole frames may be there (server only): the peer's Open has come
// and ours is not sent, or Config.MaxBacklog bytes wait to be taken. Whoever got less consumed than given looks at it, and hands
// the rest in again once it is false.
func (c *Conn) Held() bool {
	if !c.cfg.Server || c.err != nil {
		return false
	}
	return c.openIn != nil && !c.openOut || len(c.out) >= c.cfg.MaxBacklog
}

// Next is the next event in order, false if there is none.
func (c *Conn) Next() (Event, bool) {
	if c.next == len(c.events) {
		return Event{}, false
	}
	ev := c.events[c.next]
	c.events[c.next] = Event{}
	c.next++
	if c.next == len(c.events) {
		c.next, c.events = 0, c.events[:0]
		if cap(c.events) > maxIdleEvents {
			c.events = nil
		}
	}
	return ev, true
}

// maxIdleEvents bounds what a burst of events leaves allocated.
const maxIdleEvents = 1024

// emit queues an empty event of a kind and gives its place to fill in.
func (c *Conn) emit(kind EventKind) *Event {
	c.events = append(c.events, Event{Kind: kind})
	return &c.events[len(c.events)-1]
}

// dispatch handles one frame. Frames are ignored on channels that no session of the peer's is on: what comes late for an
// ended session must not hurt the others (checklist 16).
func (c *Conn) dispatch(channel uint16, body amqp.Performative, payload []byte) {
	if c.openIn == nil {
		if p, ok := body.(*amqp.Open); ok {
			c.peerOpen(p)
			return
		}
		if p, ok := body.(*amqp.Close); ok { // before Open, as some do on a refused SASL layer
			c.peerClose(p)
			return
		}
		c.fail(amqp.ErrCondFramingError, amqp.NameOf(body)+" before open")
		return
	}
	switch p := body.(type) {
	case *amqp.Open:
		c.fail(amqp.ErrCondIllegalState, "a second open")
		return
	case *amqp.Close:
		c.peerClose(p)
		return
	case *amqp.Begin:
		if !c.closeOut {
			c.peerBegin(channel, p)
		}
		return
	}
	if channel > c.cfg.ChannelMax {
		c.fail(amqp.ErrCondFramingError, "a channel above channel-max")
		return
	}
	s := c.peerSession(channel)
	if s == nil || c.closeOut {
		return
	}
	if p, ok := body.(*amqp.End); ok {
		s.peerEnd(p)
		return
	}
	if s.endOut {
		return
	}
	switch p := body.(type) {
	case *amqp.Attach:
		s.peerAttach(p)
	case *amqp.Flow:
		s.peerFlow(p)
	case *amqp.Transfer:
		s.peerTransfer(p, payload)
	case *amqp.Disposition:
		s.peerDisposition(p)
	case *amqp.Detach:
		s.peerDetach(p)
	default:
		c.fail(amqp.ErrCondFramingError, "an unexpected "+amqp.NameOf(body))
	}
}

// peerSession is the session that the peer began on its channel and has not ended, or nil.
func (c *Conn) peerSession(channel uint16) *Session {
	if int(channel) < len(c.byPeer) {
		return c.byPeer[channel]
	}
	return nil
}

// fail ends the connection for a fault of the peer's.
func (c *Conn) fail(condition amqp.Symbol, what string) { c.failFor(condition, what, nil) }

func (c *Conn) failFor(condition amqp.Symbol, what string, cause error) {
	if c.err != nil {
		return
	}
	c.err = &Error{Scope: ScopeConnection, AMQP: amqp.Error{Condition: condition, Description: what}, cause: cause}
	if !c.closeOut && c.headerOut {
		c.sendClose(&c.err.AMQP)
	}
	c.closeOut = true
	c.over(c.err)
}

// over drops what still waits and tells the user, once, that the connection has ended.
func (c *Conn) over(err *Error) {
	c.dropWaiting()
	if !c.told {
		c.told = true
		c.emit(Closed).Err = err
	}
}

// ended says that nothing can be begun or sent any more.
func (c *Conn) ended() bool { return c.closeOut || c.closeIn }

// Done says that Close went both ways or the protocol was broken: close the socket once the output is written.
func (c *Conn) Done() bool { return c.err != nil || c.closeIn && c.closeOut }

// Remote is the peer's Open, nil until it has come.
func (c *Conn) Remote() *amqp.Open { return c.openIn }

// Sessions calls f for each session that isn't ended both ways, in order of our channels.
func (c *Conn) Sessions(f func(*Session)) {
	for _, s := range c.byLocal {
		if s != nil {
			f(s)
		}
	}
}
