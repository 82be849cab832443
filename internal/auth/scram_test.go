package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"
)

// rounds are few in tests, where nobody guesses.
const rounds = 4096

var testSeed = [32]byte{1, 2, 3}

// directory is a Find over passwords, made once.
func directory(t testing.TB, passwords map[string]Password) Find {
	t.Helper()
	users := map[string]User{}
	for name, p := range passwords {
		k, err := NewKeys(p, [16]byte{byte(len(name))}, rounds)
		if err != nil {
			t.Fatal(err)
		}
		users[name] = User{Name: name, Keys: k, Exists: true}
	}
	return func(name string) (User, error) {
		if u, ok := users[name]; ok {
			return u, nil
		}
		return Unknown(testSeed, name), nil
	}
}

// TestRFC7677: the keys of the example there give the example's signature.
func TestRFC7677(t *testing.T) {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	k, err := NewKeys("pencil", [16]byte(salt), 4096)
	if err != nil {
		t.Fatal(err)
	}
	message := "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	sign := func(h func() hash.Hash, key []byte) []byte {
		mac := hmac.New(h, key)
		mac.Write([]byte(message))
		return mac.Sum(nil)
	}
	if got, want := base64.StdEncoding.EncodeToString(sign(sha256.New, k.Server256[:])), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="; got != want {
		t.Errorf("server signature %s, want %s", got, want)
	}
	proof, _ := base64.StdEncoding.DecodeString("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
	for i, b := range sign(sha256.New, k.Stored256[:]) {
		proof[i] ^= b
	}
	if sha256.Sum256(proof) != k.Stored256 {
		t.Error("the example's proof doesn't fit the stored key")
	}
	if len(sign(sha512.New, k.Server512[:])) != 64 || k.Stored512 == [64]byte{} {
		t.Error("no keys for SHA-512")
	}
}

// converse runs an exchange to its end.
func converse(c *ScramClient, s *ScramServer) (clientErr, serverErr error) {
	message, err := c.Start()
	for err == nil {
		answer, done, no := s.Step(message)
		if no != nil {
			return nil, no
		}
		if done {
			return c.Verify(answer), nil
		}
		message, err = c.Answer(answer)
	}
	return err, nil
}

func TestScram(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret", "a=b,c": "secret", "jos\u00e9": "p\u00e4ss \u00bd"})
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		for _, tc := range []struct {
			user string
			p    Password
			as   string // the user, "" for a no
		}{
			{"alice", "secret", "alice"},
			{"a=b,c", "secret", "a=b,c"},
			{"jose\u0301", "pa\u0308ss 1\u20442", "jos\u00e9"}, // SASLprep makes them the same
			{"alice", "Secret", ""},
			{"bob", "secret", ""},
			{"ALICE", "secret", ""},
		} {
			t.Run(mechanism+" "+tc.user, func(t *testing.T) {
				keys, err := NewScram(mechanism, tc.user, tc.p)
				if err != nil {
					t.Fatal(err)
				}
				s, err := NewScramServer(mechanism, nil, find)
				if err != nil {
					t.Fatal(err)
				}
				clientErr, serverErr := converse(keys.Begin(nil), s)
				if tc.as == "" {
					if !errors.Is(serverErr, ErrDenied) || errors.Is(serverErr, ErrLater) {
						t.Errorf("%v, want a no", serverErr)
					}
					return
				}
				if clientErr != nil || serverErr != nil || s.User().Name != tc.as {
					t.Errorf("client %v, server %v, user %q", clientErr, serverErr, s.User().Name)
				}
			})
		}
	}
}

