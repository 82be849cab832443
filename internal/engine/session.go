package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Session is one end of a session of a Conn.
type Session struct {
	// Data is the user's, untouched by the engine.
	Data any

	conn *Conn
}

// Begin begins a session. NextOutgoingID, the windows and HandleMax are filled in from the Config where they are zero. The event
// SessionBegun tells the peer's answer; Attach may be called before it.
func (c *Conn) Begin(b amqp.Begin) (*Session, error) { panic("skeleton") }

// Begin answers the peer's Begin; RemoteChannel, NextOutgoingID, the windows and HandleMax are filled in. Frames of the peer that
// came meanwhile have become events as usual.
func (s *Session) Begin(b amqp.Begin) error { panic("skeleton") }

// End ends the session, or answers the peer's End; e may be nil. Where the Begin was not answered yet, it is. Waiting
// transfers are dropped unwritten, the links are over, late frames of the peer are ignored.
func (s *Session) End(e *amqp.Error) error { panic("skeleton") }

// Conn is the session's connection.
func (s *Session) Conn() *Conn { panic("skeleton") }

// Local says that this end began the session.
func (s *Session) Local() bool { panic("skeleton") }

// Channel is our channel number.
func (s *Session) Channel() uint16 { panic("skeleton") }

// Active says that Begin went both ways and End neither.
func (s *Session) Active() bool { panic("skeleton") }

// Ended says that End went both ways: nothing more is due.
func (s *Session) Ended() bool { panic("skeleton") }

// Remote is the peer's Begin, nil until it has come.
func (s *Session) Remote() *amqp.Begin { panic("skeleton") }

// Links calls f for each link that isn't detached both ways, in order of attaching.
func (s *Session) Links(f func(*Link)) { panic("skeleton") }
