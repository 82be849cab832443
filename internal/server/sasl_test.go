package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/state"
)

// book is a Users of a few passwords.
type book struct {
	users map[string]auth.User
	down  atomic.Bool  // no barrier can be had
	asked atomic.Int64 // how often
}

func newBook(t testing.TB) *book {
	b := &book{users: map[string]auth.User{}}
	for name, p := range map[string]auth.Password{"alice": "secret", "bob": "hunter2"} {
		k, err := auth.NewKeys(p, [16]byte{1}, 4096)
		if err != nil {
			t.Fatal(err)
		}
		b.users[name] = auth.User{Name: name, Keys: k, Exists: true}
	}
	u := auth.Unknown([32]byte{1}, "app.example.org")
	u.Exists = true
	b.users[u.Name] = u // has a certificate only
	return b
}

func (b *book) FindUser(_ context.Context, name string) (auth.User, error) {
	b.asked.Add(1)
	if b.down.Load() {
		return auth.User{}, errors.New("no majority")
	}
	if u, ok := b.users[name]; ok {
		return u, nil
	}
	return auth.Unknown([32]byte{1}, name), nil
}

// guarded is a node with users and no --dev.
func guarded(t testing.TB, b *book, change ...func(*Config)) *node {
	t.Helper()
	return start(t, append([]func(*Config){func(c *Config) {
		c.Dev, c.Users = false, b
		c.Frontend.Access = func(principal string, _ frontend.Right, _ string) bool { return principal != frontend.Anonymous }
	}}, change...)...)
}

// login runs the SASL layer on a socket and gives its outcome.
func login(t testing.TB, nc net.Conn, ms ...engine.SASLMechanism) error {
	t.Helper()
	layer := engine.NewSASLClient(engine.SASLClientConfig{Mechanisms: ms})
	var buf []byte
	for !layer.Done() {
		if b := layer.TakeOutput(nil); len(b) > 0 {
			if _, err := nc.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, 4096)
		k, err := nc.Read(b)
		if err != nil {
			t.Fatalf("%T: %v", ms, err)
		}
		buf = append(buf, b[:k]...)
		used, err := layer.Input(buf)
		if err != nil {
			return err
		}
		buf = buf[used:]
	}
	return nil
}

func scramOf(t testing.TB, mechanism, user string, p auth.Password) engine.SASLMechanism {
	t.Helper()
	s, err := auth.NewScram(mechanism, user, p)
	if err != nil {
		t.Fatal(err)
	}
	return s.Begin(nil)
}

// code is the outcome that err stands for.
func code(t testing.TB, err error) amqp.SASLCode {
	t.Helper()
	var no *engine.SASLError
	switch {
	case err == nil:
		return amqp.SASLCodeOK
	case errors.As(err, &no):
		return no.Code
	}
	t.Fatalf("no outcome: %v", err)
	return 0
}

// principals are those of the open connections, as the log has them.
func (n *node) principals() (names []string) {
	n.t.Helper()
	if err := n.rep.Read(n.t.Context(), func(m *state.Machine) {
		for _, c := range m.Connections() {
			names = append(names, c.Principal)
		}
	}); err != nil {
		n.t.Fatal(err)
	}
	return names
}

// Checklist 3, 5: TestUsersLogIn by each mechanism; the principal is the user's name from there on.
func TestUsersLogIn(t *testing.T) {
	n := guarded(t, newBook(t), func(c *Config) { c.Plain = true })
	for _, m := range []engine.SASLMechanism{
		scramOf(t, auth.ScramSHA256, "alice", "secret"), scramOf(t, auth.ScramSHA512, "alice", "secret"), engine.Plain("alice", "secret"),
	} {
		nc := n.dial()
		if err := login(t, nc, m); err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		c := &client{t: t, nc: nc, eng: engine.New(engine.Config{})}
		if err := c.eng.Open(*amqp.NewOpen("app-" + m.Name())); err != nil {
			t.Fatal(err)
		}
		c.await(engine.Opened)
		c.send(c.sender(c.begin(), "s", "q"), text("m"))
	}
	if got := strings.Join(n.principals(), " "); got != "alice alice alice" {
		t.Errorf("principals %q", got)
	}
}

