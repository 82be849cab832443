package oncemq

import (
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Message is what is sent and received. Body: Value if it isn't nil, else Sequence, else Data, else none.
//
// Values (Value, Sequence, Properties, Annotations) are: nil, bool, int… and uint…, float32, float64, string, []byte, time.Time
// (milliseconds), Symbol, UUID, []any, map[string]any, map[any]any.
type Message struct {
	// ID, CorrelationID: a string, uint64, UUID or []byte; nil: none. ID is never checked for duplicates.
	ID, CorrelationID any
	// DuplicateID is checked per address over all sessions (C9): a message whose id was stored before is skipped, and the send succeeds.
	// It travels as the application property _AMQ_DUPL_ID.
	DuplicateID string

	// Data, Value and Sequence are the body.
	Data     []byte
	Value    any
	Sequence []any

	// The properties of AMQP 3.2.4; empty: absent.
	UserID                       []byte
	To, Subject, ReplyTo         string
	ContentType, ContentEncoding string
	ExpiresAt, CreatedAt         time.Time
	GroupID, ReplyToGroupID      string
	GroupSequence                uint32

	// Transient clears the header's durable flag. OncemQ stores every message all the same.
	Transient bool
	// Priority 0–9 holds if HasPriority, else it is 4.
	Priority    uint8
	HasPriority bool
	// TTL is how long the message lives in its queue; 0: for ever.
	TTL time.Duration

	// Properties are the application properties, Annotations the message annotations.
	Properties  map[string]any
	Annotations map[string]any

	encoded []byte // of ParseMessage
}

// Symbol is an AMQP symbol: an ASCII name from a domain.
type Symbol string

// UUID is 16 bytes of RFC 4122.
type UUID [16]byte

// NewMessage is a message with binary data.
func NewMessage(data []byte) *Message { return &Message{Data: data} }

// ParseMessage is a message of its sections as they stand on the wire (AMQP 3.2). It is sent as they are, byte for byte, also where the
// fields can't show what is in them; changing the fields changes nothing. It keeps encoded.
func ParseMessage(encoded []byte) (*Message, error) {
	if _, err := amqp.ParseSections(encoded, amqp.Limits{}); err != nil {
		return nil, fmt.Errorf("message sections: %w", err)
	}
	m := new(Message)
	if _, err := m.decode(encoded); err != nil {
		m = new(Message) // what has no field here, such as several bodies
	}
	m.encoded = encoded
	return m, nil
}

// NewText is a message with a string, as a JMS TextMessage.
func NewText(text string) *Message { return &Message{Value: text} }
