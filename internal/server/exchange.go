package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
)

// exchange is one client's proof of who it is.
type exchange struct {
	c         *conn
	offered   []amqp.Symbol
	mechanism amqp.Symbol
	scram     *auth.ScramServer
	asked     bool   // for the initial response that didn't come
	user      string // who it claims to be, for the log
	principal string // who it is
	err       error  // why not
}

func (c *conn) newExchange() *exchange { return &exchange{c: c, offered: c.offer()} }

// step answers what the client said, with a challenge or the outcome.
func (x *exchange) step(ctx context.Context, layer *engine.SASLServer, step engine.SASLStep) {
	if step.Init {
		x.mechanism = step.Mechanism
	}
	if !step.HasResponse && !x.asked && x.mechanism != mechanismAnonymous {
		x.asked = true
		layer.Challenge([]byte{})
		return
	}
	answer, done, err := x.take(ctx, step)
	x.err = err
	switch {
	case errors.Is(err, auth.ErrLater):
		layer.Outcome(amqp.SASLCodeSysTemp, nil)
	case err != nil:
		layer.Outcome(amqp.SASLCodeAuth, nil)
	case done:
		layer.Outcome(amqp.SASLCodeOK, answer)
	default:
		layer.Challenge(answer)
	}
}

// take gives the mechanism what the client said.
func (x *exchange) take(ctx context.Context, step engine.SASLStep) (answer []byte, done bool, err error) {
	switch x.mechanism {
	case mechanismAnonymous:
		// Whatever its response says is a trace for people (RFC 4505).
		x.principal = frontend.Anonymous
		return nil, true, nil
	case auth.ScramSHA256, auth.ScramSHA512, auth.ScramSHA256Plus, auth.ScramSHA512Plus:
		return x.takeScram(ctx, step.Response)
	case auth.Plain:
		x.principal, err = x.plain(ctx, step.Response)
		return nil, true, err
	case auth.External:
		u, err := auth.CertificateUser(string(step.Response), x.c.names(), x.find(ctx))
		x.user, x.principal = u.Name, u.Name
		return nil, true, err
	}
	return nil, true, fmt.Errorf("%w: %w", auth.ErrDenied, errNotOffered) // the layer lets none through
}

func (x *exchange) takeScram(ctx context.Context, message []byte) ([]byte, bool, error) {
	if x.scram == nil {
		var err error
		if x.scram, err = auth.NewScramServer(string(x.mechanism), x.c.binding(), x.find(ctx)); err != nil {
			return nil, true, err
		}
	} else if err := x.mayTry(x.user); err != nil {
		return nil, true, err // others of its kind have failed meanwhile
	}
	answer, done, err := x.scram.Step(message)
	if !done {
		return answer, false, err
	}
	x.judged(err)
	if err == nil {
		x.principal = x.scram.User().Name
	}
	return answer, true, err
}

// plain checks a name and a password in clear. The rounds of PBKDF2 are run only where the password isn't known to be right,
// and few at a time in the whole process (interleavings 8.4).
func (x *exchange) plain(ctx context.Context, response []byte) (principal string, err error) {
	authz, raw, clear, err := engine.ParsePlain(response)
	if err != nil {
		return "", fmt.Errorf("%w: %w", auth.ErrDenied, err)
	}
	name, err := auth.Name(raw)
	if err != nil {
		return "", fmt.Errorf("%w: %w", auth.ErrDenied, err)
	}
	if authz != "" && authz != raw {
		return "", fmt.Errorf("%w: it wants to act as somebody else", auth.ErrDenied)
	}
	u, err := x.find(ctx)(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", auth.ErrLater, err)
	}
	err = x.c.s.guard.check(ctx, &u, auth.Password(clear))
	x.judged(err)
	if err != nil {
		return "", err
	}
	return u.Name, nil
}

// find looks a user up, unless it has to wait.
func (x *exchange) find(ctx context.Context) auth.Find {
	return func(name string) (auth.User, error) {
		x.user = name
		if x.mechanism != auth.External {
			if err := x.mayTry(name); err != nil {
				return auth.User{}, err
			}
		}
		return x.c.s.cfg.Users.FindUser(ctx, name)
	}
}

// mayTry is an error while the user, existing or not, is locked out at this address.
func (x *exchange) mayTry(name string) error {
	if wait := x.c.s.guard.wait(name, x.c.host, time.Now()); wait > 0 {
		return fmt.Errorf("%w: too many failures of this user from there; the next try is in %v", auth.ErrLater, wait.Round(time.Millisecond))
	}
	return nil
}

// judged notes a failure or a success for the lock-out. "Later" is neither.
func (x *exchange) judged(err error) {
	switch {
	case x.user == "":
	case err == nil:
		x.c.s.guard.passed(x.user, x.c.host)
	case errors.Is(err, auth.ErrDenied):
		x.c.s.guard.failed(x.user, x.c.host, time.Now())
	}
}

// binding is what the TLS layer exports for SCRAM.
func (c *conn) binding() []byte {
	if c.tls == nil {
		return nil
	}
	return certs.Binding(c.tls.ConnectionState())
}

// names are those of the client's certificate.
func (c *conn) names() []string {
	if c.tls == nil {
		return nil
	}
	return certs.Names(c.tls.ConnectionState())
}