// Checklist 3, 7, 112: TestUsersAreRefused with code 1 after a barrier, and with code 4, "try another", without one (C16).
func TestUsersAreRefused(t *testing.T) {
	b := newBook(t)
	n := guarded(t, b, func(c *Config) { c.Plain = true })
	mechanisms := func(user string, p auth.Password) []engine.SASLMechanism {
		return []engine.SASLMechanism{scramOf(t, auth.ScramSHA256, user, p), scramOf(t, auth.ScramSHA512, user, p), engine.Plain(user, string(p))}
	}
	for _, who := range []struct {
		user string
		p    auth.Password
	}{{"alice", "Secret"}, {"eve", "secret"}, {"app.example.org", "secret"}} {
		for _, m := range mechanisms(who.user, who.p) {
			before := b.asked.Load()
			if got := code(t, login(t, n.dial(), m)); got != amqp.SASLCodeAuth || b.asked.Load() == before {
				t.Errorf("%s as %s: code %d, asked %d times", m.Name(), who.user, got, b.asked.Load()-before)
			}
		}
	}
	b.down.Store(true)
	for _, m := range mechanisms("bob", "hunter2") {
		if got := code(t, login(t, n.dial(), m)); got != amqp.SASLCodeSysTemp {
			t.Errorf("%s without a barrier: code %d", m.Name(), got)
		}
	}
	b.down.Store(false)
	if err := login(t, n.dial(), mechanisms("bob", "hunter2")...); err != nil {
		t.Errorf("bob with a barrier again: %v", err)
	}
}

// TestLockedOut: who guesses gets no check after three failures, hence no "no" either; others go on. A right password says so.
func TestLockedOut(t *testing.T) {
	n := guarded(t, newBook(t), func(c *Config) { c.Plain = true })
	if err := login(t, n.dial(), engine.Plain("alice", "secret")); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for range 10 {
		switch got := code(t, login(t, n.dial(), engine.Plain("alice", "guess"))); got {
		case amqp.SASLCodeSysTemp:
			waiting++
		case amqp.SASLCodeAuth:
			if waiting > 0 {
				t.Error("checked while locked out")
			}
		default:
			t.Fatalf("code %d", got)
		}
	}
	if waiting != 6 {
		t.Errorf("%d of 10 guesses had to wait, want 6: three are free, the fourth begins it", waiting)
	}
	if got := code(t, login(t, n.dial(), scramOf(t, auth.ScramSHA256, "alice", "secret"))); got != amqp.SASLCodeSysTemp {
		t.Errorf("the right password while locked out: code %d", got)
	}
	if err := login(t, n.dial(), engine.Plain("bob", "hunter2")); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// TestLockOutMeetsThoseUnderWay: exchanges begun before the failures don't get around the wait.
func TestLockOutMeetsThoseUnderWay(t *testing.T) {
	n := guarded(t, newBook(t))
	var guesses []net.Conn
	for range 6 {
		nc := n.dial()
		b := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
		b = amqp.AppendFrame(b, 0, &amqp.SASLInit{Mechanism: auth.ScramSHA256, InitialResponse: []byte("n,,n=alice,r=x")}, nil)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		readUntil(t, nc, func(names []string) bool { return len(names) > 0 && names[len(names)-1] == "sasl-challenge" })
		guesses = append(guesses, nc)
	}
	var codes []amqp.SASLCode
	for _, nc := range guesses {
		if _, err := nc.Write(amqp.AppendFrame(nil, 0, &amqp.SASLResponse{Response: []byte("c=biws,r=x,p=AAAA")}, nil)); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, outcome(t, nc))
	}
	want := []amqp.SASLCode{1, 1, 1, 1, 4, 4}
	for i := range want {
		if codes[i] != want[i] {
			t.Fatalf("codes %v, want %v", codes, want)
		}
	}
}

