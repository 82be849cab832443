package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Session is one end of a session of a Conn.
type Session struct {
	// Data is the user's, untouched by the engine.
	Data any

	conn                 *Conn
	local                bool
	channel, peerChannel uint16

	// beginIn, endIn: what the peer sent; beginOut, endOut: what we have queued. told: the event SessionEnded is out.
	beginIn        *amqp.Begin
	beginOut       bool
	endIn, endOut  bool
	told           bool
	peerHandleMax  uint32
	handles        []*Link          // by our handle; nil where free
	byPeer         map[uint32]*Link // by the peer's handle: from its Attach to its Detach
	attaching      map[linkName]*Link
	links          []*Link // all that are attached or have unsettled deliveries, in order of attaching
	lingering      int     // how many of links are detached both ways
	initialID      uint32  // our first transfer-id
	nextOutgoingID uint32
	nextDeliveryID uint32
	peerWindow     uint32 // how many transfers the peer takes now
	window         uint32 // how many transfers we take now, of windowMax
	reopening      bool   // stands in conn.reopening
	windowMax      uint32
	nextIncomingID uint32
	lastDeliveryID uint32 // the peer's newest, if anyDelivery
	anyDelivery    bool
	sent, received map[uint32]*Delivery // unsettled, by delivery-id
	queue          queue
	held           int  // payload bytes of deliveries that wait or are sent in part
	inSendable     bool // stands in conn.sendable
}

// linkName is what a pending Attach is found by: our role and the name.
type linkName struct {
	name string
	role amqp.Role
}

// Conn is the session's connection.
func (s *Session) Conn() *Conn { return s.conn }

// Local says that this end began the session.
func (s *Session) Local() bool { return s.local }

// Channel is our channel number.
func (s *Session) Channel() uint16 { return s.channel }

// Window is how many transfers the peer takes now, beyond one for each delivery that waits.
func (s *Session) Window() uint32 { return s.peerWindow - min(s.peerWindow, uint32(s.queue.len())) }

// Active says that Begin went both ways and End neither.
func (s *Session) Active() bool {
	return s.beginIn != nil && s.beginOut && !s.endIn && !s.endOut && !s.conn.ended()
}

// Ended says that End went both ways, or the connection is over: nothing more is due.
func (s *Session) Ended() bool { return s.endIn && s.endOut || s.conn.ended() }

// Remote is the peer's Begin, nil until it has come.
func (s *Session) Remote() *amqp.Begin { return s.beginIn }

// Links calls f for each link that wasn't detached both ways, in order of attaching; after the session's end for those that
// it took with it. f may detach it.
func (s *Session) Links(f func(*Link)) {
	for _, l := range append([]*Link(nil), s.links...) {
		if !l.detachIn || !l.detachOut {
			f(l)
		}
	}
}

// over says that nothing can be sent on the session any more.
func (s *Session) over() bool { return s.endOut || s.endIn || s.conn.ended() }

// ready says that frames of the session can be made: our Begin is out and no End.
func (s *Session) ready() bool { return s.beginOut && !s.over() }

// fail ends the session for a fault of the peer's.
func (s *Session) fail(condition amqp.Symbol, what string) {
	err := &Error{Scope: ScopeSession, AMQP: amqp.Error{Condition: condition, Description: what}}
	s.sendEnd(&err.AMQP)
	s.tell(err)
}

// tell makes the event SessionEnded, once.
func (s *Session) tell(err *Error) {
	if s.told {
		return
	}
	s.told = true
	ev := s.conn.emit(SessionEnded)
	ev.Session, ev.Err = s, err
}

// retire lets go of what a session needs only while frames go to and fro. The links stay for their user, who may ask them
// what is unsettled.
func (s *Session) retire() {
	s.dropWaiting()
	for _, l := range s.links {
		l.dropPartial()
	}
	s.sent, s.received, s.byPeer, s.attaching, s.handles = nil, nil, nil, nil, nil
}
