package client

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/oncemq/oncemq/internal/engine"
)

// Core is one client: at most one connection, and the sessions that survive it.
type Core struct {
	cfg Config
	rng *rand.Rand

	// phase is where the connection stands; serial names it and is the attempt number of its Open.
	phase   phase
	serial  uint32
	addrs   []string
	at      int // the present or next address
	dials   int // since the last connection was lost
	retryAt time.Time
	lostAt  time.Time // since when there is no connection
	ever    bool      // there was one

	// failures counts dials and connections in a row that brought nothing, takeovers the silent ones: both make the client wait.
	failures, takeovers int
	openedAt            time.Time
	progress            bool // this connection brought an answer: whatever ends it but the node's own refusal, the next dial is the first of its round

	sasl     *engine.SASLClient // nil once it is done
	saslSays bool               // it may have output
	conn     *engine.Conn

	// due: an answer is due since dueSince at the latest, so that silence after lastIn means something.
	due              bool
	dueSince, lastIn time.Time
	bulk             bool // more waited when output was taken last
	slept            bool // a Tick came too late, and nothing came since
	engineTick       time.Time

	sessions  []*Session
	asker     *asker
	closing   bool
	closeErr  error
	events    []Event
	nextEvent int
	lastErr   error
}

// New is a client that wants its first connection.
func New(cfg Config, now time.Time) *Core {
	c := &Core{cfg: cfg.withDefaults(), addrs: cfg.Addrs, lostAt: now}
	c.rng = rand.New(rand.NewPCG(cfg.Seed, binary.BigEndian.Uint64(cfg.Nonce[:])))
	if len(c.addrs) == 0 {
		c.fail(ErrNoAddress)
		return c
	}
	c.dial()
	return c
}

// ClientID is the container-id.
func (c *Core) ClientID() string { return c.cfg.ContainerID }

// Addr is the address that the client is connected to; empty while there is no open connection.
func (c *Core) Addr() string {
	if c.phase != phaseOpen {
		return ""
	}
	return c.addrs[c.at]
}

// Over says that the client is closed, with Err.
func (c *Core) Over() bool { return c.phase == phaseOver }

// Err is why the client is closed (nil after Close), or, while it has no connection, why the last one failed.
func (c *Core) Err() error {
	if c.phase == phaseOver {
		return c.closeErr
	}
	return c.lastErr
}

// live says that frames can be exchanged.
func (c *Core) live() bool { return c.phase == phaseOpen }

// uuid draws 16 bytes.
func (c *Core) uuid() (u [16]byte) {
	binary.BigEndian.PutUint64(u[:8], c.rng.Uint64())
	binary.BigEndian.PutUint64(u[8:], c.rng.Uint64())
	return u
}
