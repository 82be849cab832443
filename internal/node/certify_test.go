package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// certifyWith signs a node's request and puts the certificate in.
func certifyWith(t *testing.T, ca *certstest.Authority, data string) certs.Identity {
	t.Helper()
	id, expires, err := Certify(CertifyOptions{Data: data, Cert: ca.Sign("node", filepath.Join(data, pkiName, "node.csr"))})
	if err != nil || time.Until(expires) < time.Hour {
		t.Fatalf("%+v until %s, %v", id, expires, err)
	}
	return id
}

// TestOwnCA: a cluster whose certificates its operator makes: the first node and one that joins, which asks with no certificate and
// stays out until it has one.
func TestOwnCA(t *testing.T) {
	ca := certstest.New(t)
	data := filepath.Join(t.TempDir(), "n1")
	var made Founded
	init := func(file string) error {
		return Init(t.Context(), InitOptions{Data: data, User: "admin", OwnCA: file, Logger: quiet, Show: func(f Founded) error { made = f; return nil }})
	}
	leaf, _ := ca.Issue("leaf", "localhost")
	for _, file := range []string{leaf, "/nowhere/ca.pem"} {
		if err := init(file); !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "--own-ca") {
			t.Fatalf("%s: %v", file, err)
		}
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: something was made: %v", file, err)
		}
	}
	if err := init(ca.File); err != nil || made.Uncertified != (certs.Identity{Cluster: made.Cluster, Node: 1}).String() || made.Password == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	addrs, err := localcluster.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Serve{Data: data, PeerListen: addrs[0], Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	if n, err := Open(Options{Config: cfg, Logger: quiet}); err == nil || !strings.Contains(err.Error(), "cluster certify") || !strings.Contains(err.Error(), made.Uncertified) {
		t.Fatalf("it starts without a certificate: %v, %v", n, err)
	}
	certifyWith(t, ca, data)
	f := &first{made: made, peer: addrs[0], running: openAs(t, cfg)}
	f.waitReady(t)

	token := f.token(t)
	if token.Authority != made.Authority {
		t.Errorf("the token is of authority %x, the cluster's is %x", token.Authority, made.Authority)
	}
	second := filepath.Join(t.TempDir(), "n2")
	join := func(file string) (Joined, error) {
		return Join(t.Context(), JoinOptions{Token: token, Data: second, Peer: addrs[1], OwnCA: file, Logger: quiet})
	}
	if _, err := join(certstest.New(t).File); !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "--own-ca") {
		t.Fatalf("authorities without the token's: %v", err)
	}
	joined, err := join(ca.File)
	if err != nil || joined.Node != 2 || !joined.Unsigned {
		t.Fatalf("%+v, %v", joined, err)
	}
	if _, err := os.Stat(filepath.Join(second, pkiName, "ca.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key of an authority: %v", err)
	}
	// The first node's request, signed, isn't the second's.
	wrong := ca.Sign("wrong", filepath.Join(data, pkiName, "node.csr"))
	if _, _, err := Certify(CertifyOptions{Data: second, Cert: wrong}); !errors.Is(err, certs.ErrFiles) {
		t.Errorf("another node's certificate: %v", err)
	}
	if id := certifyWith(t, ca, second); id.Node != 2 || id.Cluster != made.Cluster {
		t.Errorf("%+v", id)
	}
	n := openAs(t, config.Serve{Data: second, PeerListen: addrs[1]})
	n.waitReady(t)
	if c := f.cluster(t); len(c.Members) != 2 || !c.Members[1].Up {
		t.Errorf("%+v", c.Members)
	}
	if _, _, err := Certify(CertifyOptions{Data: t.TempDir(), Cert: wrong}); !errors.Is(err, config.ErrUsage) {
		t.Errorf("no node's directory: %v", err)
	}
}