// outcome reads frames until the outcome.
func outcome(t testing.TB, nc net.Conn) amqp.SASLCode {
	t.Helper()
	var buf []byte
	for {
		b := make([]byte, 4096)
		k, err := nc.Read(b)
		buf = append(buf, b[:k]...)
		if err != nil {
			t.Fatalf("no outcome: %v; read %q", err, buf)
		}
		for rest := bytes.TrimPrefix(buf, amqp.AppendProtoHeader(nil, amqp.ProtoSASL)); ; {
			f, n, err := amqp.DecodeFrame(rest, amqp.Limits{})
			if err != nil {
				break
			}
			if o, ok := f.Body.(*amqp.SASLOutcome); ok {
				return o.Code
			}
			rest = rest[n:]
		}
	}
}

// TestPasswordsAreCheckedFewAtATime: a password that was right before costs no rounds; another waits its turn, and gets "later",
// never "no", when its time is over.
func TestPasswordsAreCheckedFewAtATime(t *testing.T) {
	n := guarded(t, newBook(t), func(c *Config) { c.Plain, c.SASLTimeout = true, 300*time.Millisecond })
	if err := login(t, n.dial(), engine.Plain("alice", "secret")); err != nil {
		t.Fatal(err)
	}
	for range cap(n.s.guard.rounds) {
		n.s.guard.rounds <- struct{}{} // others are being checked
	}
	if err := login(t, n.dial(), engine.Plain("alice", "secret")); err != nil {
		t.Errorf("a known password: %v", err)
	}
	u := n.s.cfg.Users.(*book).users["bob"]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.s.guard.check(ctx, &u, "hunter2"); !errors.Is(err, auth.ErrLater) || errors.Is(err, auth.ErrDenied) {
		t.Errorf("no turn: %v", err)
	}
	<-n.s.guard.rounds
	nobody := u
	nobody.Exists = false
	if err := n.s.guard.check(t.Context(), &nobody, "hunter2"); !errors.Is(err, auth.ErrDenied) {
		t.Errorf("a user that doesn't exist, with the right password: %v", err)
	}
	if err := login(t, n.dial(), engine.Plain("bob", "hunter2")); err != nil {
		t.Errorf("its turn: %v", err)
	}
}

// TestOffers: what is offered hangs on the listener, and what isn't offered is refused.
func TestOffers(t *testing.T) {
	b := newBook(t)
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"users", func(*Config) {}, "SCRAM-SHA-512 SCRAM-SHA-256"},
		{"users and PLAIN", func(c *Config) { c.Plain = true }, "SCRAM-SHA-512 SCRAM-SHA-256 PLAIN"},
		{"users and dev", func(c *Config) { c.Dev = true }, "SCRAM-SHA-512 SCRAM-SHA-256 ANONYMOUS"},
		{"dev", func(c *Config) { c.Dev, c.Users, c.Plain = true, nil, true }, "ANONYMOUS"},
	} {
		n := guarded(t, b, tc.change)
		nc := n.dial()
		if _, err := nc.Write(amqp.AppendProtoHeader(nil, amqp.ProtoSASL)); err != nil {
			t.Fatal(err)
		}
		var got []string
		buf := make([]byte, 4096)
		for k := 0; got == nil; {
			i, err := nc.Read(buf[k:])
			if err != nil {
				t.Fatal(err)
			}
			if k += i; k <= 8 {
				continue
			}
			if f, _, err := amqp.DecodeFrame(buf[8:k], amqp.Limits{}); err == nil {
				for _, m := range f.Body.(*amqp.SASLMechanisms).Mechanisms {
					got = append(got, string(m))
				}
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: offered %v, want %s", tc.name, got, tc.want)
		}
		for _, m := range []amqp.Symbol{"EXTERNAL", "PLAIN", "ANONYMOUS", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "x"} {
			if strings.Contains(tc.want, string(m)) {
				continue
			}
			nc := n.dial()
			hello := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
			hello = amqp.AppendFrame(hello, 0, &amqp.SASLInit{Mechanism: m, InitialResponse: []byte("\x00alice\x00secret")}, nil)
			if _, err := nc.Write(hello); err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, nc); got != amqp.SASLCodeAuth {
				t.Errorf("%s: %s gets code %d", tc.name, m, got)
			}
		}
	}
}

