package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Names in a node's directory of certificates.
const (
	caCertName   = "ca.crt"   // the authorities that sign nodes' certificates; several while one replaces another
	caKeyName    = "ca.key"   // the key of the cluster's own authority, absent where others sign
	nodeCertName = "node.crt" // this node's certificate and its chain
	nodeKeyName  = "node.key" // its key

	nodeRequestName = "node.csr" // a request for node.crt, where others sign; no node reads it
)

// ErrNoAuthority says that this directory has no key that could sign certificates.
var ErrNoAuthority = errors.New("oncemq: this node has no key of the cluster's authority")

// Directory is where a node keeps what it shows to other nodes, PEM files that only its owner can read:
// ca.crt, ca.key, node.crt, node.key. Each file is replaced as a whole, and synced.
type Directory string

func (d Directory) path(name string) string { return filepath.Join(string(d), name) }

// Exists reports that there is an authority's certificate: nodes speak to each other with TLS.
func (d Directory) Exists() bool {
	_, err := os.Stat(d.path(caCertName))
	return err == nil
}

// Found makes what the first node of a cluster needs: an authority, a key, and a certificate. What is there already stays, so it
// can be called again after a crash. Errors wrap ErrFiles or are of the disk.
func (d Directory) Found(id Identity, now time.Time) error {
	key, err := d.Key()
	if err != nil {
		return err
	}
	a, err := d.Authority()
	if errors.Is(err, ErrNoAuthority) {
		a, err = NewAuthority(id.Cluster, now)
	}
	if err != nil {
		return err
	}
	der, err := a.Sign(&key.PublicKey, id, now)
	if err != nil {
		return err
	}
	return d.Install(a.Certificate(), a.Key(), der)
}

// Key is the node's key, drawn at the first call.
func (d Directory) Key() (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(d.path(nodeKeyName))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return key, d.write(nodeKeyName, keyType, marshalKey(key))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFiles, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%w: %s isn't in PEM form", ErrFiles, d.path(nodeKeyName))
	}
	return parseKey(block.Bytes)
}

// Authority is the cluster's own authority. ErrNoAuthority where its key isn't here.
func (d Directory) Authority() (*Authority, error) {
	key, err := os.ReadFile(d.path(caKeyName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoAuthority
	}
	cert, err2 := os.ReadFile(d.path(caCertName))
	if errors.Is(err2, fs.ErrNotExist) && err == nil {
		return nil, ErrNoAuthority // a crash between the two: the key has signed nothing yet
	}
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFiles, err)
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, fmt.Errorf("%w: %s isn't in PEM form", ErrFiles, d.path(caKeyName))
	}
	k, err := parseKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	var faults error
	for _, der := range certificates(cert) {
		a, err := parseAuthority(der, k)
		if err == nil {
			return a, nil
		}
		faults = errors.Join(faults, err)
	}
	return nil, errors.Join(fmt.Errorf("%w: no certificate in %s is of the key %s", ErrFiles, d.path(caCertName), caKeyName), faults)
}

// Install writes the authority's certificate and key (DER, PKCS #8; no key: others sign) and this node's certificate (DER), whose key is
// here already. Written last, ca.crt makes it whole.
func (d Directory) Install(ca, caKey, cert []byte) error {
	if caKey != nil {
		if err := d.write(caKeyName, keyType, caKey); err != nil {
			return err
		}
	}
	if cert != nil {
		if err := d.write(nodeCertName, certType, cert); err != nil {
			return err
		}
	}
	return d.write(caCertName, certType, ca)
}

// Fits checks what Install is to write: the certificate is signed by the authority, for id and the key that is here, and key is the
// authority's (nil: others sign). Errors wrap ErrFiles.
func (d Directory) Fits(ca, caKey, cert []byte, id Identity) error {
	own, err := d.Key()
	if err != nil {
		return err
	}
	if caKey != nil {
		if _, err := ParseAuthority(ca, caKey); err != nil {
			return err
		}
	}
	authority, err := x509.ParseCertificate(ca)
	leaf, err2 := x509.ParseCertificate(cert)
	if err = errors.Join(err, err2); err != nil {
		return fmt.Errorf("%w: %w", ErrFiles, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	got, _, err := verify([]*x509.Certificate{leaf}, roots, x509.ExtKeyUsageServerAuth)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFiles, err)
	case got != id || !own.PublicKey.Equal(leaf.PublicKey):
		return fmt.Errorf("%w: a certificate of %s instead of %s, or of another key", ErrFiles, got, id)
	}
	return nil
}

// Renew makes a new certificate for this node where half of the present one's time is over and this node can sign. It says when
// the present one ends.
func (d Directory) Renew(id Identity, now time.Time) (renewed bool, expires time.Time, err error) {
	pair, err := keyPair(d.path(nodeCertName), d.path(nodeKeyName))
	if err != nil {
		return false, time.Time{}, err
	}
	expires = expiry(&pair)
	a, err := d.Authority()
	if errors.Is(err, ErrNoAuthority) {
		return false, expires, nil
	}
	if err != nil {
		return false, expires, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return false, expires, err
	}
	if leaf.CheckSignatureFrom(a.cert) != nil || now.Before(leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore)/2)) {
		return false, expires, nil // somebody else's, or new enough
	}
	der, err := a.Sign(leaf.PublicKey, id, now)
	if err != nil {
		return false, expires, err
	}
	return true, now.Add(nodeLife), d.write(nodeCertName, certType, der)
}

// keys reads what this node shows and trusts, for connections of id.
func (d Directory) keys(id Identity) (*nodeKeys, error) {
	k := &nodeKeys{roots: x509.NewCertPool()}
	if _, err := os.Stat(d.path(nodeCertName)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s isn't there: have a certificate with the URI name %s signed (%s is a request for it), and put it in by \"oncemq cluster certify\"",
			ErrFiles, d.path(nodeCertName), id, d.path(nodeRequestName))
	}
	var err error
	if k.pair, err = keyPair(d.path(nodeCertName), d.path(nodeKeyName)); err != nil {
		return nil, err
	}
	if k.roots, err = pool(d.path(caCertName)); err != nil {
		return nil, err
	}
	ca, err := own(&k.pair, d.path(nodeCertName), k.roots, id)
	if err != nil {
		return nil, err
	}
	k.ca = ca.Raw
	k.joining = tls.Certificate{Certificate: append(slices.Clone(k.pair.Certificate), ca.Raw), PrivateKey: k.pair.PrivateKey}
	return k, nil
}

const (
	keyType  = "PRIVATE KEY"
	certType = "CERTIFICATE"
)

// certificates are the certificates of a text in PEM form.
func certificates(text []byte) (all [][]byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type == certType {
			all = append(all, block.Bytes)
		}
	}
}

// write replaces a file as a whole.
func (d Directory) write(name, kind string, der []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return WriteFile(d.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// WriteFile replaces a file, readable for its owner alone, as a whole: written beside it, synced, renamed, and the directory
// synced.
func WriteFile(path string, text []byte) error {
	beside := path + ".tmp"
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes what was renamed and removed in a directory last.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
