package engine

import (
	"bytes"
	"errors"

	"github.com/oncemq/oncemq/internal/amqp"
)

// SASLServer is the server's side of the SASL layer as a step machine: it stands before the Conn on the same bytes. It knows
// no mechanism: what the client says comes as SASLStep, the user answers with Challenge or Outcome, now or later (a "no"
// needs a read barrier, C16).
type SASLServer struct {
	// AllowSkip lets a peer begin with the AMQP header, without SASL: skipped then, and nothing consumed. It is set before the first Input.
	AllowSkip bool

	mechanisms []amqp.Symbol
	limits     amqp.Limits
	out        []byte
	state      saslState
	step       SASLStep
	code       amqp.SASLCode
}

// SASLStep is what a client said.
type SASLStep struct {
	// Init: this is the sasl-init, with Mechanism (one of those offered) and Hostname; else a sasl-response.
	Init      bool
	Mechanism amqp.Symbol
	Hostname  string
	// Response is the initial-response or response; it belongs to the receiver. HasResponse tells an absent one from an empty.
	Response    []byte
	HasResponse bool
}

// saslState is what a SASLServer waits for.
type saslState uint8

const (
	saslHeader saslState = iota
	saslInit
	saslStep     // the user is to take step
	saslAnswer   // the user is to answer it
	saslResponse // the client is to answer a challenge
	saslDone
	saslSkipped
	saslBroken
)

// NewSASLServer offers mechanisms, in this order.
func NewSASLServer(mechanisms ...amqp.Symbol) *SASLServer {
	return &SASLServer{mechanisms: mechanisms, limits: amqp.Limits{MaxFrameSize: amqp.MinMaxFrameSize}}
}

// Input takes bytes from the client, as Conn.Input does, with frames of at most 512 bytes. It consumes nothing while an answer of
// the user's is due, nor after the outcome. After an error, write the output and close the socket.
func (s *SASLServer) Input(b []byte) (consumed int, err error) {
	for err == nil {
		n := 0
		switch s.state {
		case saslHeader:
			n, err = s.takeHeader(b[consumed:])
		case saslInit, saslResponse:
			n, err = s.takeFrame(b[consumed:])
		default:
			return consumed, nil
		}
		consumed += n
		if n == 0 {
			break
		}
	}
	if err != nil {
		s.state = saslBroken
		return len(b), err
	}
	return consumed, nil
}

func (s *SASLServer) takeHeader(b []byte) (int, error) {
	h, err := amqp.ParseProtoHeader(b)
	switch {
	case errors.Is(err, amqp.ErrShort):
		return 0, nil
	case err == nil && h.Supported() && h.ID == amqp.ProtoAMQP && s.AllowSkip:
		s.state = saslSkipped
		return 0, nil
	}
	s.out = amqp.AppendProtoHeader(s.out, amqp.ProtoSASL)
	if err != nil || !h.Supported() || h.ID != amqp.ProtoSASL {
		return 0, &Error{
			Scope: ScopeConnection, cause: ErrHeader,
			AMQP: amqp.Error{Condition: amqp.ErrCondFramingError, Description: "another protocol header than SASL 1.0.0"},
		}
	}
	s.out = amqp.AppendFrame(s.out, 0, &amqp.SASLMechanisms{Mechanisms: s.mechanisms}, nil)
	s.state = saslInit
	return amqp.ProtoHeaderSize, nil
}

func (s *SASLServer) takeFrame(b []byte) (int, error) {
	f, n, err := amqp.DecodeFrame(b, s.limits)
	if errors.Is(err, amqp.ErrShort) {
		return 0, nil
	}
	if err != nil {
		return 0, saslFault(err)
	}
	switch p := f.Body.(type) {
	case *amqp.SASLInit:
		if s.state == saslInit {
			s.init(p)
			return n, nil
		}
	case *amqp.SASLResponse:
		if s.state == saslResponse {
			s.step = SASLStep{Response: bytes.Clone(p.Response), HasResponse: true}
			s.state = saslStep
			return n, nil
		}
	}
	return 0, saslFault(&amqp.DecodeError{Condition: amqp.ErrCondFramingError, What: "an unexpected " + amqp.NameOf(f.Body)})
}

// saslFault is the connection error for bytes that the layer can't take.
func saslFault(err error) *Error {
	e := &Error{Scope: ScopeConnection, AMQP: amqp.Error{Condition: amqp.ErrCondDecodeError}}
	var bad *amqp.DecodeError
	if errors.As(err, &bad) {
		e.AMQP.Condition, e.AMQP.Description = bad.Condition, bad.What
	}
	return e
}

// init takes the client's choice; what was not offered is refused at once.
func (s *SASLServer) init(p *amqp.SASLInit) {
	s.state = saslAnswer
	for _, m := range s.mechanisms {
		if m == p.Mechanism {
			s.step = SASLStep{
				Init: true, Mechanism: m, Hostname: p.Hostname,
				Response: bytes.Clone(p.InitialResponse), HasResponse: p.InitialResponse != nil,
			}
			s.state = saslStep
			return
		}
	}
	s.Outcome(amqp.SASLCodeAuth, nil)
}

// Next is the step that waits for an answer, once.
func (s *SASLServer) Next() (SASLStep, bool) {
	if s.state != saslStep {
		return SASLStep{}, false
	}
	s.state = saslAnswer
	step := s.step
	s.step = SASLStep{}
	return step, true
}

// Challenge answers a step with a sasl-challenge.
func (s *SASLServer) Challenge(challenge []byte) {
	if s.state == saslAnswer {
		s.out = amqp.AppendFrame(s.out, 0, &amqp.SASLChallenge{Challenge: challenge}, nil)
		s.state = saslResponse
	}
}

// Outcome answers a step with the outcome; additional data (may be nil) goes with it. Nothing is sent after any code but OK.
func (s *SASLServer) Outcome(code amqp.SASLCode, additional []byte) {
	if s.state == saslAnswer {
		s.out = amqp.AppendFrame(s.out, 0, &amqp.SASLOutcome{Code: code, AdditionalData: additional}, nil)
		s.state, s.code = saslDone, code
	}
}

// TakeOutput is Conn.TakeOutput for this layer.
func (s *SASLServer) TakeOutput(spare []byte) []byte {
	b := s.out
	s.out = spare[:0]
	return b
}

// Done says that the layer is over, with which code; after OK or skipped the Conn takes the bytes that follow.
func (s *SASLServer) Done() (code amqp.SASLCode, skipped, done bool) {
	return s.code, s.state == saslSkipped, s.state == saslSkipped || s.state == saslDone
}

// ErrPlain refuses a malformed PLAIN response.
var ErrPlain = errors.New("oncemq: a PLAIN response is three parts split by NUL, with a name and a password")

// ParsePlain takes a PLAIN response apart (RFC 4616): three parts, split by NUL, with a name and a password.
func ParsePlain(response []byte) (authzid, user, password string, err error) {
	parts := bytes.Split(response, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 {
		return "", "", "", ErrPlain
	}
	return string(parts[0]), string(parts[1]), string(parts[2]), nil
}
