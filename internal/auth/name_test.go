package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

func TestName(t *testing.T) {
	for raw, want := range map[string]string{
		"alice": "alice", "A.b-c_d@e": "A.b-c_d@e", "jose\u0301": "jos\u00e9", "a\u00adb": "ab", "\u2168": "IX", "a b": "a b",
		strings.Repeat("n", command.MaxUserName): strings.Repeat("n", command.MaxUserName),
		"":                                       "", "\u00ad": "", "a\x00b": "", "a\nb": "", "\x7f": "", "\xff": "", "\ue000": "", "\u0627\u0031": "",
		"ANONYMOUS": "", strings.Repeat("n", command.MaxUserName+1): "", strings.Repeat("n", 1<<20): "",
	} {
		got, err := Name(raw)
		if got != want || (want == "") != errors.Is(err, ErrName) {
			t.Errorf("%.40q: %q, %v; want %q", raw, got, err, want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%.40q: the error isn't one line: %q", raw, err)
		}
	}
}

func TestPassword(t *testing.T) {
	for _, bad := range []Password{"", "\x00", "a\nb", "\xff", Password(strings.Repeat("p", MaxPassword+1)), "\u00ad"} {
		_, err := NewKeys(bad, [16]byte{}, rounds)
		if !errors.Is(err, ErrPassword) || bad != "" && strings.Contains(err.Error(), string(bad)) {
			t.Errorf("%.20q: %v", string(bad), err)
		}
	}
	p := Password("hunter2")
	enc, err := json.Marshal(map[string]any{"p": p})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s %q %x", p, p, p, p, p, p), fmt.Sprintf("%+v", struct{ P Password }{p}), string(enc)} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("the password is shown: %s", text)
		}
	}
}

// FuzzName: what Name gives is stable and within its bounds.
func FuzzName(f *testing.F) {
	for _, s := range []string{"alice", "jose\u0301", "a,b=c", "\u0627\u0031", "\xff", "a\u00adb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		name, err := Name(raw)
		if err != nil {
			return
		}
		if name == "" || len(name) > command.MaxUserName {
			t.Fatalf("%q gives %q", raw, name)
		}
		if again, err := Name(name); err == nil && again != name {
			t.Fatalf("%q gives %q, that gives %q", raw, name, again)
		}
	})
}

// FuzzScramServer: a client may say what it likes, and is never let in with it.
func FuzzScramServer(f *testing.F) {
	f.Add("n,,n=alice,r=abc", "c=biws,r=abc,p=AAAA")
	f.Add("y,a=bob,n=a=2Cb,r=", "")
	f.Add("p=tls-exporter,,n=x,r=y,z", "c=,r=,p=")
	find := directory(f, map[string]Password{"alice": "secret"})
	f.Fuzz(func(t *testing.T, first, final string) {
		s, err := NewScramServer(ScramSHA256, nil, find)
		if err != nil {
			t.Fatal(err)
		}
		if _, done, err := s.Step([]byte(first)); err != nil || done {
			if err == nil {
				t.Fatalf("let in by %q", first)
			}
			return
		}
		if _, done, err := s.Step([]byte(final)); !done || !errors.Is(err, ErrDenied) {
			t.Fatalf("%q, %q: done %v, %v", first, final, done, err)
		}
	})
}

// FuzzScramClient: a server may say what it likes; without the password it is never
// believed.
func FuzzScramClient(f *testing.F) {
	f.Add("x,s=AAAA,i=4096", "v=AAAA")
	f.Add(",s=,i=0", "e=other-error")
	keys, err := NewScram(ScramSHA256, "alice", "secret")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, behindNonce, final string) {
		if iterations(behindNonce) > 5000 {
			return // slow, and no other way
		}
		c := keys.Begin(nil)
		start, err := c.Start()
		if err != nil {
			t.Fatal(err)
		}
		_, nonce, _ := strings.Cut(string(start), ",r=")
		if _, err := c.Answer([]byte("r=" + nonce + behindNonce)); err != nil {
			return
		}
		if c.Verify([]byte(final)) == nil {
			t.Fatalf("%q, %q: believed", behindNonce, final)
		}
	})
}
