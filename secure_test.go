package oncemq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/certs/certstest"
)

// TestMechanisms: what a configuration makes the client say; a password never goes in clear unasked, a name never turns
// into ANONYMOUS.
func TestMechanisms(t *testing.T) {
	cert := &tls.Config{Certificates: make([]tls.Certificate, 1)}
	for _, tc := range []struct {
		name   string
		c      Config
		secure bool
		want   string // "" for an error
	}{
		{"nothing", Config{}, false, "ANONYMOUS"},
		{"nothing with TLS", Config{}, true, "ANONYMOUS"},
		{"password", Config{Credentials: Credentials{User: "u", Password: "p"}}, false, "SCRAM-SHA-256 SCRAM-SHA-512"},
		{"password with TLS", Config{Credentials: Credentials{User: "u", Password: "p"}}, true, "SCRAM-SHA-256-PLUS SCRAM-SHA-512-PLUS SCRAM-SHA-256 SCRAM-SHA-512"},
		{"plain", Config{Credentials: Credentials{User: "u", Password: "p", Plain: true}}, true, "PLAIN"},
		{"plain without TLS", Config{Credentials: Credentials{User: "u", Password: "p", Plain: true}}, false, ""},
		{"no name", Config{Credentials: Credentials{Password: "p"}}, true, ""},
		{"no password", Config{Credentials: Credentials{User: "u"}}, true, ""},
		{"a bad name", Config{Credentials: Credentials{User: "u\n", Password: "p"}}, true, ""},
		{"certificate file", Config{CertFile: "c", KeyFile: "k"}, true, "EXTERNAL"},
		{"certificate", Config{TLS: cert}, true, "EXTERNAL"},
		{"certificate of several names", Config{TLS: cert, Credentials: Credentials{User: "u"}}, true, "EXTERNAL"},
		{"certificate and password", Config{TLS: cert, Credentials: Credentials{User: "u", Password: "p"}}, true, "SCRAM-SHA-256-PLUS SCRAM-SHA-512-PLUS SCRAM-SHA-256 SCRAM-SHA-512"},
		{"certificate without TLS", Config{TLS: cert}, false, "ANONYMOUS"},
	} {
		make, err := tc.c.mechanisms(tc.secure)
		if err != nil {
			if tc.want != "" {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var names []string
		var binding []byte
		if tc.secure {
			binding = []byte("exported")
		}
		for _, m := range make(binding) {
			names = append(names, m.Name())
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestCredentialsAreHidden wherever a configuration may be printed.
func TestCredentialsAreHidden(t *testing.T) {
	c := Config{Credentials: Credentials{User: "u", Password: "hunter2"}}
	for _, format := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", format, text)
		}
	}
}

// TestSecurity: files go with amqps:// alone, exclude TLS, and are read when they are there.
func TestSecurity(t *testing.T) {
	ca := certstest.New(t)
	cert, key := ca.Issue("client", "app")
	for _, tc := range []struct {
		name   string
		c      Config
		secure bool
		ok     bool
	}{
		{"plaintext", Config{}, false, true},
		{"plaintext with files", Config{CAFile: ca.File}, false, false},
		{"files", Config{CAFile: ca.File, CertFile: cert, KeyFile: key}, true, true},
		{"files and TLS", Config{CAFile: ca.File, TLS: &tls.Config{}}, true, false},
		{"no such file", Config{CAFile: ca.File + "x"}, true, false},
		{"TLS 1.2 wished", Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}}, true, true},
		{"system's", Config{}, true, true},
	} {
		dial, err := tc.c.security(tc.secure)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err != nil || !tc.secure {
			if dial != nil {
				t.Errorf("%s: a TLS configuration", tc.name)
			}
			continue
		}
		if c, err := dial(); err != nil || c.MinVersion != tls.VersionTLS13 || c.MaxVersion != 0 {
			t.Errorf("%s: %v, versions %x to %x", tc.name, err, c.MinVersion, c.MaxVersion)
		}
	}
	if _, err := Dial(t.Context(), "amqps://127.0.0.1:1", &Config{CAFile: "nowhere.pem"}); !errors.Is(err, certs.ErrFiles) {
		t.Errorf("Dial: %v", err)
	}
}

// TestImpostor: a node that lets us in without knowing the password is not believed.
func TestImpostor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.impostor = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := Dial(ctx, "amqp://guest:secret@a", &Config{DialContext: n.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, auth.ErrServer) {
			t.Errorf("%v", err)
		}
		n.kill()
		n.wg.Wait()
	})
}