// TestPlainFromElsewhere: without TLS a peer on another machine isn't offered PLAIN; with it, it is. What counts is the peer's
// address, never the listener's (faults.md 3.1).
func TestPlainFromElsewhere(t *testing.T) {
	b := newBook(t)
	s := &Server{cfg: Config{Users: b, Plain: true}}
	for _, tc := range []struct {
		peer   net.Addr
		secure bool
		want   bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, false, true},
		{&net.TCPAddr{IP: net.IPv6loopback}, false, true},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}, false, false},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}, true, true},
		{&net.UnixAddr{}, false, false},
	} {
		var secure *tls.Config
		if tc.secure {
			secure = certs.Strict(&tls.Config{})
		}
		c := newConn(s, from{addr: tc.peer}, &listener{tls: secure})
		got := false
		for _, m := range c.offer() {
			got = got || m == auth.Plain
		}
		if got != tc.want {
			t.Errorf("%v, TLS %v: PLAIN offered %v", tc.peer, tc.secure, got)
		}
	}
}

// TestExposed: who can reach which listener.
func TestExposed(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want bool
	}{
		{Config{Listen: "127.0.0.1:0", Users: &book{}}, false},
		{Config{ListenTLS: "127.0.0.1:0", TLS: certs.Strict(&tls.Config{}), Users: &book{}}, false},
		{Config{Listen: "127.0.0.1:0", ListenTLS: "0.0.0.0:0", TLS: certs.Strict(&tls.Config{}), Users: &book{}}, true},
		{Config{Listen: "0.0.0.0:0", Insecure: true, Users: &book{}}, true},
	} {
		s, err := New(tc.cfg)
		if err != nil {
			t.Errorf("%+v: %v", tc.cfg, err)
			continue
		}
		if s.Exposed() != tc.want || (s.AddrTLS() != nil) != (tc.cfg.ListenTLS != "") {
			t.Errorf("%s %s: exposed %v, TLS at %v", tc.cfg.Listen, tc.cfg.ListenTLS, s.Exposed(), s.AddrTLS())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// lines takes a log.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// TestRefusalsAreLogged with who, how, from where and why; never with a password.
func TestRefusalsAreLogged(t *testing.T) {
	log := &lines{}
	b := newBook(t)
	n := guarded(t, b, func(c *Config) {
		c.Plain, c.Logger = true, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for _, tc := range []struct {
		m    engine.SASLMechanism
		down bool
		want []string
	}{
		{engine.Plain("alice", "gu3ss"), false, []string{"level=WARN", "user=alice", "mechanism=PLAIN", "peer=127.0.0.1:", "wrong password"}},
		{scramOf(t, auth.ScramSHA256, "eve", "gu3ss"), false, []string{"level=WARN", "user=eve", "mechanism=SCRAM-SHA-256"}},
		{engine.Plain("al\nice", "gu3ss"), false, []string{"level=WARN", "SASLprep"}},
		{engine.Plain("alice", "gu3ss"), true, []string{"level=WARN", "no majority"}},
		{engine.Plain("alice", "secret"), false, []string{"level=DEBUG", "let in", "user=alice"}},
	} {
		before := len(log.String())
		b.down.Store(tc.down)
		_ = login(t, n.dial(), tc.m)
		for end := time.Now().Add(patience); len(log.String()) == before && time.Now().Before(end); {
			<-time.After(time.Millisecond) // it is logged behind the outcome
		}
		got := log.String()[before:]
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q doesn't say %s", tc.m.Name(), got, want)
			}
		}
		if strings.Count(got, "\n") != 1 || strings.Contains(got, "gu3ss") || strings.Contains(got, "secret") {
			t.Errorf("%s: logged %q", tc.m.Name(), got)
		}
	}
}

// TestOrigin: who has a network of IPv6 addresses isn't a thousand peers.
func TestOrigin(t *testing.T) {
	for _, tc := range []struct {
		ip       string
		want     string
		loopback bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.8.9.1", "127.8.9.1", true},
		{"::1", "::1", true},
		{"192.0.2.7", "192.0.2.7", false},
		{"::ffff:192.0.2.7", "192.0.2.7", false},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", false},
		{"2001:db8:1:2:ffff::", "2001:db8:1:2::/64", false},
	} {
		host, loopback := origin(&net.TCPAddr{IP: net.ParseIP(tc.ip), Port: 9})
		if host != tc.want || loopback != tc.loopback {
			t.Errorf("%s: %s, %v; want %s, %v", tc.ip, host, loopback, tc.want, tc.loopback)
		}
	}
}

// from is a socket of a peer at addr.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

// TestWithoutDev: nobody gets past without SASL, or by asking late.
func TestWithoutDev(t *testing.T) {
	n := guarded(t, newBook(t))
	frame := func(p amqp.Performative) []byte { return amqp.AppendFrame(nil, 0, p, nil) }
	header := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
	init := frame(&amqp.SASLInit{Mechanism: auth.ScramSHA256, InitialResponse: []byte("n,,n=alice,r=x")})
	big := make([]byte, 1<<20)
	sized := func(size int) []byte {
		for k := size - 64; ; k++ {
			if b := frame(&amqp.SASLInit{Mechanism: auth.ScramSHA256, InitialResponse: big[:k]}); len(b) == size {
				return b
			}
		}
	}
	for _, tc := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"no SASL", append(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), frame(amqp.NewOpen("x"))...), "header3 end"},
		{"open before the outcome", bytes.Join([][]byte{header, frame(amqp.NewOpen("x"))}, nil), "header3 sasl-mechanisms end"},
		{"init twice", bytes.Join([][]byte{header, init, init}, nil), "header3 sasl-mechanisms sasl-challenge end"},
		{"response without a challenge", bytes.Join([][]byte{header, frame(&amqp.SASLResponse{Response: []byte("x")})}, nil), "header3 sasl-mechanisms end"},
		{"an initial response of 1 MiB", bytes.Join([][]byte{header, frame(&amqp.SASLInit{Mechanism: auth.ScramSHA256, InitialResponse: big})}, nil), "header3 sasl-mechanisms end"},
		{"a frame of 512 bytes", append(bytes.Clone(header), sized(512)...), "header3 sasl-mechanisms sasl-outcome end"},
		{"a frame of 513 bytes", append(bytes.Clone(header), sized(513)...), "header3 sasl-mechanisms end"},
		{"AMQP before the outcome", bytes.Join([][]byte{header, init, amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)}, nil), "header3 sasl-mechanisms sasl-challenge end"},
	} {
		nc := n.dial()
		go func() { _, _ = nc.Write(tc.bytes) }()
		got := strings.Join(readUntil(t, nc, func([]string) bool { return false }), " ")
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := n.principals(); len(got) != 0 {
		t.Errorf("somebody got in: %v", got)
	}
}

