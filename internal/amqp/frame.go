package amqp

// Frame types (2.3.1, 5.3.1).
const (
	FrameAMQP uint8 = 0
	FrameSASL uint8 = 1
)

// Performative is the body of a frame: *Open, *Begin, *Attach, *Flow, *Transfer, *Disposition, *Detach, *End, *Close, or on
// the SASL layer *SASLMechanisms, *SASLInit, *SASLChallenge, *SASLResponse, *SASLOutcome. Always pointers.
type Performative interface {
	composite
	frameType() uint8
}

// composite is anything that has a descriptor of its own and can be written as a value.
type composite interface {
	appendTo(dst []byte) []byte
}

// Frame is one frame without its header's lengths.
type Frame struct {
	// Type is FrameAMQP or FrameSASL.
	Type uint8
	// Channel is the number of the session's channel; of no meaning in SASL frames.
	Channel uint16
	// Body is nil in an empty frame, which only says that the peer is alive.
	Body Performative
	// Payload is what follows a transfer; it aliases the decoded bytes. Nil behind all others.
	Payload []byte
}

// NameOf is the name of a performative in the specification, such as "transfer", for logs and errors; "empty" for nil.
func NameOf(p Performative) string {
	switch p.(type) {
	case nil:
		return "empty"
	case *Open:
		return "open"
	case *Begin:
		return "begin"
	case *Attach:
		return "attach"
	case *Flow:
		return "flow"
	case *Transfer:
		return "transfer"
	case *Disposition:
		return "disposition"
	case *Detach:
		return "detach"
	case *End:
		return "end"
	case *Close:
		return "close"
	case *SASLMechanisms:
		return "sasl-mechanisms"
	case *SASLInit:
		return "sasl-init"
	case *SASLChallenge:
		return "sasl-challenge"
	case *SASLResponse:
		return "sasl-response"
	case *SASLOutcome:
		return "sasl-outcome"
	}
	return "unknown"
}
