package auth

import "time"

// The rules of lock-out.
const (
	// freeGuesses are the failures without a consequence.
	freeGuesses = 3
	// firstWait is what the next one costs; it doubles up to maxWait.
	firstWait = time.Second
	maxWait   = time.Minute
	// forgetAfter is when a pair's failures are forgotten.
	forgetAfter = 15 * time.Minute
	// maxLockouts bounds the pairs that are remembered.
	maxLockouts = 10_000
)

// Lockout slows down guessing: after three failures of a user from one address both
// together have to wait, longer each time. Whoever waits gets no check, hence no "no"
// either, but "later" (C16). A user elsewhere, and another user of that address, are not
// touched, so that nobody can lock others out. It isn't safe for concurrent use.
type Lockout struct {
	failures map[lockoutKey]failures
}

type lockoutKey struct{ user, addr string }

type failures struct {
	count int
	last  time.Time
	until time.Time
}

// NewLockout remembers nothing yet.
func NewLockout() *Lockout { return &Lockout{failures: make(map[lockoutKey]failures)} }

// Wait is how long user, existing or not, has still to wait at addr; 0: it may try.
func (l *Lockout) Wait(user, addr string, now time.Time) time.Duration {
	return max(0, l.failures[lockoutKey{user, addr}].until.Sub(now))
}

// Failed notes a failure.
func (l *Lockout) Failed(user, addr string, now time.Time) {
	k := lockoutKey{user, addr}
	f := l.failures[k]
	if now.Sub(f.last) > forgetAfter {
		f = failures{}
	}
	f.count, f.last = f.count+1, now
	if over := f.count - freeGuesses; over > 0 {
		f.until = now.Add(min(maxWait, firstWait<<min(over-1, 10)))
	}
	if f.count == 1 && len(l.failures) >= maxLockouts {
		l.makeRoom(now)
	}
	l.failures[k] = f
}

// makeRoom forgets what is old, or else the oldest.
func (l *Lockout) makeRoom(now time.Time) {
	var oldest lockoutKey
	var at time.Time
	for k, f := range l.failures {
		if now.Sub(f.last) > forgetAfter {
			delete(l.failures, k)
		} else if at.IsZero() || f.last.Before(at) {
			oldest, at = k, f.last
		}
	}
	if len(l.failures) >= maxLockouts {
		delete(l.failures, oldest)
	}
}

// Passed forgets the failures of a user who got in.
func (l *Lockout) Passed(user, addr string) { delete(l.failures, lockoutKey{user, addr}) }
