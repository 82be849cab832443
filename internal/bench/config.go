package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq"
)

// ErrConfig is wrapped by Validate's errors.
var ErrConfig = errors.New("oncemq: wrong bench setting")

// Config says what to measure, and against which cluster.
type Config struct {
	// URLs is the address list for clients.
	URLs string
	// Admin are the nodes' admin ports, host:port; raw needs the leader's.
	Admin []string
	// Queue is the queue to use; transfer moves to the queue of that name with ".to".
	Queue string
	// Connections is how many connections share the load.
	Connections int
	// Sessions is how many sessions over all connections work at once (recv, tx, transfer).
	Sessions int
	// Outstanding is how many sends over all connections are under way (send), or how
	// many writers there are (raw).
	Outstanding int
	// Size is the size of a message's body, or of a raw command's payload, in bytes.
	Size int
	// Duration is how long is measured, after a warm-up of half a second.
	Duration time.Duration
}

// bounded is a flag's value, and what it may be.
type bounded struct {
	flag            string
	value, low, max int
}

// within returns an error for the first value that is out of its bounds.
func within(values ...bounded) error {
	for _, v := range values {
		if v.value < v.low || v.value > v.max {
			return fmt.Errorf("%w: --%s %d: allowed: %d to %d", ErrConfig, v.flag, v.value, v.low, v.max)
		}
	}
	return nil
}

// Validate says which value is wrong, why, and what is allowed.
func (c Config) Validate() error {
	err := within(
		bounded{"connections", c.Connections, 1, 1000},
		bounded{"sessions", c.Sessions, 1, 10_000},
		bounded{"outstanding", c.Outstanding, 1, 4096},
		bounded{"size", c.Size, 0, 200_000},
	)
	if err != nil {
		return err
	}
	if c.Duration < 100*time.Millisecond || c.Duration > 10*time.Minute {
		return fmt.Errorf("%w: --duration %v: allowed: 100ms to 10m", ErrConfig, c.Duration)
	}
	return nil
}

// callTimeout bounds one call: longer than any failover.
const callTimeout = 30 * time.Second

// clients are the connections of one run.
type clients []*oncemq.Client

// dial opens n connections, all to the first address that answers.
func dial(ctx context.Context, urls string, n int) (cs clients, err error) {
	for range n {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		c, err := oncemq.Dial(call, urls, nil)
		cancel()
		if err != nil {
			cs.close()
			return nil, fmt.Errorf("connecting to %s: %w", urls, err)
		}
		cs = append(cs, c)
	}
	return cs, nil
}

func (cs clients) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range cs {
		c.Close(ctx) // a connection that doesn't end properly changes no measurement
	}
}
