package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xdg-go/scram"

	"github.com/oncemq/oncemq/internal/command"
)

const plus = "-PLUS"

// The mechanisms, by their registered names.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	// Those with channel binding: the proof holds for this TLS connection alone, so that nobody in between can pass it on.
	ScramSHA256Plus = ScramSHA256 + plus
	ScramSHA512Plus = ScramSHA512 + plus

	Plain    = "PLAIN"
	External = "EXTERNAL"
)

// How an exchange ends that doesn't end well.
var (
	// ErrDenied is a "no"; what it wraps it with is for the log, not for the peer.
	ErrDenied = errors.New("oncemq: not authenticated")
	// ErrLater: nothing is known now, another node or another time may help.
	ErrLater = errors.New("oncemq: can't authenticate anybody now")
)

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDenied, fmt.Sprintf(format, args...))
}

func later(err error) error { return fmt.Errorf("%w: %w", ErrLater, err) }

// hashes are those of the SCRAM mechanisms.
var hashes = map[string]scram.HashGeneratorFcn{
	ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512, ScramSHA256Plus: scram.SHA256, ScramSHA512Plus: scram.SHA512,
}

// exporter makes a channel binding of what the TLS layer exports (tls-exporter, RFC 9266).
func exporter(binding []byte) scram.ChannelBinding {
	return scram.ChannelBinding{Type: scram.ChannelBindingTLSExporter, Data: binding}
}

// ScramServer is the server's side of one SCRAM exchange. It isn't safe for concurrent
// use.
type ScramServer struct {
	conv *scram.ServerConversation
	user User
	err  error // of the look-up
}

// NewScramServer begins an exchange of mechanism. binding is what the connection's TLS
// layer exports (32 bytes, RFC 9266), empty without TLS; with it the PLUS mechanisms
// have to be offered, as a client that can bind and says that it saw none of them is
// refused: somebody in between has taken them away. find is called once, within the
// first Step.
func NewScramServer(mechanism string, binding []byte, find Find) (*ScramServer, error) {
	s := &ScramServer{}
	hash := hashes[mechanism]
	if hash == nil {
		return nil, fmt.Errorf("oncemq: %q is no SCRAM mechanism", mechanism)
	}
	server, err := hash.NewServer(func(raw string) (scram.StoredCredentials, error) {
		name, err := Name(raw)
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		if s.user, s.err = find(name); s.err != nil {
			return scram.StoredCredentials{}, s.err
		}
		return credentials(mechanism, &s.user.Keys), nil
	})
	if err != nil {
		return nil, fmt.Errorf("oncemq: %s: %w", mechanism, err)
	}
	switch bound := strings.HasSuffix(mechanism, plus); {
	case bound && len(binding) == 0:
		return nil, fmt.Errorf("oncemq: %s without TLS", mechanism)
	case bound:
		s.conv = server.NewConversationWithChannelBindingRequired(exporter(binding))
	case len(binding) > 0:
		s.conv = server.NewConversationWithChannelBinding(exporter(binding))
	default:
		s.conv = server.NewConversation()
	}
	return s, nil
}

func credentials(mechanism string, k *command.ScramKeys) scram.StoredCredentials {
	c := scram.StoredCredentials{KeyFactors: factors(k), StoredKey: k.Stored256[:], ServerKey: k.Server256[:]}
	if strings.HasPrefix(mechanism, ScramSHA512) {
		c.StoredKey, c.ServerKey = k.Stored512[:], k.Server512[:]
	}
	return c
}

// Step takes what the client says and gives the answer: a challenge, or, with done, what
// goes with the outcome "ok". Errors are ErrDenied and ErrLater; the exchange is over
// then, and nothing but the outcome may be told.
func (s *ScramServer) Step(message []byte) (answer []byte, done bool, err error) {
	text, err := s.conv.Step(string(message))
	switch {
	case s.err != nil:
		return nil, true, later(s.err)
	case err != nil && errors.Is(err, ErrName):
		return nil, true, fmt.Errorf("%w: %w", ErrDenied, err)
	case err != nil:
		// The library's words may repeat what the peer sent.
		return nil, true, denied("the SCRAM exchange failed: a malformed message or a wrong password")
	case !s.conv.Done():
		return []byte(text), false, nil
	case !s.conv.Valid() || !s.user.Exists:
		return nil, true, denied("wrong password")
	}
	if z := s.conv.AuthzID(); z != "" {
		if name, err := Name(z); err != nil || name != s.user.Name {
			return nil, true, denied("it wants to act as somebody else")
		}
	}
	return []byte(text), true, nil
}

