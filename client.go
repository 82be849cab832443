package oncemq

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Config is how a Client connects. The zero value is usable; Dial copies and validates it.
type Config struct {
	// TLS is for amqps:// and wss:// addresses; nil: what the three files say. Nothing below TLS 1.3 is spoken, whatever it says.
	TLS *tls.Config
	// CAFile has the certificates, in PEM form, that sign the nodes'; empty: the system's. CertFile and KeyFile are the client's own
	// certificate and key, both empty for none. All are read at each dial. They exclude TLS and need amqps:// or wss:// addresses.
	CAFile, CertFile, KeyFile string
	// Credentials; zero: who the client's certificate says (SASL EXTERNAL) or, without one, SASL ANONYMOUS.
	Credentials Credentials
	// ClientID is the AMQP container-id; empty: a random one. Two processes must not share one. A process that
	// starts anew under its former ClientID gets what its former life had reserved at once (C6).
	ClientID string
	// IdleTimeout is how long a node may be silent although nothing is due before it is given up (default 20 s).
	IdleTimeout time.Duration
	// Failover says how the client moves between addresses.
	Failover Failover
	// OnEvent is told what happens to the connection, in order, from one goroutine; it must not block. May be nil.
	OnEvent func(Event)
	// Logger gets what no caller is told, at levels Debug and Warn; nil: nothing is logged.
	Logger *slog.Logger
	// DialContext replaces net.Dialer.DialContext, for proxies and tests; addr is host:port. TLS goes on top of it.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Credentials say who the client is.
type Credentials struct {
	// User and Password as the broker knows them. They go by SCRAM-SHA-256 or SCRAM-SHA-512, so that neither the node nor anybody
	// between sees the password, and a node that doesn't know it is found out. A User without a Password chooses among the names of
	// the client's certificate (SASL EXTERNAL).
	User, Password string
	// Plain sends the password as it is (SASL PLAIN): refused unless the addresses are amqps:// or wss://.
	Plain bool
}

// String hides the password.
func (c Credentials) String() string {
	return fmt.Sprintf("{User: %q, Password: hidden, Plain: %v}", c.User, c.Plain)
}

// GoString hides the password.
func (c Credentials) GoString() string { return c.String() }

// Failover says how a client moves between its addresses. A dial that fails tries the next address at once; after a whole
// round the client waits, doubling from MinBackoff to MaxBackoff, jittered.
type Failover struct {
	// Shuffle begins at a random address instead of the first and goes on in random order.
	Shuffle bool
	// IgnoreServerList has the client keep to the addresses that it was given. Else it adds those that nodes name of each other (AMQP's
	// failover-server-list), which a client can't use that reaches them through a tunnel, a proxy or a load balancer.
	IgnoreServerList bool
	// MinBackoff and MaxBackoff bound the waits (defaults 20 ms and 5 s).
	MinBackoff, MaxBackoff time.Duration
	// MaxElapsed is after how long without a connection the client gives up and closes; 0: never.
	MaxElapsed time.Duration
	// ConnectTimeout bounds one dial with its TLS handshake (default 2 s).
	ConnectTimeout time.Duration
	// Silence is after how long without a byte, while an answer is due, a node is given up and another takes over (default 2 s, the
	// contract's; nodes send a sign of life every 500 ms).
	Silence time.Duration
}

// Client is a connection to a cluster that moves between nodes. It is safe for concurrent use.
type Client struct{ d *driver }

// ClientID is the container-id in use.
func (c *Client) ClientID() string { return c.d.cfg.ClientID }

// Addr is the address of the node that the client is connected to, empty while there is none.
func (c *Client) Addr() string {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return c.d.core.Addr()
}

// Close ends all sessions, closes the connection and waits until all goroutines are gone; when ctx ends first, the socket is closed
// without the exchange. Operations under way end with ErrClosed or, where that isn't known, ErrOutcomeUnknown. It must not be called from OnEvent.
func (c *Client) Close(ctx context.Context) error {
	d := c.d
	ctx, cancel := bounded(ctx)
	defer cancel()
	d.mu.Lock()
	d.core.Close(time.Now())
	d.after()
	d.mu.Unlock()
	var err error
	select {
	case <-d.done:
	case <-ctx.Done():
		err = ctx.Err()
		d.mu.Lock()
		d.core.Abort()
		d.after()
		d.mu.Unlock()
	}
	d.wg.Wait()
	return err
}
