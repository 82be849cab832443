package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config says what to run.
type Config struct {
	// Binary is the oncemq executable.
	Binary string
	// Dir holds data and logs of the nodes; empty: a new temporary directory. It must
	// be empty or not exist. It is removed when every check passed.
	Dir string
	// Duration is how long orders are produced.
	Duration time.Duration
	// Seed chooses the events.
	Seed uint64
	// Rate is the number of orders a second, at most: a backlog holds producers back.
	Rate int
	// KillMin and KillMax bound the time between two events.
	KillMin, KillMax time.Duration
	// NoKill leaves the events out.
	NoKill bool
	// SafetyOff runs the nodes with --safety off.
	SafetyOff bool
}

// ErrConfig is wrapped by Validate's errors.
var ErrConfig = errors.New("oncemq: wrong demo setting")

// Validate says which value is wrong, why, and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Duration < time.Second || c.Duration > 24*time.Hour:
		return fmt.Errorf("%w: --duration %v: allowed: 1s to 24h", ErrConfig, c.Duration)
	case c.Rate < 1 || c.Rate > 100_000:
		return fmt.Errorf("%w: --rate %d: allowed: 1 to 100000 orders a second", ErrConfig, c.Rate)
	case c.KillMin < 100*time.Millisecond || c.KillMax < c.KillMin:
		return fmt.Errorf("%w: --kill-every %v-%v: allowed: two times such as 3s-5s, the first at least 100ms and not above the second", ErrConfig, c.KillMin, c.KillMax)
	}
	return nil
}

// ParseKillEvery reads "3s-5s" or "4s".
func ParseKillEvery(text string) (low, high time.Duration, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		b = a
	}
	low, errLow := time.ParseDuration(a)
	high, errHigh := time.ParseDuration(b)
	if errLow != nil || errHigh != nil {
		return 0, 0, fmt.Errorf("%w: --kill-every %q: not a time or a range of times; allowed: such as 3s-5s", ErrConfig, text)
	}
	return low, high, nil
}