// TestChannelBinding: a proof for one TLS connection is none for another, and a client that could have bound finds out who took
// the offer away.
func TestChannelBinding(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret"})
	one, two := make([]byte, 32), []byte(strings.Repeat("x", 32))
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		keys, err := NewScram(mechanism, "alice", "secret")
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			what      string
			client    *ScramClient
			mechanism string
			binding   []byte
			ok        bool
		}{
			{"bound", keys.BeginBound(one), mechanism + plus, one, true},
			{"bound to another connection", keys.BeginBound(two), mechanism + plus, one, false},
			{"unbound with PLUS", keys.Begin(nil), mechanism + plus, one, false},
			{"not able to bind", keys.Begin(nil), mechanism, one, true},
			{"the offer was taken away", keys.Begin(one), mechanism, one, false},
			{"no offer", keys.Begin(one), mechanism, nil, true},
			{"bound where nobody offered it", keys.BeginBound(one), mechanism, nil, false},
		} {
			s, err := NewScramServer(tc.mechanism, tc.binding, find)
			if err != nil {
				t.Fatal(err)
			}
			clientErr, serverErr := converse(tc.client, s)
			if clientErr != nil || tc.ok != (serverErr == nil) || !tc.ok && !errors.Is(serverErr, ErrDenied) {
				t.Errorf("%s, %s: client %v, server %v", mechanism, tc.what, clientErr, serverErr)
			}
		}
	}
	if _, err := NewScramServer(ScramSHA256Plus, nil, find); err == nil {
		t.Error("PLUS without TLS")
	}
}

// TestUnknownUserLooksLikeAnother: the same salt each time, another for another name, as
// many rounds as everybody has, and a no only at the end.
func TestUnknownUserLooksLikeAnother(t *testing.T) {
	find := directory(t, nil)
	first := func(name string) string {
		s, err := NewScramServer(ScramSHA256, nil, find)
		if err != nil {
			t.Fatal(err)
		}
		answer, done, err := s.Step([]byte("n,,n=" + name + ",r=abc"))
		if err != nil || done {
			t.Fatalf("%s: %v, done %v: an unknown user must get a challenge", name, err, done)
		}
		_, rest, _ := strings.Cut(string(answer), ",")
		return rest
	}
	if once, again := first("bob"), first("bob"); once != again || once == first("eve") {
		t.Error("the salt must hang on the name alone")
	}
	if !strings.HasSuffix(first("bob"), fmt.Sprintf(",i=%d", Iterations)) {
		t.Errorf("%s", first("bob"))
	}
	if Unknown(testSeed, "bob").Keys == Unknown([32]byte{9}, "bob").Keys {
		t.Error("the salt doesn't hang on the seed")
	}
	if u := Unknown(testSeed, "bob"); Matches("", &u.Keys) || Matches("bob", &u.Keys) {
		t.Error("a password fits nobody")
	}
}

// TestScramServerRefuses what faults.md 3.3 item 13 lists; nothing panics, and no
// message of the peer's stands in the error unquoted.
func TestScramServerRefuses(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret"})
	step := func(message string) error {
		s, err := NewScramServer(ScramSHA256, nil, find)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Step([]byte(message))
		return err
	}
	for _, message := range []string{
		"", ",", ",,,,", "n,,n=alice", "n,,r=abc,n=alice", "x,,n=alice,r=abc", "p=tls-unique,,n=alice,r=abc", "p=x,,n=alice,r=abc",
		"n,,n=al=ice,r=abc", "n,,n=al=2c,r=abc", "n,,n=,r=abc", "n,,n=a\x00b,r=abc", "n,,m=x,n=alice,r=abc", "n,b=x,n=alice,r=abc",
		"n,,n=ANONYMOUS,r=abc", "n,,n=\xff,r=abc", "n,,n=" + strings.Repeat("a", 129) + ",r=abc", "\x00alice\x00secret",
	} {
		if err := step(message); !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "\x00") || strings.Contains(err.Error(), "\xff") {
			t.Errorf("%q: %v, want a no", message, err)
		}
	}
	for _, final := range []struct {
		what   string
		change func(nonce string) string
	}{
		{"another nonce", func(string) string { return "c=biws,r=abcdef,p=AAAA" }},
		{"a cut nonce", func(n string) string { return "c=biws,r=" + n[:len(n)-1] + ",p=AAAA" }},
		{"another GS2 header", func(n string) string { return "c=eSws,r=" + n + ",p=AAAA" }},
		{"no proof", func(n string) string { return "c=biws,r=" + n }},
		{"an empty proof", func(n string) string { return "c=biws,r=" + n + ",p=" }},
		{"a proof of zeros", func(n string) string {
			return "c=biws,r=" + n + ",p=" + base64.StdEncoding.EncodeToString(make([]byte, 32))
		}},
		{"nothing", func(string) string { return "" }},
	} {
		s, _ := NewScramServer(ScramSHA256, nil, find)
		answer, done, err := s.Step([]byte("n,,n=alice,r=abc"))
		if err != nil || done {
			t.Fatal(err)
		}
		nonce, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "r="), ",")
		if _, done, err := s.Step([]byte(final.change(nonce))); !done || !errors.Is(err, ErrDenied) {
			t.Errorf("%s: done %v, %v", final.what, done, err)
		}
		if _, done, err := s.Step([]byte("again")); !done || !errors.Is(err, ErrDenied) {
			t.Errorf("%s: a third step: done %v, %v", final.what, done, err)
		}
	}
}

