package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/test/cluster"
)

// guarded is a lone node without --dev, with users and TLS.
type guarded struct {
	t                   *testing.T
	ca                  *certstest.Authority
	plain, secure, http string // addresses
}

// password is ASCII, as Qpid JMS takes no other with SCRAM.
const password = "pass word, = %&"

// startGuarded starts a node and makes the user alice.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{t: t, ca: certstest.New(t)}
	cert, key := g.ca.Issue("server", "127.0.0.1")
	cmd := exec.Command(cluster.Binary(t), "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", g.ca.File, "--sasl-plain")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the node ended with %v\n%s", err, &log)
		}
		if strings.Contains(log.String(), password) {
			t.Error("the node's log has the password")
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v\n%s", err, &log)
	}
	m := regexp.MustCompile(`amqp://(\S+), amqps://(\S+), admin http://(\S+),`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("ready line %q", line)
	}
	g.plain, g.secure, g.http = m[1], m[2], m[3]
	g.user(password+"\nnot read\n", "add", "alice", "--password-file", "-")
	return g
}

// user runs `oncemq user` and gives what it prints.
func (g *guarded) user(stdin string, args ...string) string {
	g.t.Helper()
	cmd := exec.Command(cluster.Binary(g.t), append([]string{"user", "--admin", g.http}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return string(out)
}

// TestUserCommands: what each prints, and that a repeat is told from the first.
func TestUserCommands(t *testing.T) {
	g := startGuarded(t)
	for _, step := range []struct{ stdin, args, want string }{
		{"p\n", "add alice --password-file -", "already"},
		{"", "add app.example.org --no-password", "user app.example.org was made"},
		{"new\n", "passwd alice --password-file -", "new password"},
		{"new\n", "passwd bob --password-file -", "no user"},
		{"\n", "passwd alice --password-file -", "empty"},
		{"", "list", "alice            yes"},
		{"", "list --json", `"name":"app.example.org","password":false`},
		{"", "delete app.example.org", "was deleted"},
		{"", "delete app.example.org", "no user"},
	} {
		if got := g.user(step.stdin, strings.Fields(step.args)...); !strings.Contains(got, step.want) {
			t.Errorf("user %s: %s; want %q", step.args, got, step.want)
		}
	}
}

// TestQpidJMSWithUsers: an unmodified JMS client by SCRAM, in plaintext and over TLS.
func TestQpidJMSWithUsers(t *testing.T) {
	need(t, jmsLib)
	g := startGuarded(t)
	store := filepath.Join(t.TempDir(), "ca.p12")
	run(t, time.Minute, "keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", g.ca.File, "-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit")
	for _, tc := range []struct{ name, uri string }{
		{"SCRAM-SHA-256 over TLS", fmt.Sprintf("amqps://%s?amqp.saslMechanisms=SCRAM-SHA-256&transport.trustStoreLocation=%s&transport.trustStorePassword=changeit&transport.storeType=PKCS12", g.secure, store)},
		{"SCRAM-SHA-512", fmt.Sprintf("amqp://%s?amqp.saslMechanisms=SCRAM-SHA-512", g.plain)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			java(t, 3*time.Minute, "Check", "--urls", "failover:("+tc.uri+")?jms.username=alice&jms.password=pass%20word%2C%20%3D%20%25%26")
		})
	}
}

// TestGoAMQPWithUsers: somebody else's Go client by PLAIN and by certificate over TLS; and refused as it must be.
func TestGoAMQPWithUsers(t *testing.T) {
	g := startGuarded(t)
	g.user("", "add", "app.example.org", "--no-password")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	anybody, err := certs.Client(g.ca.File, "", "")
	if err != nil {
		t.Fatal(err)
	}
	cert, key := g.ca.Issue("client", "app.example.org")
	app, err := certs.Client(g.ca.File, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	old := anybody.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		sasl amqp.SASLType
		ok   bool
	}{
		{"plain", anybody, amqp.SASLTypePlain("alice", password), true},
		{"certificate", app, amqp.SASLTypeExternal(""), true},
		{"wrong", anybody, amqp.SASLTypePlain("alice", "guess"), false},
		{"unknown", anybody, amqp.SASLTypePlain("bob", password), false},
		{"anonymous", anybody, amqp.SASLTypeAnonymous(), false},
		{"no certificate", anybody, amqp.SASLTypeExternal(""), false},
		{"no SASL", anybody, nil, false},
		{"TLS 1.2", old, amqp.SASLTypePlain("alice", password), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := amqp.Dial(ctx, "amqps://"+g.secure, &amqp.ConnOptions{TLSConfig: tc.tls, SASLType: tc.sasl})
			if (err == nil) != tc.ok || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("dial: %v", err)
			}
			if err != nil {
				return
			}
			defer conn.Close()
			session, err := conn.NewSession(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			queue := "users." + strings.ReplaceAll(tc.name, " ", "-")
			sender, err := session.NewSender(ctx, queue, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := sender.Send(ctx, amqp.NewMessage([]byte("m")), nil); err != nil {
				t.Fatal(err)
			}
			receiver, err := session.NewReceiver(ctx, queue, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := receiver.Receive(ctx, nil)
			if err != nil || string(m.GetData()) != "m" {
				t.Fatalf("%v %v", m, err)
			}
			if err := receiver.AcceptMessage(ctx, m); err != nil {
				t.Fatal(err)
			}
		})
	}
}
