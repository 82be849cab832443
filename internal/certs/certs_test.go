package certs

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/certs/certstest"
)

// TestOldVersionsAreRefused: every configuration that this package makes, at both ends.
func TestOldVersionsAreRefused(t *testing.T) {
	ca := certstest.New(t)
	cert, key := ca.Issue("server", "127.0.0.1")
	l, err := NewListener(Files{Cert: cert, Key: key, ClientCA: ca.File}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client, err := Client(ca.File, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	system, err := Client("", "", "")
	if err != nil {
		t.Fatal(err)
	}
	given := Strict(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS12})
	for name, c := range map[string]*tls.Config{
		"listener": l.Config(), "handshake": l.current(time.Now()), "client": client, "client without a CA file": system, "given": given,
	} {
		if c.MinVersion != tls.VersionTLS13 || c.MaxVersion != 0 || c.InsecureSkipVerify {
			t.Errorf("%s: versions %x to %x, verification off %v", name, c.MinVersion, c.MaxVersion, c.InsecureSkipVerify)
		}
	}
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := handshake(t, l, old); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	st, theirs, err := handshake(t, l, client)
	if err != nil || st.Version != tls.VersionTLS13 {
		t.Errorf("version %x, %v", st.Version, err)
	}
	ours := Binding(st)
	if again, _, err := handshake(t, l, client); err != nil || len(ours) != 32 || string(ours) != string(Binding(theirs)) || string(ours) == string(Binding(again)) {
		t.Errorf("binding %x, %x, next connection %x, %v; want the same at both ends of one alone", ours, Binding(theirs), Binding(again), err)
	}
}

// handshake gives the server's and the client's state.
func handshake(t *testing.T, l *Listener, c *tls.Config) (srv, cl tls.ConnectionState, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c = c.Clone()
	c.ServerName = "127.0.0.1"
	server, client := tls.Server(a, l.Config()), tls.Client(b, c)
	failed := make(chan error, 1)
	go func() {
		err := server.HandshakeContext(t.Context())
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		a.Close()
		failed <- err
	}()
	err = client.HandshakeContext(t.Context())
	if err == nil {
		_, err = client.Read(make([]byte, 1)) // a refused certificate shows only now
	}
	b.Close()
	return server.ConnectionState(), client.ConnectionState(), errors.Join(err, <-failed)
}

// TestNames: what of a verified certificate is a name, and that no other counts.
func TestNames(t *testing.T) {
	ca, other := certstest.New(t), certstest.New(t)
	cert, key := ca.Issue("server", "127.0.0.1")
	l, err := NewListener(Files{Cert: cert, Key: key, ClientCA: ca.File}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	with := func(cert, key string) *tls.Config {
		c, err := Client(ca.File, cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	st, _, err := handshake(t, l, with(ca.Issue("client", "app.example.org", "alice@example.org", "spiffe://x/y", "10.0.0.1")))
	if got := Names(st); err != nil || !slices.Equal(got, []string{"app.example.org", "alice@example.org", "spiffe://x/y"}) {
		t.Errorf("%q, %v", got, err)
	}
	st, _, err = handshake(t, l, with("", ""))
	if got := Names(st); err != nil || len(got) != 0 {
		t.Errorf("without a certificate: %q, %v", got, err)
	}
	if _, _, err = handshake(t, l, with(other.Issue("client", "app.example.org"))); err == nil {
		t.Error("a certificate of another authority was accepted")
	}
	noCA, err := NewListener(Files{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	st, _, err = handshake(t, noCA, with(ca.Issue("client", "app.example.org")))
	if got := Names(st); err != nil || len(got) != 0 {
		t.Errorf("nobody asked for a certificate: %q, %v", got, err)
	}
}

// TestFilesAreReadAnew: a new certificate is shown without a restart; one that doesn't
// fit its key, or is gone, isn't, and the former one stays.
func TestFilesAreReadAnew(t *testing.T) {
	ca := certstest.New(t)
	cert, key := ca.Issue("server", "127.0.0.1")
	l, err := NewListener(Files{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	shown := func() string {
		now = now.Add(lookEvery)
		return string(l.current(now).Certificates[0].Certificate[0])
	}
	// touch makes the change visible to a file system of coarse time stamps.
	touch := func(file string) {
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(now.UnixNano()%1e9))); err != nil {
			t.Fatal(err)
		}
	}
	first := shown()
	if shown() != first {
		t.Fatal("another certificate without a change")
	}
	oldKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	ca.Issue("server", "127.0.0.1")
	touch(cert)
	newKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, oldKey, 0o600); err != nil {
		t.Fatal(err)
	}
	if shown() != first {
		t.Error("a certificate that doesn't fit its key is shown")
	}
	if err := os.WriteFile(key, newKey, 0o600); err != nil {
		t.Fatal(err)
	}
	touch(key)
	second := shown()
	if second == first {
		t.Error("the new certificate isn't shown")
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if shown() != second {
		t.Error("a removed file takes the certificate away")
	}
}

func TestFilesThatDoNotFit(t *testing.T) {
	ca := certstest.New(t)
	cert, key := ca.Issue("a", "127.0.0.1")
	_, otherKey := ca.Issue("b", "127.0.0.1")
	for name, f := range map[string]Files{
		"no key": {Cert: cert}, "no certificate": {Key: key}, "another's key": {Cert: cert, Key: otherKey},
		"no such file": {Cert: cert + "x", Key: key}, "a key as CA": {Cert: cert, Key: key, ClientCA: key}, "no such CA": {Cert: cert, Key: key, ClientCA: "x.pem"},
	} {
		if _, err := NewListener(f, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), ".") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string][3]string{"no CA": {"x.pem"}, "key as CA": {key}, "no key": {"", cert}, "another's key": {"", cert, otherKey}} {
		if _, err := Client(f[0], f[1], f[2]); !errors.Is(err, ErrFiles) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
