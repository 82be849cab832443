package engine

import "github.com/oncemq/oncemq/internal/amqp"

// SASLServer is the server's side of the SASL layer as a step machine: it stands before the Conn on the same bytes. It knows
// no mechanism: what the client says comes as SASLStep, the user answers with Challenge or Outcome, now or later (a "no"
// needs a read barrier, C16).
type SASLServer struct {
	// AllowSkip lets a peer begin with the AMQP header, without SASL: Skipped then, and nothing consumed. It is set before the first Input.
	AllowSkip bool
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

// NewSASLServer offers mechanisms, in this order.
func NewSASLServer(mechanisms ...amqp.Symbol) *SASLServer { panic("skeleton") }

// Input takes bytes from the client, as Conn.Input does, with frames of at most 512 bytes. It consumes nothing while an answer of
// the user's is due, nor after the outcome. After an error, write the output and close the socket.
func (s *SASLServer) Input(b []byte) (consumed int, err error) { panic("skeleton") }

// Next is the step that waits for an answer, once.
func (s *SASLServer) Next() (SASLStep, bool) { panic("skeleton") }

// Challenge answers a step with a sasl-challenge.
func (s *SASLServer) Challenge(challenge []byte) { panic("skeleton") }

// Outcome answers a step with the outcome; additional data (may be nil) goes with it. Nothing is sent after any code but OK.
func (s *SASLServer) Outcome(code amqp.SASLCode, additional []byte) { panic("skeleton") }

// TakeOutput is Conn.TakeOutput for this layer.
func (s *SASLServer) TakeOutput(spare []byte) []byte { panic("skeleton") }

// Done says that the layer is over, with which code; after OK or skipped the Conn takes the bytes that follow.
func (s *SASLServer) Done() (code amqp.SASLCode, skipped, done bool) { panic("skeleton") }

// ParsePlain takes a PLAIN response apart (RFC 4616): three parts, split by NUL, with a name and a password.
func ParsePlain(response []byte) (authzid, user, password string, err error) { panic("skeleton") }

// SASLClient is the client's side of the SASL layer as a step machine; it knows ANONYMOUS and PLAIN.
type SASLClient struct{}

// SASLClientConfig says who the client is.
type SASLClientConfig struct {
	// Hostname goes into sasl-init.
	Hostname string
	// User and Password are for PLAIN; without a User it is ANONYMOUS.
	User, Password string
}

// NewSASLClient queues the SASL header.
func NewSASLClient(cfg SASLClientConfig) *SASLClient { panic("skeleton") }

// Input takes bytes from the server. A *SASLError means that it said no, ErrMechanism that
// it offers none of ours.
func (s *SASLClient) Input(b []byte) (consumed int, err error) { panic("skeleton") }

// TakeOutput is Conn.TakeOutput for this layer.
func (s *SASLClient) TakeOutput(spare []byte) []byte { panic("skeleton") }

// Done says that the server answered OK: the Conn takes the bytes that follow.
func (s *SASLClient) Done() bool { panic("skeleton") }
