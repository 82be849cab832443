package oncemq

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/engine"
)

// security gives what makes the TLS configuration of each dial; nil for plaintext.
func (c *Config) security(secure bool) (func() (*tls.Config, error), error) {
	files := c.CAFile != "" || c.CertFile != "" || c.KeyFile != ""
	switch {
	case !secure && files:
		return nil, errors.New("oncemq: Config.CAFile, CertFile and KeyFile are for TLS: use amqps:// or wss:// addresses")
	case !secure:
		return nil, nil
	case c.TLS != nil && files:
		return nil, errors.New("oncemq: Config.TLS and Config.CAFile, CertFile or KeyFile exclude each other: put the files' content into TLS")
	case c.TLS != nil:
		given := certs.Strict(c.TLS)
		return func() (*tls.Config, error) { return given.Clone(), nil }, nil
	}
	read := func() (*tls.Config, error) { return certs.Client(c.CAFile, c.CertFile, c.KeyFile) }
	if _, err := read(); err != nil {
		return nil, err // at once, not at every dial
	}
	return read, nil
}

// mechanisms gives what makes the SASL mechanisms of each connection; binding is what its TLS layer exports, nil without one.
func (c *Config) mechanisms(secure bool) (func(binding []byte) []engine.SASLMechanism, error) {
	who := c.Credentials
	certified := secure && (c.CertFile != "" || c.TLS != nil && (len(c.TLS.Certificates) > 0 || c.TLS.GetClientCertificate != nil))
	always := func(m func() engine.SASLMechanism) func([]byte) []engine.SASLMechanism {
		return func([]byte) []engine.SASLMechanism { return []engine.SASLMechanism{m()} }
	}
	switch {
	case who.User == "" && (who.Password != "" || who.Plain):
		return nil, errors.New("oncemq: Config.Credentials has no User")
	case who.Password == "" && certified:
		return always(func() engine.SASLMechanism { return engine.External(who.User) }), nil
	case who.User == "":
		return always(engine.Anonymous), nil
	case who.Plain && !secure:
		return nil, fmt.Errorf("oncemq: Config.Credentials.Plain would show the password of %q to everybody on the way: use amqps:// or wss:// addresses", who.User)
	case who.Plain:
		return always(func() engine.SASLMechanism { return engine.Plain(who.User, who.Password) }), nil
	}
	var keys []*auth.Scram // kept, so that a reconnect doesn't pay the rounds again
	for _, mechanism := range []string{auth.ScramSHA256, auth.ScramSHA512} {
		k, err := auth.NewScram(mechanism, who.User, auth.Password(who.Password))
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return func(binding []byte) (all []engine.SASLMechanism) {
		for _, k := range keys {
			if len(binding) > 0 {
				all = append(all, k.BeginBound(binding))
			}
		}
		for _, k := range keys {
			all = append(all, k.Begin(binding))
		}
		return all
	}, nil
}
