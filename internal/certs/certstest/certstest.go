// Package certstest makes certificate authorities and certificates for tests, in files.
// Nothing else may use it: keys lie about unprotected.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File is the authority's own certificate.
	File string

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority, whose files go with the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir(), key: newKey(t)}
	a.cert = &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.File = filepath.Join(a.dir, "ca.pem")
	write(t, a.File, "CERTIFICATE", der)
	return a
}

// Issue writes a certificate for names: IP addresses, e-mail addresses, URIs, and what
// is none of these is a DNS name. It serves at both ends. The same file name is
// overwritten.
func (a *Authority) Issue(file string, names ...string) (cert, key string) {
	a.t.Helper()
	k := newKey(a.t)
	c := &x509.Certificate{
		SerialNumber: serial(a.t), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
		Subject: pkix.Name{CommonName: "not a name"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			c.URIs = append(c.URIs, u)
		} else if strings.Contains(name, "@") {
			c.EmailAddresses = append(c.EmailAddresses, name)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+".key")
	write(a.t, cert, "CERTIFICATE", der)
	write(a.t, key, "PRIVATE KEY", secret)
	return cert, key
}

// Sign writes the certificate that a request (PEM, PKCS #10) asks for, with its URI names, for both ends or for these.
func (a *Authority) Sign(file, request string, usages ...x509.ExtKeyUsage) (cert string) {
	a.t.Helper()
	text, err := os.ReadFile(request)
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		a.t.Fatalf("%s isn't in PEM form", request)
		return ""
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = r.CheckSignature()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	if len(usages) == 0 {
		usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	c := &x509.Certificate{
		SerialNumber: serial(a.t), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour), Subject: r.Subject, URIs: r.URIs,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, r.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert = filepath.Join(a.dir, file+".pem")
	write(a.t, cert, "CERTIFICATE", der)
	return cert
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
