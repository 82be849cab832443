package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ErrFiles is wrapped by errors about the files.
var ErrFiles = errors.New("oncemq: TLS files")

// base is what every tls.Config of the project begins with; a test finds those that
// don't.
func base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13}
}

// Client is the configuration of who dials: ca is a file of certificates that sign
// servers', empty for the system's; cert and key are the client's own, both empty for
// none. Errors wrap ErrFiles.
func Client(ca, cert, key string) (*tls.Config, error) {
	c := base()
	var err error
	if ca != "" {
		if c.RootCAs, err = pool(ca); err != nil {
			return nil, err
		}
	}
	if cert != "" || key != "" {
		pair, err := keyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Strict is a copy of somebody else's configuration that takes nothing below TLS 1.3.
func Strict(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, base().MinVersion)
	c.MaxVersion = 0
	return c
}

// Names are the names (SAN) of a verified peer certificate: DNS names, e-mail
// addresses and URIs, as they stand there; none where no certificate was verified. The
// subject's common name is no name.
func Names(st tls.ConnectionState) []string {
	if len(st.VerifiedChains) == 0 || len(st.PeerCertificates) == 0 {
		return nil
	}
	cert := st.PeerCertificates[0]
	names := append([]string(nil), cert.DNSNames...)
	names = append(names, cert.EmailAddresses...)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}

// Binding is what both ends of a TLS connection, and nobody else, can derive from it
// (tls-exporter, RFC 9266): 32 bytes; nil where the connection can't give it.
func Binding(st tls.ConnectionState) []byte {
	b, err := st.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		return nil
	}
	return b
}

func keyPair(cert, key string) (tls.Certificate, error) {
	if cert == "" || key == "" {
		return tls.Certificate{}, fmt.Errorf("%w: a certificate and its key go together; got certificate %q and key %q", ErrFiles, cert, key)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w: certificate %s with key %s: %w", ErrFiles, cert, key, err)
	}
	return pair, nil
}

func pool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: CA file: %w", ErrFiles, err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: CA file %s has no certificate in PEM form", ErrFiles, file)
	}
	return p, nil
}
