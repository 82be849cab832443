package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/internal/config"
)

// ask makes a request of the admin API and gives status and body.
func (r *running) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.admin.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (r *running) want(t *testing.T, code int, method, path, body string) {
	t.Helper()
	if got, text := r.ask(t, method, path, body); got != code {
		t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, code)
	}
}

// use connects, sends and receives a message.
func use(t *testing.T, urls string, cfg oncemq.Config) (*oncemq.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := oncemq.Dial(ctx, urls, &cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		return c, err
	}
	queue := "of." + c.ClientID() // another client's receiver would take the message
	out, err := s.NewSender(ctx, queue, nil)
	if err != nil {
		return c, err
	}
	if err := out.Send(ctx, oncemq.NewText("m")); err != nil {
		return c, err
	}
	in, err := s.NewReceiver(ctx, queue, nil)
	if err != nil {
		return c, err
	}
	d, err := in.Receive(ctx)
	if err != nil {
		return c, err
	}
	return c, d.Accept(ctx)
}

func login(user, password string) oncemq.Config {
	return oncemq.Config{Credentials: oncemq.Credentials{User: user, Password: password}}
}

// TestUsers from their making to their deletion, through all ways of logging in.
func TestUsers(t *testing.T) {
	const password = "correct horse battery staple"
	ca := certstest.New(t)
	cfg := config.Serve{
		Node: 1, Data: t.TempDir(), PeerListen: "127.0.0.1:0", Peers: map[uint64]string{1: "127.0.0.1:0"},
		ListenTLS: "127.0.0.1:0", TLSClientCA: ca.File, Plain: true,
	}
	cfg.TLSCert, cfg.TLSKey = ca.Issue("server", "127.0.0.1")
	r := openAs(t, cfg)
	r.waitReady(t)
	if !strings.Contains(r.lines.text, ", amqp://127.0.0.1:") || !strings.Contains(r.lines.text, ", amqps://127.0.0.1:") {
		t.Errorf("ready line %q", r.lines.text)
	}
	plaintext, secure := "amqp://"+r.server.Addr().String(), "amqps://"+r.server.AddrTLS().String()
	refused := func(what, urls string, c oncemq.Config) {
		t.Helper()
		if _, err := use(t, urls, c); !errors.Is(err, oncemq.ErrCredentials) {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
	refused("before there is a user", plaintext, login("alice", password))

	r.want(t, 201, "PUT", "/api/v1/users/alice", fmt.Sprintf(`{"password":%q}`, password))
	r.want(t, 409, "PUT", "/api/v1/users/alice", `{"password":"other"}`)
	r.want(t, 201, "PUT", "/api/v1/users/app.example.org", `{"password":null}`)
	r.want(t, 400, "PUT", "/api/v1/users/ANONYMOUS", `{"password":"p"}`)
	r.want(t, 400, "PUT", "/api/v1/users/bob", `{"password":""}`)
	r.want(t, 404, "PUT", "/api/v1/users/bob/password", `{"password":"p"}`)
	if _, text := r.ask(t, "GET", "/api/v1/users", ""); !strings.Contains(text, `"alice","password":true`) || !strings.Contains(text, `"app.example.org","password":false`) {
		t.Errorf("users %s", text)
	}

	withTLS := login("alice", password)
	withTLS.CAFile = ca.File
	plain := withTLS
	plain.Credentials.Plain = true
	certificate := oncemq.Config{CAFile: ca.File}
	certificate.CertFile, certificate.KeyFile = ca.Issue("client", "app.example.org")
	var alice *oncemq.Client
	for _, tc := range []struct {
		what, urls string
		c          oncemq.Config
	}{
		{"SCRAM", plaintext, login("alice", password)},
		{"SCRAM over TLS", secure, withTLS},
		{"PLAIN over TLS", secure, plain},
		{"PLAIN again", secure, plain},
		{"certificate", secure, certificate},
	} {
		c, err := use(t, tc.urls, tc.c)
		if err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		if tc.what == "SCRAM" {
			alice = c
		}
	}
	refused("a wrong password", plaintext, login("alice", "guess"))
	refused("an unknown user", plaintext, login("eve", password))
	refused("a certificate's user by password", plaintext, login("app.example.org", "p"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	other := certstest.New(t)
	if _, err := oncemq.Dial(ctx, secure, &oncemq.Config{CAFile: other.File, Credentials: withTLS.Credentials}); err == nil || errors.Is(err, oncemq.ErrCredentials) {
		t.Errorf("a node of another authority: %v", err)
	}

	r.want(t, 200, "PUT", "/api/v1/users/alice/password", `{"password":"changed"}`)
	refused("the former password", plaintext, login("alice", password))
	plain.Credentials.Password = "changed"
	if _, err := use(t, secure, plain); err != nil {
		t.Errorf("the new password: %v", err)
	}
	r.want(t, 200, "DELETE", "/api/v1/users/alice", "")
	refused("a deleted user", plaintext, login("alice", "changed"))
	s, err := alice.OpenSession(t.Context(), nil)
	if err == nil {
		_, err = s.NewSender(t.Context(), "orders", nil)
	}
	if err == nil {
		t.Error("a deleted user's connection goes on")
	}
	r.stopAndCheck(t)
	notStored(t, cfg.Data, password)
}

// notStored looks for a password in all files of a node.
func notStored(t *testing.T, dir, password string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if files++; bytes.Contains(text, []byte(password)) {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files read, %v", files, err)
	}
}

// TestUserIsKnownEverywhere: made at one node, logged in at another at once [8.1].
func TestUserIsKnownEverywhere(t *testing.T) {
	peers := peerAddrs(t)
	var nodes []*running
	for id := uint64(1); id <= 3; id++ {
		nodes = append(nodes, openAs(t, config.Serve{Node: id, Data: t.TempDir(), PeerListen: peers[id], Peers: peers}))
	}
	for _, n := range nodes {
		n.waitReady(t)
	}
	for i := range 6 {
		name := fmt.Sprintf("u%d", i)
		nodes[i%3].want(t, 201, "PUT", "/api/v1/users/"+name, `{"password":"p"}`)
		if _, err := use(t, "amqp://"+nodes[(i+1)%3].server.Addr().String(), login(name, "p")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Alone, a node says no to nobody (C16): neither to who is wrong nor to who it doesn't know.
	nodes[1].end()
	nodes[2].end()
	for _, c := range []oncemq.Config{login("u0", "wrong"), login("nobody", "p")} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := oncemq.Dial(ctx, "amqp://"+nodes[0].server.Addr().String(), &c); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, oncemq.ErrCredentials) {
			t.Errorf("without a majority: %v", err)
		}
	}
}

// TestExposedWithoutUsers: a listener that others can reach needs a user.
func TestExposedWithoutUsers(t *testing.T) {
	ca := certstest.New(t)
	cfg := config.Serve{Node: 1, Data: t.TempDir(), PeerListen: "127.0.0.1:0", Peers: map[uint64]string{1: "127.0.0.1:0"}, ListenTLS: "0.0.0.0:0"}
	cfg.TLSCert, cfg.TLSKey = ca.Issue("server", "127.0.0.1")
	r := openAs(t, cfg)
	select {
	case err := <-r.ended:
		r.ended <- err
		if !errors.Is(err, ErrNoUser) || !strings.Contains(err.Error(), "oncemq user add") || r.lines.text != "" {
			t.Errorf("%v; ready line %q", err, r.lines.text)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it runs")
	}
	local := cfg
	local.ListenTLS = ""
	r = openAs(t, local)
	r.waitReady(t)
	r.want(t, 201, "PUT", "/api/v1/users/alice", `{"password":"p"}`)
	r.stopAndCheck(t)
	r = openAs(t, cfg)
	r.waitReady(t)
	c := login("alice", "p")
	c.CAFile = ca.File
	_, port, _ := strings.Cut(r.server.AddrTLS().String(), "]:")
	if port == "" {
		_, port, _ = strings.Cut(r.server.AddrTLS().String(), ":")
	}
	if _, err := use(t, "amqps://127.0.0.1:"+port, c); err != nil {
		t.Error(err)
	}
}
