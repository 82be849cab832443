package node

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/replica"
)

var quiet = slog.New(slog.DiscardHandler)

// found makes a cluster in an empty directory.
func found(t *testing.T, data string) (made Founded) {
	t.Helper()
	err := Init(t.Context(), InitOptions{Data: data, User: "admin", Logger: quiet, Show: func(f Founded) error { made = f; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// first is the running first node of a cluster.
type first struct {
	*running
	made Founded
	peer string // its address for nodes
}

// startFirst makes a cluster and starts its first node.
func startFirst(t *testing.T) *first {
	t.Helper()
	data := filepath.Join(t.TempDir(), "n1")
	f := &first{made: found(t, data)}
	addrs, err := localcluster.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	f.peer = addrs[0]
	f.running = openAs(t, config.Serve{Data: data, PeerListen: f.peer})
	f.waitReady(t)
	return f
}

// token asks the admin API for a token.
func (f *first) token(t *testing.T) certs.Token {
	t.Helper()
	var made admin.JoinToken
	if err := admin.Call(t.Context(), f.admin.Addr().String(), http.MethodPost, "/api/v1/cluster/tokens", nil, &made); err != nil {
		t.Fatal(err)
	}
	tok, err := certs.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// cluster asks the admin API for the members.
func (f *first) cluster(t *testing.T) (c admin.Cluster) {
	t.Helper()
	if err := admin.Call(t.Context(), f.admin.Addr().String(), http.MethodGet, "/api/v1/cluster", nil, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func joinIn(t *testing.T, data string, token certs.Token) (Joined, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Join(ctx, JoinOptions{Token: token, Data: data, Name: "", Peer: "127.0.0.1:7999", Logger: quiet})
}

// TestJoin: a node gets an id, a directory and a certificate; the token is used up by it, also for a replay with another key.
func TestJoin(t *testing.T) {
	f := startFirst(t)
	token := f.token(t)
	if token.Authority != f.made.Authority || !slices.Equal(token.Addresses, []string{f.peer}) {
		t.Errorf("token of authority %x at %v", token.Authority, token.Addresses)
	}
	data := filepath.Join(t.TempDir(), "n2")
	joined, err := joinIn(t, data, token)
	if err != nil || joined.Node != 2 || joined.Cluster != f.made.Cluster || joined.Unsigned {
		t.Fatalf("%+v, %v", joined, err)
	}
	owner, err := replica.Whose(data)
	if err != nil || owner.Node != 2 || owner.Cluster != f.made.Cluster {
		t.Errorf("directory of %+v, %v", owner, err)
	}
	if _, err := certs.NewPeers(certs.Directory(filepath.Join(data, pkiName)), certs.Identity{Cluster: joined.Cluster, Node: 2}, quiet); err != nil {
		t.Error(err)
	}
	if shown := f.status(t).Certificates; len(shown) != 1 || shown[0].For != "nodes" || time.Until(shown[0].Expires) < 300*24*time.Hour {
		t.Errorf("certificates %+v", shown)
	}
	c := f.cluster(t)
	if len(c.Members) != 2 || c.Members[1].Node != 2 || c.Members[1].Peer != "127.0.0.1:7999" || len(c.Tokens) != 0 {
		t.Errorf("%+v", c)
	}
	if _, err := joinIn(t, filepath.Join(t.TempDir(), "thief"), token); !errors.Is(err, peer.ErrRefused) || !strings.Contains(err.Error(), "was used") {
		t.Errorf("a used token: %v", err)
	}
	if _, err := joinIn(t, data, f.token(t)); !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "node 2") {
		t.Errorf("a directory that is somebody's: %v", err)
	}
	if err := Init(t.Context(), InitOptions{Data: data, User: "admin", Logger: quiet}); !errors.Is(err, config.ErrUsage) {
		t.Errorf("init of a member's directory: %v", err)
	}
}

// TestHostileJoin: whoever has no token of this cluster gets nothing, and puts nothing into the log.
func TestHostileJoin(t *testing.T) {
	f := startFirst(t)
	before := f.replica.Status().Applied
	guessed := certs.NewToken(f.made.Authority, []string{f.peer})
	if _, err := joinIn(t, filepath.Join(t.TempDir(), "a"), guessed); !errors.Is(err, peer.ErrRefused) {
		t.Errorf("a guessed token: %v", err)
	}
	for range 20 {
		key, err := certs.Directory(t.TempDir()).Key()
		if err != nil {
			t.Fatal(err)
		}
		secure, err := certs.Join(f.made.Authority, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []peer.JoinRequest{
			{Secret: make([]byte, 32), Peer: "127.0.0.1:7000"},
			{Secret: make([]byte, 31), Peer: "127.0.0.1:7000"},
			{},
			{Secret: make([]byte, 32), Peer: "0.0.0.0:1"},
			{Secret: make([]byte, 32), Peer: "127.0.0.1:7000", Name: "a\nb"},
		} {
			if _, err := peer.Join(t.Context(), f.peer, secure, request); !errors.Is(err, peer.ErrRefused) {
				t.Errorf("%+v: %v", request, err)
			}
		}
	}
	if after := f.replica.Status().Applied; after > before+3 { // what the node does by itself
		t.Errorf("strangers made entries: %d to %d", before, after)
	}
	// Another cluster at the token's address: nothing is sent to it, and the secret stays one.
	wrong := f.token(t)
	wrong.Authority = [32]byte{1}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Join(ctx, JoinOptions{Token: wrong, Data: filepath.Join(t.TempDir(), "b"), Peer: "127.0.0.1:7000", Logger: quiet})
	if !errors.Is(err, certs.ErrIdentity) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another fingerprint: %v", err)
	}
	short := certs.NewToken(f.made.Authority, []string{f.peer})
	expires := time.Now().Add(300 * time.Millisecond)
	if eff, err := f.replica.Request(t.Context(), &command.TokenPut{Hash: short.Hash(), Expires: expires.UnixMilli()}); err != nil || eff.Refusal != nil {
		t.Fatal(eff.Refusal, err)
	}
	<-time.After(time.Until(expires.Add(100 * time.Millisecond)))
	if _, err := joinIn(t, filepath.Join(t.TempDir(), "c"), short); !errors.Is(err, peer.ErrRefused) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired token: %v", err)
	}
	if c := f.cluster(t); len(c.Members) != 1 {
		t.Errorf("members %+v", c.Members)
	}
}

// steps are the files of a join, in the order in which they are made.
var steps = []string{joiningName, "pki/node.key", "pki/ca.key", "pki/node.crt", "pki/ca.crt", "VOTERS", "MEMBERS", "STAMP"}

// TestJoinAfterACrash: between any two steps on the new node's side, and after the cluster's step on its side, the same command makes
// the same node.
func TestJoinAfterACrash(t *testing.T) {
	f := startFirst(t)
	token := f.token(t)
	whole := filepath.Join(t.TempDir(), "whole")
	joined, err := joinIn(t, whole, token)
	if err != nil {
		t.Fatal(err)
	}
	hash := token.Hash()
	if err := certs.WriteFile(filepath.Join(whole, joiningName), []byte(hex.EncodeToString(hash[:])+"\n")); err != nil {
		t.Fatal(err)
	}
	// Without its key (steps 0 and 1) nothing was sent: the token is another one, and unused.
	for done := 2; done <= len(steps); done++ {
		data := filepath.Join(t.TempDir(), "n")
		for _, name := range steps[:done] {
			copyFile(t, filepath.Join(whole, name), filepath.Join(data, name))
		}
		if _, _, err := resolve(&config.Serve{Data: data, PeerListen: config.DefaultPeerListen}); done < len(steps) && !errors.Is(err, ErrHalfMade) {
			t.Errorf("after %s: the node would start: %v", steps[done-1], err)
		}
		again, err := joinIn(t, data, token)
		if err != nil || again != joined {
			t.Errorf("after %s: %+v, %v", steps[done-1], again, err)
			continue
		}
		if _, secure, err := resolve(&config.Serve{Data: data, PeerListen: config.DefaultPeerListen}); err != nil || !secure {
			t.Errorf("after %s: %v", steps[done-1], err)
		}
	}
	// The cluster has made the member, and its answer was lost.
	lost := f.token(t)
	data := filepath.Join(t.TempDir(), "lost")
	key, err := certs.Directory(filepath.Join(data, pkiName)).Key()
	if err != nil {
		t.Fatal(err)
	}
	eff, err := f.replica.Request(t.Context(), &command.MemberAdd{Token: lost.Hash(), Key: certs.PublicFingerprint(&key.PublicKey), Addresses: command.Addresses{Peer: "127.0.0.1:7999"}})
	if err != nil || eff.Refusal != nil {
		t.Fatal(eff.Refusal, err)
	}
	again, err := joinIn(t, data, lost)
	if err != nil || again.Node != eff.Number || again.Node == joined.Node {
		t.Errorf("after a lost answer: %+v, %v; the cluster has made node %d", again, err, eff.Number)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestInitAfterACrash: whatever was made before, the next attempt ends with one user whose password was shown.
func TestInitAfterACrash(t *testing.T) {
	errLost := errors.New("nobody has seen it")
	for missing, names := range map[string][]string{
		"not shown": nil, "no ca.crt": {"pki/ca.crt"}, "no pki": {"pki"}, "no data": {"pki", "STAMP", "log", "state", "VOTERS"},
	} {
		t.Run(missing, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "n1")
			var lost Founded
			err := Init(t.Context(), InitOptions{Data: data, User: "admin", Logger: quiet, Show: func(f Founded) error { lost = f; return errLost }})
			if !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := resolve(&config.Serve{Data: data, PeerListen: config.DefaultPeerListen}); !errors.Is(err, ErrHalfMade) || !strings.Contains(err.Error(), "cluster init") {
				t.Errorf("the node would start: %v", err)
			}
			made := found(t, data)
			if made.Password == lost.Password || made.User != "admin" {
				t.Errorf("user %q, the same password: %v", made.User, made.Password == lost.Password)
			}
			r := openAs(t, config.Serve{Data: data, PeerListen: "127.0.0.1:0", Advertised: config.Advertised{Peer: "127.0.0.1:7000"}})
			r.waitReady(t)
			all, err := r.users.Users(t.Context())
			if err != nil || len(all) != 1 {
				t.Errorf("users %v, %v", all, err)
			}
			u, err := r.users.FindUser(t.Context(), "admin")
			if err != nil || !auth.Matches(made.Password, &u.Keys) || auth.Matches(lost.Password, &u.Keys) {
				t.Errorf("the shown password doesn't fit: %v", err)
			}
			r.stopAndCheck(t)
			if err := Init(t.Context(), InitOptions{Data: data, User: "admin", Logger: quiet}); !errors.Is(err, config.ErrUsage) {
				t.Errorf("a second cluster in one directory: %v", err)
			}
		})
	}
}

// TestInitOfALoneNode: it keeps its data and its users.
func TestInitOfALoneNode(t *testing.T) {
	data := filepath.Join(t.TempDir(), "n1")
	cfg := config.Serve{Data: data, PeerListen: config.DefaultPeerListen}
	r := openAs(t, cfg)
	r.waitReady(t)
	addr := r.admin.Addr().String()
	if err := admin.Call(t.Context(), addr, http.MethodPut, "/api/v1/queues/kept", nil, nil); err != nil {
		t.Fatal(err)
	}
	secret := "secret"
	if err := admin.Call(t.Context(), addr, http.MethodPut, "/api/v1/users/alice", map[string]*string{"password": &secret}, nil); err != nil {
		t.Fatal(err)
	}
	if err := admin.Call(t.Context(), addr, http.MethodPost, "/api/v1/cluster/tokens", nil, nil); err == nil || !strings.Contains(err.Error(), "cluster init") {
		t.Errorf("a token of a node without certificates: %v", err)
	}
	r.stopAndCheck(t)
	if made := found(t, data); made.User != "" || made.Password != "" {
		t.Errorf("a user %q was made beside those that were there", made.User)
	}
	r = openAs(t, config.Serve{Data: data, PeerListen: "127.0.0.1:0", Advertised: config.Advertised{Peer: "127.0.0.1:7000"}})
	r.waitReady(t)
	addr = r.admin.Addr().String()
	if err := admin.Call(t.Context(), addr, http.MethodGet, "/api/v1/queues/kept", nil, nil); err != nil {
		t.Error(err)
	}
	if err := admin.Call(t.Context(), addr, http.MethodPost, "/api/v1/cluster/tokens", nil, nil); err != nil {
		t.Error(err)
	}
}

// TestNoSecretIsKept: neither a token nor the first password stands in any file of the first node, and nothing in pki can be read
// by others.
func TestNoSecretIsKept(t *testing.T) {
	f := startFirst(t)
	token := f.token(t)
	f.stopAndCheck(t)
	err := filepath.WalkDir(f.opts.Config.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		r, err := os.Open(path)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if strings.Contains(string(b), string(token.Secret[:])) || strings.Contains(string(b), string(f.made.Password)) {
			t.Errorf("%s has a secret", path)
		}
		if info, _ := e.Info(); filepath.Base(filepath.Dir(path)) == pkiName && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPeersNeedCertificates: a node without them listens for others on loopback alone, and says what makes them.
func TestPeersNeedCertificates(t *testing.T) {
	_, err := Open(Options{Config: config.Serve{Data: t.TempDir(), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", PeerListen: "0.0.0.0:7000"}, Logger: quiet})
	if !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "cluster init") {
		t.Error(err)
	}
	data := filepath.Join(t.TempDir(), "n1")
	found(t, data)
	_, err = Open(Options{Config: config.Serve{Data: data, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", PeerListen: "0.0.0.0:0"}, Logger: quiet})
	if !errors.Is(err, config.ErrUsage) || !strings.Contains(err.Error(), "--advertise-peer") {
		t.Error(err)
	}
}
