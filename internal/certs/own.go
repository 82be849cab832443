package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// Authorities are certificates of authorities that a cluster's operator has: they sign the nodes' certificates, and no node has
// their key.
type Authorities struct {
	text  []byte // PEM, the certificates alone
	certs []*x509.Certificate
}

// ReadAuthorities reads a PEM file of authorities, each of which must be one and valid at now. Errors wrap ErrFiles.
func ReadAuthorities(file string, now time.Time) (*Authorities, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: authorities: %w", ErrFiles, err)
	}
	a := &Authorities{}
	for _, der := range certificates(text) {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %s: %w", ErrFiles, file, err)
		case !c.IsCA || !c.BasicConstraintsValid:
			return nil, fmt.Errorf("%w: %s: the certificate of %q isn't an authority's (CA:TRUE)", ErrFiles, file, c.Subject)
		case now.Before(c.NotBefore) || now.After(c.NotAfter):
			return nil, fmt.Errorf("%w: %s: the authority %q is valid from %s to %s", ErrFiles, file, c.Subject, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339))
		}
		a.certs = append(a.certs, c)
		a.text = append(a.text, pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der})...)
	}
	if len(a.certs) == 0 {
		return nil, fmt.Errorf("%w: %s has no certificate in PEM form", ErrFiles, file)
	}
	return a, nil
}

// Fingerprint is the first one's.
func (a *Authorities) Fingerprint() [32]byte { return Fingerprint(a.certs[0].Raw) }

// Has says whether the one of that fingerprint is among them.
func (a *Authorities) Has(fingerprint [32]byte) bool {
	for _, c := range a.certs {
		if Fingerprint(c.Raw) == fingerprint {
			return true
		}
	}
	return false
}

// FoundOwn is Found for a cluster without an authority of its own: a key and a request for a certificate (node.csr), and the
// authorities that are trusted, last. What an attempt with an authority of the cluster's own has left goes. Errors wrap ErrFiles or
// are of the disk.
func (d Directory) FoundOwn(a *Authorities, id Identity) error {
	for _, name := range []string{caCertName, caKeyName, nodeCertName} {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := d.Request(id); err != nil {
		return err
	}
	return d.Trust(a)
}

// Trust replaces ca.crt.
func (d Directory) Trust(a *Authorities) error { return WriteFile(d.path(caCertName), a.text) }

// RequestPath is where Request writes to.
func (d Directory) RequestPath() string { return d.path(nodeRequestName) }

// Request writes node.csr, a request (PKCS #10) for a certificate for this node's key, drawn where there is none, with the node's name and for
// both ends of connections between nodes. The file is nothing that a node needs, and no secret.
func (d Directory) Request(id Identity) error {
	key, err := d.Key()
	if err != nil {
		return err
	}
	usages, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 1}, {1, 3, 6, 1, 5, 5, 7, 3, 2}}) // server, client
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: fmt.Sprintf("OncemQ node %d", id.Node)}, URIs: []*url.URL{id.uri()},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Value: usages}},
	}, key)
	if err != nil {
		return err
	}
	return d.write(nodeRequestName, "CERTIFICATE REQUEST", der)
}

// Certify checks a certificate that others have signed, a PEM file with its chain, and puts it in: it is of the node id, for the key in the
// file key (empty: for the node's own), for both ends of a connection, and signed by an authority that this directory trusts. It
// says when the certificate ends. Errors wrap ErrFiles, and ErrIdentity where it is of another node; nothing was changed then.
func (d Directory) Certify(cert, key string, id Identity) (expires time.Time, err error) {
	from := key
	if key == "" {
		from = d.path(nodeKeyName)
	}
	pair, err := keyPair(cert, from)
	if err != nil {
		return time.Time{}, err
	}
	roots, err := pool(d.path(caCertName))
	if err != nil {
		return time.Time{}, err
	}
	if _, err := own(&pair, cert, roots, id); err != nil {
		return time.Time{}, err
	}
	if key != "" {
		text, err := os.ReadFile(key)
		if err != nil {
			return time.Time{}, fmt.Errorf("%w: %w", ErrFiles, err)
		}
		if err := WriteFile(d.path(nodeKeyName), text); err != nil {
			return time.Time{}, err
		}
	}
	var chain bytes.Buffer
	for _, der := range pair.Certificate {
		if err := pem.Encode(&chain, &pem.Block{Type: certType, Bytes: der}); err != nil {
			return time.Time{}, err
		}
	}
	return expiry(&pair), WriteFile(d.path(nodeCertName), chain.Bytes())
}

// own checks what a node shows, from that file, against the authorities it trusts, for both ends of a connection: it gives the one
// that signed it. Errors wrap ErrFiles, and ErrIdentity where it isn't of id.
func own(pair *tls.Certificate, file string, roots *x509.CertPool, id Identity) (*x509.Certificate, error) {
	var chain []*x509.Certificate
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFiles, file, err)
		}
		chain = append(chain, c)
	}
	var ca *x509.Certificate
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		got, signer, err := verify(chain, roots, usage)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w; it has to be signed by an authority of %s, with the URI name %s, for server and client", ErrFiles, file, err, caCertName, id)
		}
		if got != id {
			return nil, fmt.Errorf("%w: %s is of %s, this is %s: %w", ErrFiles, file, got, id, ErrIdentity)
		}
		ca = signer
	}
	return ca, nil
}
