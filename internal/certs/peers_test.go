package certs

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testCluster = [16]byte{0xab, 1, 2, 3}

// founded is the directory of node 1 of a new cluster.
func founded(t *testing.T, cluster [16]byte) Directory {
	t.Helper()
	d := Directory(filepath.Join(t.TempDir(), "pki"))
	if err := d.Found(Identity{cluster, 1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	return d
}

// member is the directory of another node, signed by the authority of first as of now.
func signed(t *testing.T, first Directory, id Identity, now time.Time) Directory {
	t.Helper()
	d := Directory(filepath.Join(t.TempDir(), "pki"))
	key, err := d.Key()
	if err != nil {
		t.Fatal(err)
	}
	a, err := first.Authority()
	if err != nil {
		t.Fatal(err)
	}
	der, err := a.Sign(&key.PublicKey, id, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Install(a.Certificate(), a.Key(), der); err != nil {
		t.Fatal(err)
	}
	return d
}

func peersOf(t *testing.T, d Directory, id Identity) *Peers {
	t.Helper()
	p, err := NewPeers(d, id, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// meet gives both sides' states after a handshake, and their errors.
func meet(t *testing.T, server, client *tls.Config) (srv, cl tls.ConnectionState, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s, c := tls.Server(a, server), tls.Client(b, client)
	failed := make(chan error, 1)
	go func() {
		err := s.HandshakeContext(t.Context())
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		a.Close()
		failed <- err
	}()
	err = c.HandshakeContext(t.Context())
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // a refused certificate shows only now
	}
	b.Close()
	return s.ConnectionState(), c.ConnectionState(), errors.Join(err, <-failed)
}

// TestPeersKnowEachOther, and nobody else: each certificate that isn't the expected node's is refused at either end.
func TestPeersKnowEachOther(t *testing.T) {
	one, two := Identity{testCluster, 1}, Identity{testCluster, 2}
	d1 := founded(t, testCluster)
	p1 := peersOf(t, d1, one)
	p2 := peersOf(t, signed(t, d1, two, time.Now()), two)
	srv, _, err := meet(t, p1.Server(), p2.Client(1))
	if err != nil || srv.Version != tls.VersionTLS13 || srv.NegotiatedProtocol != PeerProtocol || p1.Joining(srv) {
		t.Fatalf("version %x, protocol %q, %v", srv.Version, srv.NegotiatedProtocol, err)
	}
	if node, err := p1.Node(srv); node != 2 || err != nil {
		t.Errorf("node %d, %v", node, err)
	}
	if _, _, err := meet(t, p1.Server(), p2.Client(3)); !errors.Is(err, ErrIdentity) {
		t.Errorf("node 1 was taken for node 3: %v", err)
	}
	// The same authority, another cluster: such certificates are never made, but a restored cluster may have the old key.
	elsewhere := Identity{[16]byte{7}, 2}
	foreign := peersOf(t, signed(t, d1, elsewhere, time.Now()), elsewhere)
	other := peersOf(t, founded(t, [16]byte{9}), Identity{[16]byte{9}, 1})
	none := p2.Client(1)
	none.Certificates = nil
	silent := p2.Client(1)
	silent.NextProtos = nil
	old := p2.Client(1)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	stale := p2.Client(1)
	stale.Certificates = []tls.Certificate{expired(t, d1, two)}
	for name, c := range map[string]*tls.Config{
		"another cluster's name": foreign.Client(1), "another authority": other.Client(1), "no certificate": none, "no protocol": silent,
		"TLS 1.2": old, "an expired one": stale,
	} {
		if srv, _, err := meet(t, p1.Server(), c); err == nil {
			t.Errorf("%s was let in", name)
		} else if _, err := p1.Node(srv); err == nil && srv.HandshakeComplete && name != "another cluster's name" && name != "another authority" {
			t.Errorf("%s is a node", name)
		}
	}
	for name, p := range map[string]*Peers{"another cluster's name": foreign, "another authority": other} {
		if _, _, err := meet(t, p.Server(), p1.Client(1)); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
	lapsed := p1.peerServer(p1.keys.now)
	lapsed.Certificates = []tls.Certificate{expired(t, d1, one)}
	if _, _, err := meet(t, lapsed, p2.Client(1)); err == nil {
		t.Error("an expired certificate was believed")
	}
}

// expired is a certificate whose time is over.
func expired(t *testing.T, first Directory, id Identity) tls.Certificate {
	t.Helper()
	d := signed(t, first, id, time.Now().Add(-2*nodeLife))
	pair, err := keyPair(d.path(nodeCertName), d.path(nodeKeyName))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestConfigurations: nothing older than TLS 1.3, and no session that is resumed without a certificate.
func TestConfigurations(t *testing.T) {
	p := peersOf(t, founded(t, testCluster), Identity{testCluster, 1})
	key, _ := Directory(t.TempDir()).Key()
	join, err := Join(Fingerprint(p.Authority()), key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{
		"server": p.Server(), "peer": p.peerServer(p.keys.now), "client": p.Client(2), "join server": joinServer(p.keys.now), "join": join,
	} {
		if c.MinVersion != tls.VersionTLS13 || c.MaxVersion != 0 {
			t.Errorf("%s: versions %x to %x", name, c.MinVersion, c.MaxVersion)
		}
		if c.InsecureSkipVerify && c.VerifyConnection == nil {
			t.Errorf("%s: nothing is verified", name)
		}
		if c.GetConfigForClient == nil && c.ClientAuth != tls.NoClientCert && !c.SessionTicketsDisabled {
			t.Errorf("%s: sessions can be resumed", name)
		}
	}
}

// TestJoin: who joins believes only the authority of the token, and is known by its key.
func TestJoin(t *testing.T) {
	d := founded(t, testCluster)
	p := peersOf(t, d, Identity{testCluster, 1})
	key, err := Directory(t.TempDir()).Key()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Join(Fingerprint(p.Authority()), key)
	if err != nil {
		t.Fatal(err)
	}
	srv, _, err := meet(t, p.Server(), c)
	if err != nil || !p.Joining(srv) {
		t.Fatalf("joining %v, %v", p.Joining(srv), err)
	}
	if _, err := p.Node(srv); err == nil {
		t.Error("who joins is taken for a node")
	}
	again, _, err := meet(t, p.Server(), c)
	if err != nil || KeyFingerprint(srv) != KeyFingerprint(again) || KeyFingerprint(srv) == [32]byte{} {
		t.Errorf("the key isn't recognised: %x, %x, %v", KeyFingerprint(srv), KeyFingerprint(again), err)
	}
	wrong, _ := Join([32]byte{1}, key)
	if _, _, err := meet(t, p.Server(), wrong); !errors.Is(err, ErrIdentity) {
		t.Errorf("another fingerprint: %v", err)
	}
	// Somebody in between who knows the authority's certificate, which is no secret, but not its key.
	fake := founded(t, testCluster)
	keys := *peersOf(t, fake, Identity{testCluster, 1}).keys.now
	keys.joining.Certificate = append(keys.joining.Certificate[:1:1], p.Authority())
	if _, _, err := meet(t, joinServer(&keys), c); err == nil {
		t.Error("a certificate of another authority was believed")
	}
	none := c.Clone()
	none.Certificates = nil
	if _, _, err := meet(t, p.Server(), none); err == nil {
		t.Error("a join without a key")
	}
}

// TestPeerFilesAreReadAnew: a new certificate is shown without a restart, one of another node isn't.
func TestPeerFilesAreReadAnew(t *testing.T) {
	one := Identity{testCluster, 1}
	d := founded(t, testCluster)
	p := peersOf(t, d, one)
	now := time.Now()
	shown := func() string {
		now = now.Add(lookEvery)
		return string(p.keys.current(now).pair.Certificate[0])
	}
	first := shown()
	a, _ := d.Authority()
	key, _ := d.Key()
	put := func(id Identity) {
		der, err := a.Sign(&key.PublicKey, id, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.write(nodeCertName, certType, der); err != nil {
			t.Fatal(err)
		}
	}
	put(Identity{testCluster, 2})
	if shown() != first {
		t.Error("another node's certificate is shown")
	}
	put(one)
	if shown() == first {
		t.Error("the new certificate isn't shown")
	}
}

// TestRenew: a node renews its own certificate in time, and leaves alone what others have signed.
func TestRenew(t *testing.T) {
	one := Identity{testCluster, 1}
	d := founded(t, testCluster)
	now := time.Now()
	if renewed, expires, err := d.Renew(one, now); renewed || err != nil || expires.Before(now.Add(nodeLife-time.Minute)) {
		t.Errorf("new: %v, %v, %v", renewed, expires, err)
	}
	d = signed(t, d, one, now.Add(-nodeLife/2))
	renewed, expires, err := d.Renew(one, now)
	if !renewed || err != nil || expires.Before(now.Add(nodeLife-time.Minute)) {
		t.Errorf("half over: %v, %v, %v", renewed, expires, err)
	}
	peersOf(t, d, one)
	if err := os.Remove(d.path(caKeyName)); err != nil {
		t.Fatal(err)
	}
	if renewed, _, err := d.Renew(one, now.Add(nodeLife)); renewed || err != nil {
		t.Errorf("without a key: %v, %v", renewed, err)
	}
}

// TestFoundAgain: a crash between any two files of the first node's leaves what the next attempt completes.
func TestFoundAgain(t *testing.T) {
	one := Identity{testCluster, 1}
	for missing := range 16 {
		d := founded(t, testCluster)
		for i, name := range []string{nodeKeyName, caKeyName, nodeCertName, caCertName} {
			if missing&(1<<i) != 0 {
				if err := os.Remove(d.path(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := d.Found(one, time.Now()); err != nil {
			t.Errorf("%04b missing: %v", missing, err)
			continue
		}
		peersOf(t, d, one)
		for _, name := range []string{nodeKeyName, caKeyName, nodeCertName, caCertName} {
			if info, err := os.Stat(d.path(name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	}
}

// TestPeersSayWhatIsWrong with the directory.
func TestPeersSayWhatIsWrong(t *testing.T) {
	one := Identity{testCluster, 1}
	for name, spoil := range map[string]func(d Directory){
		nodeCertName: func(d Directory) { os.Remove(d.path(nodeCertName)) },
		caCertName:   func(d Directory) { os.Remove(d.path(caCertName)) },
		"expired": func(d Directory) {
			old := signed(t, d, one, time.Now().Add(-2*nodeLife))
			for _, f := range []string{nodeCertName, nodeKeyName} {
				os.Rename(old.path(f), d.path(f))
			}
		},
		"oncemq://" + "ab": func(d Directory) {
			other := signed(t, d, Identity{testCluster, 5}, time.Now())
			for _, f := range []string{nodeCertName, nodeKeyName} {
				os.Rename(other.path(f), d.path(f))
			}
		},
	} {
		d := founded(t, testCluster)
		spoil(d)
		if _, err := NewPeers(d, one, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