// TestNoInitialResponse: a client that waits to be asked is asked, once.
func TestNoInitialResponse(t *testing.T) {
	n := guarded(t, newBook(t), func(c *Config) { c.Plain = true })
	nc := n.dial()
	b := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
	b = amqp.AppendFrame(b, 0, &amqp.SASLInit{Mechanism: auth.Plain}, nil)
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	readUntil(t, nc, func(names []string) bool { return len(names) > 0 && names[len(names)-1] == "sasl-challenge" })
	if _, err := nc.Write(amqp.AppendFrame(nil, 0, &amqp.SASLResponse{Response: []byte("\x00alice\x00secret")}, nil)); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, nc); got != amqp.SASLCodeOK {
		t.Errorf("code %d", got)
	}
}

// TestPlainIsStrict: NULs too many, nobody, and acting as another.
func TestPlainIsStrict(t *testing.T) {
	n := guarded(t, newBook(t), func(c *Config) { c.Plain = true })
	for _, response := range []string{"", "\x00alice\x00", "\x00\x00secret", "alice\x00secret", "\x00alice\x00secret\x00", "\x00alice\x00sec\x00ret", "bob\x00alice\x00secret", "\x00ANONYMOUS\x00secret"} {
		nc := n.dial()
		b := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
		b = amqp.AppendFrame(b, 0, &amqp.SASLInit{Mechanism: auth.Plain, InitialResponse: []byte(response)}, nil)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, nc); got != amqp.SASLCodeAuth {
			t.Errorf("%q: code %d", response, got)
		}
	}
}

