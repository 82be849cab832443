package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// ErrNoUser refuses to serve others than this machine while nobody could log in.
var ErrNoUser = errors.New("oncemq: there is no user")

// users is the replicated users as packages server and admin want them.
type users struct {
	replica *replica.Replica
	logger  *slog.Logger
	// making holds a value while keys are made: the rounds of PBKDF2 take a core.
	making chan struct{}
}

// FindUser implements server.Users.
func (u *users) FindUser(ctx context.Context, name string) (auth.User, error) {
	// fn may still run after ctx has ended, so it writes to a channel.
	found := make(chan auth.User, 1)
	err := u.replica.Read(ctx, func(m *state.Machine) {
		info, ok := m.User(name)
		if !ok || info.Keys.None() {
			x := auth.Unknown(m.UserSeed(), name)
			x.Exists = ok
			found <- x
			return
		}
		found <- auth.User{Name: info.Name, Keys: info.Keys, Exists: true}
	})
	if err != nil {
		return auth.User{}, err
	}
	return <-found, nil
}

// Users implements admin.Users.
func (u *users) Users(ctx context.Context) ([]admin.User, error) {
	found := make(chan []admin.User, 1)
	err := u.replica.Read(ctx, func(m *state.Machine) {
		var all []admin.User
		for _, info := range m.Users() {
			all = append(all, admin.User{Name: info.Name, Password: !info.Keys.None(), Changed: time.UnixMilli(info.Changed).UTC()})
		}
		found <- all
	})
	if err != nil {
		return nil, err
	}
	return <-found, nil
}

// PutUser implements admin.Users: this is where a password ends and keys begin.
func (u *users) PutUser(ctx context.Context, rule command.UserRule, name string, password *auth.Password) (command.Effect, error) {
	c := &command.UserPut{Rule: rule}
	var err error
	if c.Name, err = auth.Name(name); err != nil {
		return command.Effect{}, err
	}
	_, _ = rand.Read(c.Seed[:]) // never fails
	if password != nil {
		var salt [16]byte
		_, _ = rand.Read(salt[:])
		select {
		case u.making <- struct{}{}:
		case <-ctx.Done():
			return command.Effect{}, ctx.Err()
		}
		c.Keys, err = auth.NewKeys(*password, salt, auth.Iterations)
		<-u.making
		if err != nil {
			return command.Effect{}, err
		}
	}
	what := "a user was made"
	if rule == command.UserChange {
		what = "a user's password was changed"
	}
	return u.request(ctx, what, c.Name, c)
}

// request proposes a change and logs it, done or not.
func (u *users) request(ctx context.Context, what, name string, c command.Command) (command.Effect, error) {
	e, err := u.replica.Request(ctx, c)
	switch {
	case err != nil:
		u.logger.Warn("perhaps "+what, "user", name, "error", err)
	case e.Refusal == nil:
		u.logger.Info(what, "user", name)
	}
	return e, err
}

// DeleteUser implements admin.Users.
func (u *users) DeleteUser(ctx context.Context, name string) (command.Effect, error) {
	prepared, err := auth.Name(name)
	if err != nil {
		return command.Effect{}, err
	}
	return u.request(ctx, "a user was deleted", prepared, &command.UserDelete{Name: prepared})
}

// check refuses a listener that others can reach while there is no user.
func (u *users) check(ctx context.Context, exposed bool) error {
	all, err := u.Users(ctx)
	switch {
	case err != nil || len(all) > 0:
		return err
	case exposed:
		return fmt.Errorf(`%w, so nobody could log in at a listener that others can reach: start with --listen 127.0.0.1:5672 alone, make one by "oncemq user add NAME", and start again`, ErrNoUser)
	}
	u.logger.Warn(`there is no user yet, so nobody can log in; "oncemq user add NAME" makes one`)
	return nil
}

// access permits every user everything: there are no rights yet. ANONYMOUS is let in by
// --dev alone, which package frontend knows about.
func access(principal string) bool { return principal != command.Anonymous }