// User is who the exchange is about, known after the first Step: authenticated only once
// Step was done without an error.
func (s *ScramServer) User() User { return s.user }

// maxIterations bounds the work that a server may ask of a client: about 10 s.
const maxIterations = 1_000_000

// ErrServer is how a client's exchange fails where the server misbehaves: it asks for
// what is unsafe or doesn't know the password itself.
var ErrServer = errors.New("oncemq: the server failed the SCRAM exchange")

// Scram is a user's name and password for the client's side of SCRAM. The rounds of
// PBKDF2 are paid once for each salt. It is safe for concurrent use.
type Scram struct {
	mechanism string
	client    *scram.Client
}

// NewScram prepares both for mechanism, ScramSHA256 or ScramSHA512. Errors wrap ErrName and ErrPassword.
func NewScram(mechanism, user string, p Password) (*Scram, error) {
	hash := hashes[mechanism]
	if hash == nil {
		return nil, fmt.Errorf("oncemq: %q is no SCRAM mechanism", mechanism)
	}
	name, err := Name(user)
	if err != nil {
		return nil, err
	}
	text, err := p.prepare()
	if err != nil {
		return nil, err
	}
	client, err := hash.NewClientUnprepped(name, text, "")
	if err != nil {
		return nil, fmt.Errorf("oncemq: %s: %w", mechanism, err)
	}
	return &Scram{mechanism: mechanism, client: client.WithMinIterations(4096)}, nil
}

// Begin starts an exchange. binding is as for NewScramServer; where it isn't empty, the
// client tells the server that it could have bound, so that one which offered that
// finds out.
func (s *Scram) Begin(binding []byte) *ScramClient {
	if len(binding) > 0 {
		return &ScramClient{mechanism: s.mechanism, conv: s.client.NewConversationAdvertisingChannelBinding()}
	}
	return &ScramClient{mechanism: s.mechanism, conv: s.client.NewConversation()}
}

// BeginBound starts an exchange of the PLUS mechanism, bound to the TLS connection.
func (s *Scram) BeginBound(binding []byte) *ScramClient {
	return &ScramClient{mechanism: s.mechanism + plus, conv: s.client.NewConversationWithChannelBinding(exporter(binding))}
}

// ScramClient is the client's side of one exchange. It isn't safe for concurrent use.
type ScramClient struct {
	mechanism string
	conv      *scram.ClientConversation
}

// Name is the mechanism's.
func (c *ScramClient) Name() string { return c.mechanism }

// Start is the initial response.
func (c *ScramClient) Start() ([]byte, error) { return c.step(nil) }

// Answer takes a challenge: the server's salt, or its proof from servers that send it
// ahead of the outcome. Errors wrap ErrServer.
func (c *ScramClient) Answer(challenge []byte) ([]byte, error) {
	if n := iterations(string(challenge)); n > maxIterations {
		return nil, fmt.Errorf("%w: it asks for %d iterations; at most %d are safe", ErrServer, n, maxIterations)
	}
	return c.step(challenge)
}

// Verify takes what came with the outcome "ok". An error means that the server has not
// proved that it knows the password; it wraps ErrServer.
func (c *ScramClient) Verify(additional []byte) error {
	if c.conv.Valid() && len(additional) == 0 {
		return nil // proved in a challenge
	}
	if _, err := c.step(additional); err != nil {
		return err
	}
	if !c.conv.Valid() {
		return fmt.Errorf("%w: it has not proved that it knows the password", ErrServer)
	}
	return nil
}

func (c *ScramClient) step(message []byte) ([]byte, error) {
	text, err := c.conv.Step(string(message))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServer, err)
	}
	return []byte(text), nil
}
