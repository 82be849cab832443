package certs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	tok := NewToken([32]byte{1, 2}, []string{"10.0.0.1:7000", "[::1]:7001", "mq3.example.org:7000"})
	text := tok.Text()
	if strings.ContainsAny(text, " \n") {
		t.Errorf("%q isn't one line", text)
	}
	got, err := ParseToken(" " + text + "\n")
	if err != nil || got.Secret != tok.Secret || got.Authority != tok.Authority || strings.Join(got.Addresses, ",") != strings.Join(tok.Addresses, ",") {
		t.Errorf("%+v, %v", got.Addresses, err)
	}
	if other := NewToken([32]byte{1, 2}, tok.Addresses); other.Hash() == tok.Hash() || other.Secret == tok.Secret {
		t.Error("two tokens are the same")
	}
	shown, _ := json.Marshal(tok)
	secret := text[len(tokenMark)+2 : len(tokenMark)+20]
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s", tok, tok, tok, tok), string(shown)} {
		if strings.Contains(s, secret) || strings.Contains(s, fmt.Sprint(tok.Secret[0], tok.Secret[1])) {
			t.Errorf("the secret is shown: %s", s)
		}
	}
	for i := len(tokenMark); i < len(text); i++ {
		flipped := text[:i] + string(text[i]^1) + text[i+1:]
		if got, err := ParseToken(flipped); err == nil && got.Text() != text {
			t.Fatalf("byte %d changed is taken: %v", i, got.Addresses)
		}
		if _, err := ParseToken(text[:i]); !errors.Is(err, ErrToken) || strings.Contains(err.Error(), secret) {
			t.Fatalf("%d bytes of it: %v", i, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add(NewToken([32]byte{}, []string{"127.0.0.1:7000"}).Text())
	f.Add(tokenMark)
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := ParseToken(text)
		if err != nil {
			if !errors.Is(err, ErrToken) {
				t.Error(err)
			}
			return
		}
		again, err := ParseToken(tok.Text())
		if err != nil || again.Hash() != tok.Hash() || len(again.Addresses) != len(tok.Addresses) {
			t.Errorf("%v, %v", again, err)
		}
	})
}
