package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// The mechanisms that SASLClient speaks.
const (
	MechanismAnonymous amqp.Symbol = "ANONYMOUS"
	MechanismPlain     amqp.Symbol = "PLAIN"
)

// ErrMechanism is how a client's SASL layer fails if nothing that it can speak is offered.
var ErrMechanism = errors.New("oncemq: the server offers no SASL mechanism of ours")

// SASLError is a server's no. Only SASLCodeSysTemp is worth another try, elsewhere (C16).
type SASLError struct {
	// Code is the outcome's.
	Code amqp.SASLCode
}

// Error names the code.
func (e *SASLError) Error() string {
	return fmt.Sprintf("oncemq: the server refused the SASL exchange with code %d", e.Code)
}

// maxServerFrame bounds what a client takes from a server in the SASL layer: lists of mechanisms may pass 512 bytes.
const maxServerFrame = 4096

// SASLClient is the client's side of the SASL layer as a step machine; it knows ANONYMOUS and PLAIN.
type SASLClient struct {
	cfg    SASLClientConfig
	out    []byte
	header bool // the server's is there
	sent   bool // sasl-init
	done   bool
}

// SASLClientConfig says who the client is.
type SASLClientConfig struct {
	// Hostname goes into sasl-init.
	Hostname string
	// User and Password are for PLAIN; without a User it is ANONYMOUS.
	User, Password string
}

// String hides the password.
func (c SASLClientConfig) String() string {
	return fmt.Sprintf("{Hostname: %q, User: %q}", c.Hostname, c.User)
}

// NewSASLClient queues the SASL header.
func NewSASLClient(cfg SASLClientConfig) *SASLClient {
	return &SASLClient{cfg: cfg, out: amqp.AppendProtoHeader(nil, amqp.ProtoSASL)}
}

// Input takes bytes from the server and consumes nothing behind the outcome. A *SASLError means that it said no,
// ErrMechanism that it offers none of ours; an *Error that it broke the protocol.
func (s *SASLClient) Input(b []byte) (consumed int, err error) {
	for !s.done {
		n, err := s.take(b[consumed:])
		if err != nil {
			return len(b), err
		}
		if n == 0 {
			break
		}
		consumed += n
	}
	return consumed, nil
}

func (s *SASLClient) take(b []byte) (int, error) {
	if !s.header {
		h, err := amqp.ParseProtoHeader(b)
		if errors.Is(err, amqp.ErrShort) {
			return 0, nil
		}
		if err != nil || !h.Supported() || h.ID != amqp.ProtoSASL {
			return 0, &Error{
				Scope: ScopeConnection, cause: ErrHeader,
				AMQP: amqp.Error{Condition: amqp.ErrCondFramingError, Description: "the server speaks no SASL 1.0.0"},
			}
		}
		s.header = true
		return amqp.ProtoHeaderSize, nil
	}
	f, n, err := amqp.DecodeFrame(b, amqp.Limits{MaxFrameSize: maxServerFrame})
	if errors.Is(err, amqp.ErrShort) {
		return 0, nil
	}
	if err != nil {
		return 0, saslFault(err)
	}
	switch p := f.Body.(type) {
	case *amqp.SASLMechanisms:
		if !s.sent {
			return n, s.choose(p.Mechanisms)
		}
	case *amqp.SASLOutcome:
		if p.Code != amqp.SASLCodeOK {
			return 0, &SASLError{Code: p.Code}
		}
		if s.sent {
			s.done = true
			return n, nil
		}
	}
	return 0, saslFault(&amqp.DecodeError{Condition: amqp.ErrCondFramingError, What: "an unexpected " + amqp.NameOf(f.Body)})
}

// choose answers the offer. A user's name is never given up for ANONYMOUS.
func (s *SASLClient) choose(offered []amqp.Symbol) error {
	p := amqp.SASLInit{Mechanism: MechanismAnonymous, InitialResponse: []byte{}, Hostname: s.cfg.Hostname}
	if s.cfg.User != "" {
		p.Mechanism = MechanismPlain
		p.InitialResponse = []byte("\x00" + s.cfg.User + "\x00" + s.cfg.Password)
	}
	if !slices.Contains(offered, p.Mechanism) {
		return ErrMechanism
	}
	s.sent = true
	s.out = amqp.AppendFrame(s.out, 0, &p, nil)
	return nil
}

// TakeOutput is Conn.TakeOutput for this layer.
func (s *SASLClient) TakeOutput(spare []byte) []byte {
	b := s.out
	s.out = spare[:0]
	return b
}

// Done says that the server answered OK: the Conn takes the bytes that follow.
func (s *SASLClient) Done() bool { return s.done }
