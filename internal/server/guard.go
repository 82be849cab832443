package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/auth"
)

// Users is where a listener looks users up.
type Users interface {
	// FindUser finds a user by its prepared name, behind a read barrier; auth.Unknown where there is none, or none with a
	// password. An error means that no barrier could be had: the client is told to try another node (C16). It ends with ctx.
	FindUser(ctx context.Context, name string) (auth.User, error)
}

// guard is what all connections of a node share in checking passwords.
type guard struct {
	// rounds holds a value for each check that runs through PBKDF2 now.
	rounds chan struct{}

	mu      sync.Mutex // guards everything below
	lockout *auth.Lockout
	known   *auth.Known
}

func newGuard() *guard {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return &guard{
		rounds: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), lockout: auth.NewLockout(), known: auth.NewKnown(key),
	}
}

// check is nil if p is the password of u, else auth.ErrDenied or, where ctx ends first, auth.ErrLater. An unknown user costs as
// much as a wrong password.
func (g *guard) check(ctx context.Context, u *auth.User, p auth.Password) error {
	g.mu.Lock()
	known := u.Exists && g.known.Has(u, p)
	g.mu.Unlock()
	if known {
		return nil
	}
	select {
	case g.rounds <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: too many passwords are being checked", auth.ErrLater)
	}
	matches := auth.Matches(p, &u.Keys)
	<-g.rounds
	if !matches || !u.Exists {
		return fmt.Errorf("%w: wrong password", auth.ErrDenied)
	}
	g.mu.Lock()
	g.known.Add(u, p)
	g.mu.Unlock()
	return nil
}

func (g *guard) wait(user, addr string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lockout.Wait(user, addr, now)
}

func (g *guard) failed(user, addr string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lockout.Failed(user, addr, now)
}

func (g *guard) passed(user, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lockout.Passed(user, addr)
}
