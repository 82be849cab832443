package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// SASLMechanism is one way to say who the client is, for one exchange.
type SASLMechanism interface {
	// Name is the registered name.
	Name() string
	// Start gives the initial response, Answer the response to a challenge.
	Start() ([]byte, error)
	Answer(challenge []byte) ([]byte, error)
	// Verify takes what came with the outcome "ok"; an error means that the server has not proved who it is.
	Verify(additional []byte) error
}

// single is a mechanism of one message.
type single struct {
	name     amqp.Symbol
	response []byte
}

// Anonymous says no name.
func Anonymous() SASLMechanism { return &single{name: "ANONYMOUS", response: []byte{}} }

// Plain says name and password in clear (RFC 4616): for TLS only.
func Plain(user, password string) SASLMechanism {
	return &single{name: "PLAIN", response: []byte("\x00" + user + "\x00" + password)}
}

// External leaves it to the TLS layer's certificate who the client is (RFC 4422 appendix A); user, which may be empty, chooses
// among the names in it.
func External(user string) SASLMechanism {
	return &single{name: "EXTERNAL", response: append([]byte{}, user...)}
}

// Name implements SASLMechanism.
func (m *single) Name() string { return string(m.name) }

// Start implements SASLMechanism.
func (m *single) Start() ([]byte, error) { return m.response, nil }

// Answer implements SASLMechanism: a server that didn't see the initial response asks with an empty challenge.
func (m *single) Answer(challenge []byte) ([]byte, error) {
	if len(challenge) > 0 {
		return nil, saslFault(&amqp.DecodeError{Condition: amqp.ErrCondFramingError, What: "a challenge of " + m.Name()})
	}
	return m.response, nil
}

// Verify implements SASLMechanism: such a server proves nothing.
func (*single) Verify([]byte) error { return nil }

// ErrMechanism is how a client's SASL layer fails if nothing that it can speak is offered.
var ErrMechanism = errors.New("oncemq: the server offers no SASL mechanism of ours")

// SASLError is a server's no. Only SASLCodeSysTemp is worth another try, elsewhere (C16).
type SASLError struct {
	// Code is the outcome's.
	Code amqp.SASLCode
}

// Error names the code.
func (e *SASLError) Error() string {
	if e.Code == amqp.SASLCodeAuth {
		return "oncemq: the server refused the user, its password or its certificate (SASL code 1)"
	}
	return fmt.Sprintf("oncemq: the server refused the SASL exchange with code %d", e.Code)
}

// maxServerFrame bounds what a client takes from a server in the SASL layer: lists of mechanisms may pass 512 bytes.
const maxServerFrame = 4096

// maxChallenges bounds what a server may ask: SCRAM has one, or two with servers that prove themselves ahead of the outcome.
const maxChallenges = 3

// SASLClient is the client's side of the SASL layer as a step machine.
type SASLClient struct {
	cfg    SASLClientConfig
	out    []byte
	header bool // the server's is there
	chosen SASLMechanism
	asked  int // challenges answered
	done   bool
}

// SASLClientConfig says who the client is.
type SASLClientConfig struct {
	// Hostname goes into sasl-init.
	Hostname string
	// Mechanisms are tried in this order: the first that the server offers is used, and no other if it fails. None: ANONYMOUS.
	Mechanisms []SASLMechanism
}

// NewSASLClient queues the SASL header.
func NewSASLClient(cfg SASLClientConfig) *SASLClient {
	if len(cfg.Mechanisms) == 0 {
		cfg.Mechanisms = []SASLMechanism{Anonymous()}
	}
	return &SASLClient{cfg: cfg, out: amqp.AppendProtoHeader(nil, amqp.ProtoSASL)}
}

// Input takes bytes from the server and consumes nothing behind the outcome. A *SASLError means that it said no,
// ErrMechanism that it offers none of ours; an *Error that it broke the protocol; others are the mechanism's.
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
		if s.chosen == nil {
			return n, s.choose(p.Mechanisms)
		}
	case *amqp.SASLChallenge:
		if s.asked++; s.chosen != nil && s.asked <= maxChallenges {
			return n, s.answer(p.Challenge)
		}
	case *amqp.SASLOutcome:
		if p.Code != amqp.SASLCodeOK {
			return 0, &SASLError{Code: p.Code}
		}
		if s.chosen != nil {
			if err := s.chosen.Verify(p.AdditionalData); err != nil {
				return 0, err
			}
			s.done = true
			return n, nil
		}
	}
	return 0, saslFault(&amqp.DecodeError{Condition: amqp.ErrCondFramingError, What: "an unexpected " + amqp.NameOf(f.Body)})
}

// choose answers the offer. A user's name is never given up for ANONYMOUS, nor a mechanism for a weaker one that wasn't asked for.
func (s *SASLClient) choose(offered []amqp.Symbol) error {
	for _, m := range s.cfg.Mechanisms {
		name := amqp.Symbol(m.Name())
		if !slices.Contains(offered, name) {
			continue
		}
		response, err := m.Start()
		if err != nil {
			return err
		}
		s.chosen = m
		s.out = amqp.AppendFrame(s.out, 0, &amqp.SASLInit{Mechanism: name, InitialResponse: response, Hostname: s.cfg.Hostname}, nil)
		return nil
	}
	return fmt.Errorf("%w: it offers %q", ErrMechanism, offered)
}

// answer takes a challenge.
func (s *SASLClient) answer(challenge []byte) error {
	response, err := s.chosen.Answer(challenge)
	if err != nil {
		return err
	}
	s.out = amqp.AppendFrame(s.out, 0, &amqp.SASLResponse{Response: response}, nil)
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