// TestScramActingAsAnother: a name to act as is taken only where it is the user's own.
func TestScramActingAsAnother(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret", "bob": "secret"})
	for authz, ok := range map[string]bool{"alice": true, "bob": false} {
		client, err := hashes[ScramSHA256].NewClient("alice", "secret", authz)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := NewScramServer(ScramSHA256, nil, find)
		_, serverErr := converse(&ScramClient{mechanism: ScramSHA256, conv: client.NewConversation()}, s)
		if ok != (serverErr == nil) || !ok && !errors.Is(serverErr, ErrDenied) {
			t.Errorf("as %s: %v", authz, serverErr)
		}
	}
}

// TestNobodyWithTheRightKeys: keys alone let nobody in who doesn't exist.
func TestNobodyWithTheRightKeys(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret"})
	keys, err := NewScram(ScramSHA256, "alice", "secret")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := NewScramServer(ScramSHA256, nil, func(name string) (User, error) {
		u, err := find(name)
		u.Exists = false
		return u, err
	})
	if _, serverErr := converse(keys.Begin(nil), s); !errors.Is(serverErr, ErrDenied) {
		t.Errorf("%v", serverErr)
	}
}

// TestNothingKnownIsNoNo: C16.
func TestNothingKnownIsNoNo(t *testing.T) {
	cause := errors.New("no majority")
	find := func(string) (User, error) { return User{}, cause }
	s, _ := NewScramServer(ScramSHA512, nil, find)
	if _, done, err := s.Step([]byte("n,,n=alice,r=abc")); !done || !errors.Is(err, ErrLater) || errors.Is(err, ErrDenied) || !errors.Is(err, cause) {
		t.Errorf("SCRAM: done %v, %v", done, err)
	}
	if _, err := CertificateUser("", []string{"alice"}, find); !errors.Is(err, ErrLater) || errors.Is(err, ErrDenied) {
		t.Errorf("EXTERNAL: %v", err)
	}
}

