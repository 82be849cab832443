package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/command"
)

// fakeUsers is a Users whose answers a test sets.
type fakeUsers struct {
	all    []User
	effect command.Effect
	err    error
	asked  string
}

func (u *fakeUsers) Users(context.Context) ([]User, error) { return u.all, u.err }

func (u *fakeUsers) PutUser(_ context.Context, rule command.UserRule, name string, p *auth.Password) (command.Effect, error) {
	u.asked = fmt.Sprintf("put %d %s none", rule, name)
	if p != nil {
		u.asked = fmt.Sprintf("put %d %s %s", rule, name, string(*p))
	}
	return u.effect, u.err
}

func (u *fakeUsers) DeleteUser(_ context.Context, name string) (command.Effect, error) {
	u.asked = "delete " + name
	return u.effect, u.err
}

func TestUserRequests(t *testing.T) {
	refused := func(condition string) command.Effect {
		return command.Effect{Refusal: &command.Refusal{Condition: condition, Description: "said so"}}
	}
	const body = `{"password":"hunter2"}`
	for _, tc := range []struct {
		name, method, path, body string
		users                    fakeUsers
		code                     int
		says, asks               string
	}{
		{name: "add", method: "PUT", path: "/api/v1/users/alice", body: body, code: 201, asks: "put 1 alice hunter2"},
		{name: "add without a password", method: "PUT", path: "/api/v1/users/app", body: `{"password":null}`, code: 201, asks: "put 1 app none"},
		{name: "an empty password is one", method: "PUT", path: "/api/v1/users/app", body: `{"password":""}`, code: 201, asks: "put 1 app "},
		{name: "add again", method: "PUT", path: "/api/v1/users/alice", body: body, users: fakeUsers{effect: refused("amqp:precondition-failed")}, code: 409, says: "said so"},
		{name: "change", method: "PUT", path: "/api/v1/users/alice/password", body: body, code: 200, asks: "put 2 alice hunter2"},
		{name: "change of nobody", method: "PUT", path: "/api/v1/users/bob/password", body: body, users: fakeUsers{effect: refused("amqp:not-found")}, code: 404, says: "said so"},
		{name: "delete", method: "DELETE", path: "/api/v1/users/a%2Fb", code: 200, asks: "delete a/b"},
		{name: "a bad name", method: "PUT", path: "/api/v1/users/x", body: body, users: fakeUsers{err: fmt.Errorf("%w: bad", auth.ErrName)}, code: 400, says: "bad"},
		{name: "a bad password", method: "PUT", path: "/api/v1/users/x", body: body, users: fakeUsers{err: fmt.Errorf("%w: bad", auth.ErrPassword)}, code: 400, says: "bad"},
		{name: "no quorum", method: "PUT", path: "/api/v1/users/x", body: body, users: fakeUsers{err: errors.New("no quorum")}, code: 503, says: "may have taken effect"},
		{name: "list without quorum", method: "GET", path: "/api/v1/users", users: fakeUsers{err: errors.New("no quorum")}, code: 503, says: "no quorum"},
		{name: "no body", method: "PUT", path: "/api/v1/users/x", code: 400, says: "password"},
		{name: "no field", method: "PUT", path: "/api/v1/users/x", body: `{}`, code: 400, says: "password"},
		{name: "a misspelt field", method: "PUT", path: "/api/v1/users/x", body: `{"passwort":"hunter2"}`, code: 400, says: "password"},
		{name: "another field", method: "PUT", path: "/api/v1/users/x", body: `{"password":"hunter2","admin":"true"}`, code: 400, says: "password"},
		{name: "not JSON", method: "PUT", path: "/api/v1/users/x", body: `hunter2`, code: 400, says: "password"},
		{name: "a number", method: "PUT", path: "/api/v1/users/x", body: `{"password":12345}`, code: 400, says: "password"},
		{name: "too much", method: "PUT", path: "/api/v1/users/x", body: `{"password":"` + strings.Repeat("p", 5000) + `"}`, code: 400, says: "password"},
		{name: "GET of one", method: "GET", path: "/api/v1/users/x", code: 405, says: "DELETE, PUT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "http://127.0.0.1:8161"+tc.path, strings.NewReader(tc.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			Handler(Config{Node: &fakeNode{}, Users: &tc.users}).ServeHTTP(w, r)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.says) {
				t.Errorf("%d %s; want %d and %q", w.Code, w.Body, tc.code, tc.says)
			}
			if strings.Contains(w.Body.String(), "hunter2") {
				t.Errorf("the answer has the password: %s", w.Body)
			}
			if tc.asks != "" && tc.users.asked != tc.asks || tc.code == 400 && tc.says == "password" && tc.users.asked != "" {
				t.Errorf("asked %q, want %q", tc.users.asked, tc.asks)
			}
		})
	}
}

// TestFormsAreRefused: what a page can send without asking the browser first.
func TestFormsAreRefused(t *testing.T) {
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		r := httptest.NewRequest(http.MethodPut, "http://127.0.0.1:8161/api/v1/users/x", strings.NewReader(`{"password":"p"}`))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		u := &fakeUsers{}
		if Handler(Config{Node: &fakeNode{}, Users: u}).ServeHTTP(w, r); w.Code != 400 || u.asked != "" {
			t.Errorf("%q: %d, asked %q", kind, w.Code, u.asked)
		}
	}
}

func TestListUsers(t *testing.T) {
	for want, all := range map[string][]User{
		`{"users":[]}`: nil,
		`{"users":[{"name":"alice","password":true,"changed":"2026-01-02T03:04:05Z"}]}`: {{"alice", true, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
	} {
		w := httptest.NewRecorder()
		Handler(Config{Node: &fakeNode{}, Users: &fakeUsers{all: all}}).ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8161/api/v1/users", nil))
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
			t.Errorf("%d %s, want %s", w.Code, got, want)
		}
	}
}

// FuzzPassword: whatever the body, no answer repeats a part of it but in the name's place.
func FuzzPassword(f *testing.F) {
	f.Add(`{"password":"secret-word"}`)
	f.Add(`{"password":null}`)
	f.Add(`{"password":"a","password":"b"}`)
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		p, err := passwordOf(r)
		if err != nil && (p != nil || err != errBody) {
			t.Fatalf("%q: %v", body, err)
		}
		if err == nil && !json.Valid([]byte(body)) {
			t.Fatalf("%q was taken", body)
		}
	})
}
