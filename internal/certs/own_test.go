package certs

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/certs/certstest"
)

// ownFounded is the directory of node 1 whose certificates an authority of the operator's signs.
func ownFounded(t *testing.T, ca *certstest.Authority) Directory {
	t.Helper()
	d := Directory(filepath.Join(t.TempDir(), "pki"))
	a, err := ReadAuthorities(ca.File, time.Now())
	if err == nil {
		err = d.FoundOwn(a, Identity{testCluster, 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOwnAuthority: the request of each node, signed, makes nodes that know each other; none of them can sign.
func TestOwnAuthority(t *testing.T) {
	ca := certstest.New(t)
	one, two := Identity{testCluster, 1}, Identity{testCluster, 2}
	d1 := ownFounded(t, ca)
	d2 := Directory(filepath.Join(t.TempDir(), "pki"))
	a, err := ReadAuthorities(ca.File, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d2.Request(two), d2.Trust(a)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewPeers(d1, one, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "cluster certify") || !strings.Contains(err.Error(), one.String()) {
		t.Errorf("without a certificate: %v", err)
	}
	for id, d := range map[Identity]Directory{one: d1, two: d2} {
		expires, err := d.Certify(ca.Sign("node", d.RequestPath()), "", id)
		if err != nil || time.Until(expires) < time.Hour {
			t.Fatalf("%s: until %s, %v", id, expires, err)
		}
		if _, err := d.Authority(); !errors.Is(err, ErrNoAuthority) {
			t.Errorf("%s can sign: %v", id, err)
		}
		for _, name := range []string{nodeKeyName, nodeCertName, caCertName} {
			if info, err := os.Stat(d.path(name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
	p1, p2 := peersOf(t, d1, one), peersOf(t, d2, two)
	for _, way := range [][2]*Peers{{p1, p2}, {p2, p1}} {
		srv, _, err := meet(t, way[0].Server(), way[1].Client(way[0].id.Node))
		if err != nil {
			t.Fatal(err)
		}
		if node, err := way[0].Node(srv); err != nil || node != way[1].id.Node {
			t.Errorf("it is node %d, %v", node, err)
		}
	}
	if Fingerprint(p1.Authority()) != a.Fingerprint() || !a.Has(a.Fingerprint()) || a.Has([32]byte{1}) {
		t.Error("a token would name another authority")
	}
	// Another certificate for another key, in one step.
	cert, key := ca.Issue("other", one.String())
	if _, err := d1.Certify(cert, key, one); err != nil {
		t.Fatal(err)
	}
	peersOf(t, d1, one)
}

// TestCertifyRefuses whatever the other nodes would refuse, and changes nothing then.
func TestCertifyRefuses(t *testing.T) {
	ca := certstest.New(t)
	one := Identity{testCluster, 1}
	d := ownFounded(t, ca)
	first := ca.Sign("first", d.RequestPath())
	if _, err := d.Certify(first, "", one); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(d.path(nodeCertName))
	if err != nil {
		t.Fatal(err)
	}
	strangeCert, strangeKey := certstest.New(t).Issue("strange", one.String())
	otherCert, otherKey := ca.Issue("other", Identity{testCluster, 2}.String())
	elseCert, elseKey := ca.Issue("else", Identity{[16]byte{9}, 1}.String())
	namelessCert, namelessKey := ca.Issue("nameless", "localhost")
	for name, c := range map[string]struct {
		cert, key, says string
		identity        bool
	}{
		"another authority":  {strangeCert, strangeKey, "has to be signed by an authority of ca.crt", false},
		"another node":       {otherCert, otherKey, "/2, this is " + one.String(), true},
		"another cluster":    {elseCert, elseKey, "this is " + one.String(), true},
		"no name":            {namelessCert, namelessKey, "has 0 names", true},
		"another key":        {otherCert, "", "private key does not match", false},
		"for servers alone":  {ca.Sign("server", d.RequestPath(), x509.ExtKeyUsageServerAuth), "", "for server and client", false},
		"for clients alone":  {ca.Sign("client", d.RequestPath(), x509.ExtKeyUsageClientAuth), "", "for server and client", false},
		"no file":            {"/nowhere/cert.pem", "", "/nowhere/cert.pem", false},
		"a key that is none": {first, first, first, false},
	} {
		_, err := d.Certify(c.cert, c.key, one)
		if !errors.Is(err, ErrFiles) || errors.Is(err, ErrIdentity) != c.identity || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(d.path(nodeCertName)); err != nil || string(after) != string(before) {
			t.Errorf("%s: the certificate is another, %v", name, err)
		}
		peersOf(t, d, one)
	}
}

// TestReadAuthorities: a file without authorities is refused with what is wrong, several are taken, and keys among them are left out.
func TestReadAuthorities(t *testing.T) {
	ca, other := certstest.New(t), certstest.New(t)
	leaf, key := ca.Issue("leaf", "localhost")
	read := func(files ...string) (*Authorities, error) {
		var text []byte
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		file := filepath.Join(t.TempDir(), "ca")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadAuthorities(file, time.Now())
	}
	a, err := read(ca.File, key, other.File)
	if err != nil || len(a.certs) != 2 || strings.Contains(string(a.text), "PRIVATE") {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := read(leaf); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "isn't an authority's") {
		t.Errorf("no authority: %v", err)
	}
	if _, err := read(key); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("nothing: %v", err)
	}
	if _, err := ReadAuthorities(ca.File, time.Now().Add(48*time.Hour)); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "valid from") {
		t.Errorf("ended: %v", err)
	}
	if _, err := ReadAuthorities("/nowhere", time.Now()); !errors.Is(err, ErrFiles) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestFoundOwnAgain: what an attempt with an authority of the cluster's own has left goes, its key above all.
func TestFoundOwnAgain(t *testing.T) {
	ca := certstest.New(t)
	d := founded(t, testCluster)
	a, err := ReadAuthorities(ca.File, time.Now())
	if err == nil {
		err = d.FoundOwn(a, Identity{testCluster, 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authority(); !errors.Is(err, ErrNoAuthority) {
		t.Errorf("the key is still there: %v", err)
	}
	if _, err := os.Stat(d.path(nodeCertName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the certificate is still there: %v", err)
	}
}