// TestNewCertificate: once the files have changed it is shown, without a restart; who is connected stays.
func TestNewCertificate(t *testing.T) {
	n, ca := secured(t, newBook(t))
	shown := func() string {
		nc := n.dialTLS(ca, "", "")
		defer nc.Close()
		return nc.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := n.dialTLS(ca, "", "")
	first := shown()
	ca.Issue("server", "127.0.0.1")
	for end := time.Now().Add(patience); shown() == first; {
		if time.Now().After(end) {
			t.Fatal("the former certificate is still shown")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	if err := login(t, before, scramOf(t, auth.ScramSHA256, "alice", "secret")); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
}

// secured is a node that also listens with TLS; it gives its authority.
func secured(t testing.TB, b *book, change ...func(*Config)) (*node, *certstest.Authority) {
	t.Helper()
	ca := certstest.New(t)
	cert, key := ca.Issue("server", "127.0.0.1")
	l, err := certs.NewListener(certs.Files{Cert: cert, Key: key, ClientCA: ca.File}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return guarded(t, b, append([]func(*Config){func(c *Config) {
		c.ListenTLS, c.TLS = "127.0.0.1:0", l.Config()
	}}, change...)...), ca
}

// dialTLS connects with TLS; cert and key may be empty.
func (n *node) dialTLS(ca *certstest.Authority, cert, key string) *tls.Conn {
	n.t.Helper()
	cfg, err := certs.Client(ca.File, cert, key)
	if err != nil {
		n.t.Fatal(err)
	}
	nc, err := tls.Dial("tcp", n.s.AddrTLS().String(), cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// TestTLS: all mechanisms work over it, EXTERNAL by a name in the client's certificate; and an orderly end is seen as one.
func TestTLS(t *testing.T) {
	n, ca := secured(t, newBook(t), func(c *Config) { c.Plain = true })
	cert, key := ca.Issue("client", "app.example.org", "other.example.org")
	for _, m := range []engine.SASLMechanism{
		scramOf(t, auth.ScramSHA512, "alice", "secret"), engine.Plain("bob", "hunter2"), engine.External(""),
	} {
		nc := n.dialTLS(ca, cert, key)
		if err := login(t, nc, m); err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		c := &client{t: t, nc: nc, eng: engine.New(engine.Config{})}
		if err := c.eng.Open(*amqp.NewOpen("app")); err != nil {
			t.Fatal(err)
		}
		c.await(engine.Opened)
		c.send(c.sender(c.begin(), "s", "q"), text(strings.Repeat("m", 300_000)))
	}
	if got := strings.Join(n.principals(), " "); got != "alice bob app.example.org" {
		t.Errorf("principals %q", got)
	}
	n.stop()
}

// TestBoundToTLS: SCRAM's proof holds for its own TLS connection; without TLS none is offered.
func TestBoundToTLS(t *testing.T) {
	n, ca := secured(t, newBook(t))
	keys, err := auth.NewScram(auth.ScramSHA256, "alice", "secret")
	if err != nil {
		t.Fatal(err)
	}
	nc, other := n.dialTLS(ca, "", ""), n.dialTLS(ca, "", "")
	if err := login(t, nc, keys.BeginBound(certs.Binding(nc.ConnectionState()))); err != nil {
		t.Errorf("bound: %v", err)
	}
	if got := code(t, login(t, other, keys.BeginBound(certs.Binding(nc.ConnectionState())))); got != amqp.SASLCodeAuth {
		t.Errorf("bound to another connection: code %d", got)
	}
	if got := code(t, login(t, n.dialTLS(ca, "", ""), keys.Begin(certs.Binding(nc.ConnectionState())))); got != amqp.SASLCodeAuth {
		t.Errorf("somebody took the offer away: code %d", got)
	}
	if err := login(t, n.dial(), keys.BeginBound([]byte("x"))); !errors.Is(err, engine.ErrMechanism) {
		t.Errorf("without TLS: %v", err)
	}
}

// Checklist 6, 7: TestCertificates that are no user's, or nobody's, or the wrong one's.
func TestCertificates(t *testing.T) {
	n, ca := secured(t, newBook(t))
	for _, tc := range []struct {
		names []string
		asked string
		want  amqp.SASLCode
	}{
		{[]string{"app.example.org"}, "app.example.org", amqp.SASLCodeOK},
		{[]string{"alice", "bob"}, "bob", amqp.SASLCodeOK},
		{[]string{"alice", "bob"}, "", amqp.SASLCodeAuth},
		{[]string{"app.example.org"}, "alice", amqp.SASLCodeAuth},
		{[]string{"*.example.org"}, "", amqp.SASLCodeAuth},
		{[]string{"APP.example.org"}, "", amqp.SASLCodeAuth},
	} {
		cert, key := ca.Issue("client", tc.names...)
		if got := code(t, login(t, n.dialTLS(ca, cert, key), engine.External(tc.asked))); got != tc.want {
			t.Errorf("%q as %q: code %d, want %d", tc.names, tc.asked, got, tc.want)
		}
	}
	if err := login(t, n.dialTLS(ca, "", ""), engine.External("alice")); !errors.Is(err, engine.ErrMechanism) {
		t.Errorf("EXTERNAL is offered without a certificate: %v", err)
	}
	if err := login(t, n.dial(), engine.External("alice")); !errors.Is(err, engine.ErrMechanism) {
		t.Errorf("EXTERNAL is offered without TLS: %v", err)
	}
	b := n.s.cfg.Users.(*book)
	b.down.Store(true)
	cert, key := ca.Issue("client", "alice")
	if got := code(t, login(t, n.dialTLS(ca, cert, key), engine.External(""))); got != amqp.SASLCodeSysTemp {
		t.Errorf("without a barrier: code %d", got)
	}
}

// TestSilentTLSPeers are cut off, and plaintext on a TLS port gets nothing.
func TestSilentTLSPeers(t *testing.T) {
	n, _ := secured(t, newBook(t), func(c *Config) { c.TLSTimeout = 50 * time.Millisecond })
	for _, hello := range [][]byte{nil, {0x16, 3, 1}, amqp.AppendProtoHeader(nil, amqp.ProtoSASL)} {
		nc, err := net.Dial("tcp", n.s.AddrTLS().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = nc.Write(hello)
		got := readUntil(t, nc, func([]string) bool { return false })
		if s := strings.Join(got, " "); s != "end" {
			t.Errorf("%q: %s", hello, s)
		}
		_ = nc.Close()
	}
}
