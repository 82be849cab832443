package client

import (
	"time"

	"github.com/oncemq/oncemq/internal/engine"
)

// Config is who the client is and how it moves. The driver has filled in the defaults where not said otherwise.
type Config struct {
	// Addrs are tried in order, host:port.
	Addrs []string
	// ContainerID, Nonce: who this process is. Random numbers are drawn from Seed alone.
	ContainerID string
	Nonce       [16]byte
	Seed        uint64
	// Mechanisms makes the SASL mechanisms of one connection, the most wanted first; nil: ANONYMOUS.
	Mechanisms func() []engine.SASLMechanism
	// Hostname goes into Open, if not empty.
	Hostname string
	// IdleTimeout is how long a node may be silent although nothing is due.
	IdleTimeout time.Duration
	// Silence is how long while an answer is due.
	Silence time.Duration
	// MinBackoff and MaxBackoff bound the waits between rounds of dials; MaxElapsed, if not 0, is after how long without a connection the client gives up.
	MinBackoff, MaxBackoff, MaxElapsed time.Duration
	// IgnoreServerList: only Addrs are tried, not what nodes name beside them.
	IgnoreServerList bool
	// Version goes into Open.
	Version string
}

func (c Config) withDefaults() Config {
	def := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.IdleTimeout, 20*time.Second)
	def(&c.Silence, 2*time.Second)
	def(&c.MinBackoff, 20*time.Millisecond)
	def(&c.MaxBackoff, 5*time.Second)
	c.MaxBackoff = max(c.MaxBackoff, c.MinBackoff)
	return c
}
