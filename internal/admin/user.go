package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/command"
)

// Users is the users of the cluster as the API needs them. All methods are safe for
// concurrent use.
type Users interface {
	// Users lists all, by name, behind a read barrier.
	Users(ctx context.Context) ([]User, error)
	// PutUser makes a user or changes its password, as rule says; no password: the user
	// can only come with a certificate. A refusal is in the effect; errors that wrap
	// auth.ErrName or auth.ErrPassword are the caller's fault; others are about getting
	// an answer at all.
	PutUser(ctx context.Context, rule command.UserRule, name string, password *auth.Password) (command.Effect, error)
	// DeleteUser deletes a user and ends its connections.
	DeleteUser(ctx context.Context, name string) (command.Effect, error)
}

// User is one of the answer of GET /api/v1/users.
type User struct {
	Name string `json:"name"`
	// Password is false where the user can only come with a certificate.
	Password bool `json:"password"`
	// Changed is when the user was made or last changed.
	Changed time.Time `json:"changed"`
}

func (a *api) listUsers(w http.ResponseWriter, r *http.Request) {
	all, err := a.users.Users(r.Context())
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("users: %w; ask again, or another node", err))
		return
	}
	if all == nil {
		all = []User{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"users": all})
}

func (a *api) addUser(w http.ResponseWriter, r *http.Request) {
	a.putUser(w, r, command.UserNew, http.StatusCreated)
}

func (a *api) changePassword(w http.ResponseWriter, r *http.Request) {
	a.putUser(w, r, command.UserChange, http.StatusOK)
}

func (a *api) putUser(w http.ResponseWriter, r *http.Request, rule command.UserRule, code int) {
	password, err := passwordOf(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	name := r.PathValue("name")
	eff, err := a.users.PutUser(r.Context(), rule, name, password)
	if a.answeredUser(w, name, eff, err) {
		writeJSON(w, code, map[string]any{"name": name})
	}
}

func (a *api) deleteUser(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	eff, err := a.users.DeleteUser(r.Context(), name)
	if a.answeredUser(w, name, eff, err) {
		writeJSON(w, http.StatusOK, map[string]any{"name": name})
	}
}

// answeredUser writes the answer for everything but success.
func (a *api) answeredUser(w http.ResponseWriter, name string, eff command.Effect, err error) bool {
	switch {
	case errors.Is(err, auth.ErrName), errors.Is(err, auth.ErrPassword):
		writeError(w, http.StatusBadRequest, err)
	case err != nil:
		writeError(w, http.StatusServiceUnavailable,
			fmt.Errorf("user %.100q: %w; it may have taken effect or not: look at the list of users, here or at another node", name, err))
	case eff.Refusal != nil:
		writeError(w, refusalStatus(eff.Refusal), fmt.Errorf("user %.100q: %s (%s)", name, eff.Refusal.Description, eff.Refusal.Condition))
	default:
		return true
	}
	return false
}

// errBody never repeats what was sent: it has a password.
var errBody = errors.New(`the body isn't {"password": "..."} with Content-Type application/json; {"password": null} means that the user comes with a certificate only`)

// passwordOf reads a request's body; nil where it says null.
func passwordOf(r *http.Request) (*auth.Password, error) {
	const longest = 4 << 10
	text, err := io.ReadAll(io.LimitReader(r.Body, longest+1))
	if err != nil || len(text) > longest || r.Header.Get("Content-Type") != "application/json" {
		return nil, errBody
	}
	// By a map, as a misspelt field must not be taken for null.
	var fields map[string]*string
	if json.Unmarshal(text, &fields) != nil || len(fields) != 1 {
		return nil, errBody
	}
	clear, ok := fields["password"]
	switch {
	case !ok:
		return nil, errBody
	case clear == nil:
		return nil, nil
	}
	p := auth.Password(*clear)
	return &p, nil
}
