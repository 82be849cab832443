package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

const (
	// authorityLife is how long a cluster's own authority is valid, nodeLife a node's certificate, which the node renews by
	// itself at half of that.
	authorityLife = 30 * 365 * 24 * time.Hour
	nodeLife      = 365 * 24 * time.Hour
	// skew is by how much a certificate is valid before it was made: the clocks of other nodes may be behind.
	skew = 24 * time.Hour
)

// Authority signs the certificates of a cluster's nodes. Every member has its key, so that each can
// admit others. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes the authority of a new cluster.
func NewAuthority(cluster [16]byte, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "OncemQ cluster " + hex.EncodeToString(cluster[:])},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return parseAuthority(der, key)
}

// ParseAuthority reads an authority: its certificate (DER) and its key (PKCS #8). Errors wrap ErrFiles.
func ParseAuthority(cert, key []byte) (*Authority, error) {
	k, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	return parseAuthority(cert, k)
}

func parseAuthority(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w: the authority's certificate: %w", ErrFiles, err)
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) || !cert.IsCA {
		return nil, fmt.Errorf("%w: the authority's certificate and its key don't belong together", ErrFiles)
	}
	return &Authority{cert, key}, nil
}

// parseKey reads a key in PKCS #8; only ECDSA keys are made here.
func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: a key: %w", ErrFiles, err)
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: a key of type %T instead of ECDSA", ErrFiles, k)
	}
	return key, nil
}

// Certificate and Key are the authority's own, DER and PKCS #8.
func (a *Authority) Certificate() []byte { return a.cert.Raw }

// Key see Certificate. It is a secret.
func (a *Authority) Key() []byte { return marshalKey(a.key) }

// marshalKey is a key in PKCS #8.
func marshalKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // not for an ECDSA key of a known curve
	}
	return der
}

// Sign makes a node's certificate (DER) for its public key: it serves at both ends of connections between nodes.
func (a *Authority) Sign(public crypto.PublicKey, id Identity, now time.Time) ([]byte, error) {
	if k, ok := public.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: a node's key has to be ECDSA P-256", ErrFiles)
	}
	cert := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: fmt.Sprintf("OncemQ node %d", id.Node)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(nodeLife), URIs: []*url.URL{id.uri()}, KeyUsage: x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, cert, a.cert, public, a.key)
}

// Fingerprint is SHA-256 of a certificate (DER).
func Fingerprint(der []byte) [32]byte { return sha256.Sum256(der) }

// KeyFingerprint is SHA-256 of the public key that the other side of a connection has proved to have
// (SubjectPublicKeyInfo, DER); zeros where it showed no certificate.
func KeyFingerprint(st tls.ConnectionState) (sum [32]byte) {
	if len(st.PeerCertificates) == 0 {
		return sum
	}
	return sha256.Sum256(st.PeerCertificates[0].RawSubjectPublicKeyInfo)
}

// PublicFingerprint is KeyFingerprint of who has that key.
func PublicFingerprint(key *ecdsa.PublicKey) [32]byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // not for a key of a known curve
	}
	return sha256.Sum256(der)
}

// selfSigned is a certificate that proves nothing but the possession of a key.
func selfSigned(key *ecdsa.PrivateKey, now time.Time) (tls.Certificate, error) {
	cert := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "OncemQ node that joins"}, NotBefore: now.Add(-skew), NotAfter: now.Add(skew),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// serial draws a certificate's number.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