// TestScramClientRefuses a server that asks for what is unsafe, or can't prove itself.
func TestScramClientRefuses(t *testing.T) {
	keys, err := NewScram(ScramSHA256, "alice", "secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ what, challenge string }{
		{"one iteration", "r=NONCEx,s=AAAA,i=1"},
		{"a million and one", "r=NONCEx,s=AAAA,i=1000001"},
		{"more than fits", "r=NONCEx,s=AAAA,i=99999999999999999999"},
		{"two numbers", "r=NONCEx,s=AAAA,i=4096,i=2000000"},
		{"another nonce", "r=other,s=AAAA,i=4096"},
		{"no salt", "r=NONCEx,i=4096"},
		{"nothing", ""},
		{"an extension", "m=x,r=NONCEx,s=AAAA,i=4096"},
	} {
		c := keys.Begin(nil)
		start, err := c.Start()
		if err != nil {
			t.Fatal(err)
		}
		_, nonce, _ := strings.Cut(string(start), ",r=")
		if _, err := c.Answer([]byte(strings.ReplaceAll(tc.challenge, "NONCE", nonce))); !errors.Is(err, ErrServer) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	for _, proof := range []string{"", "v=AAAA", "e=invalid-proof", "x"} {
		c := keys.Begin(nil)
		s, _ := NewScramServer(ScramSHA256, nil, directory(t, map[string]Password{"alice": "secret"}))
		start, _ := c.Start()
		challenge, _, err := s.Step(start)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Answer(challenge); err != nil {
			t.Fatal(err)
		}
		if err := c.Verify([]byte(proof)); !errors.Is(err, ErrServer) {
			t.Errorf("proof %q: %v", proof, err)
		}
	}
}

func TestKnownPasswords(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "secret"})
	u, _ := find("alice")
	if !Matches("secret", &u.Keys) || Matches("secreT", &u.Keys) {
		t.Fatal("the password must match, and no other")
	}
	k := NewKnown([32]byte{1})
	if k.Has(&u, "secret") {
		t.Error("known before it was right")
	}
	k.Add(&u, "secret")
	if !k.Has(&u, "secret") || k.Has(&u, "Secret") || k.Has(&u, "") {
		t.Error("want the last right password known, and no other")
	}
	changed := u
	changed.Keys.Salt[0]++
	if k.Has(&changed, "secret") {
		t.Error("still known with other keys")
	}
	if h := NewKnown([32]byte{2}); h.hash(&u.Keys, "secret") == k.hash(&u.Keys, "secret") {
		t.Error("the hash doesn't hang on the process's key")
	}
}

func TestCertificateUser(t *testing.T) {
	find := directory(t, map[string]Password{"alice": "x", "bob": "x", "app.example.org": "x"})
	for _, tc := range []struct {
		asked string
		names []string
		want  string
	}{
		{"", []string{"app.example.org", "host.example.org"}, "app.example.org"},
		{"", []string{"alice", "alice"}, "alice"},
		{"bob", []string{"alice", "bob"}, "bob"},
		{"", []string{"alice", "bob"}, ""},
		{"", []string{"Alice", "APP.example.org", "*.example.org", "", "\x00"}, ""},
		{"", []string{"ali\u00adce"}, ""}, // SASLprep would make it alice
		{"", nil, ""},
		{"bob", []string{"alice"}, ""},
		{"host", []string{"host", "alice"}, ""},
	} {
		u, err := CertificateUser(tc.asked, tc.names, find)
		if u.Name != tc.want || (tc.want == "") != errors.Is(err, ErrDenied) {
			t.Errorf("asked %q of %q: %q, %v; want %q", tc.asked, tc.names, u.Name, err, tc.want)
		}
	}
}

func TestLockout(t *testing.T) {
	l := NewLockout()
	now := time.Unix(1000, 0)
	for range freeGuesses {
		l.Failed("alice", "a", now)
	}
	if w := l.Wait("alice", "a", now); w != 0 {
		t.Fatalf("%v after %d failures", w, freeGuesses)
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		l.Failed("alice", "a", now)
		if w := l.Wait("alice", "a", now); w != want*time.Second {
			t.Errorf("wait %v, want %v s", w, int(want))
		}
	}
	if l.Wait("alice", "b", now) != 0 || l.Wait("bob", "a", now) != 0 {
		t.Error("others are locked out")
	}
	if l.Wait("alice", "a", now.Add(time.Minute)) != 0 {
		t.Error("the wait doesn't end")
	}
	l.Failed("alice", "a", now.Add(forgetAfter+time.Second))
	if l.Wait("alice", "a", now.Add(forgetAfter+time.Second)) != 0 {
		t.Error("old failures count")
	}
	for range 10 {
		l.Failed("alice", "a", now)
	}
	l.Passed("alice", "a")
	if l.Wait("alice", "a", now) != 0 {
		t.Error("who got in still waits")
	}
	for i := range maxLockouts + 10 {
		l.Failed(fmt.Sprint(i), "a", now.Add(time.Duration(i)))
	}
	if n := len(l.failures); n != maxLockouts {
		t.Errorf("%d pairs are remembered", n)
	}
	if _, ok := l.failures[lockoutKey{"0", "a"}]; ok {
		t.Error("the oldest is remembered")
	}
}
