package certs

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"
)

// Files are a listener's PEM files.
type Files struct {
	// Cert and Key are the listener's own certificate, with its chain, and its key.
	Cert, Key string
	// ClientCA are certificates that sign clients'; empty: none is asked for. Clients
	// need not show one.
	ClientCA string
}

// Listener gives a listener's configuration and keeps up with its files. It is safe for
// concurrent use and starts no goroutine: it looks when a handshake begins.
type Listener struct {
	files *watched[*tls.Config]
}

// NewListener reads the files. Errors wrap ErrFiles. What goes wrong later is logged.
func NewListener(files Files, logger *slog.Logger) (*Listener, error) {
	w, err := watch(logger, func() (*tls.Config, error) { return load(files) }, files.Cert, files.Key, files.ClientCA)
	if err != nil {
		return nil, err
	}
	return &Listener{w}, nil
}

// Config is for tls.Server; what it says is decided at each handshake anew.
func (l *Listener) Config() *tls.Config {
	c := base()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.current(time.Now()), nil }
	return c
}

// Expires is when the certificate that is shown now ends.
func (l *Listener) Expires() time.Time { return expiry(&l.current(time.Now()).Certificates[0]) }

// current is the configuration as the files are, looked at once in lookEvery.
func (l *Listener) current(now time.Time) *tls.Config { return l.files.current(now) }

// expiry is when a certificate ends.
func expiry(pair *tls.Certificate) time.Time {
	leaf := pair.Leaf
	if leaf == nil {
		leaf, _ = x509.ParseCertificate(pair.Certificate[0]) // it was parsed before
	}
	return leaf.NotAfter
}

func load(f Files) (*tls.Config, error) {
	pair, err := keyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := base()
	c.Certificates = []tls.Certificate{pair}
	// A resumed session would not show a certificate that has been replaced or revoked by
	// another CA since.
	c.SessionTicketsDisabled = true
	if f.ClientCA != "" {
		if c.ClientCAs, err = pool(f.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
