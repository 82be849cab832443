package oncemq

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/engine"
)

// Dial connects to the first of the addresses that answers: "amqp://mq1:5672,mq2:5672,mq3:5672", or amqps:// with TLS, or ws:// and
// wss:// for AMQP over WebSocket; ports default to 5672, 5671, 80 and 443. It tries them all until ctx ends. cfg may be nil. An answer that no other node would give differently, such as wrong
// credentials, ends it at once.
func Dial(ctx context.Context, urls string, cfg *Config) (*Client, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	addrs, how, err := parseURLs(urls, &c)
	if err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	dialTLS, err := c.security(how.secure)
	if err != nil {
		return nil, err
	}
	mechanisms, err := c.mechanisms(how.secure)
	if err != nil {
		return nil, err
	}
	if c.Failover.Shuffle {
		mathrand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	}
	cl := newClient(c, addrs, how.web, dialTLS, mechanisms)
	if err := cl.d.wait(ctx, cl.d.up); err != nil {
		cl.d.mu.Lock()
		if last := cl.d.core.Err(); last != nil {
			err = fmt.Errorf("dial %s: %w (last: %w)", redacted(urls), err, public(last))
		}
		cl.d.core.Abort()
		cl.d.after()
		cl.d.mu.Unlock()
		cl.d.wg.Wait()
		return nil, err
	}
	cl.d.mu.Lock()
	over, err := cl.d.core.Over(), cl.d.core.Err()
	cl.d.mu.Unlock()
	if over {
		cl.d.wg.Wait()
		return nil, fmt.Errorf("dial %s: %w", redacted(urls), public(err))
	}
	return cl, nil
}

// complete validates the configuration and fills in what has no default elsewhere.
func (c *Config) complete() error {
	f := &c.Failover
	for name, v := range map[string]time.Duration{
		"IdleTimeout": c.IdleTimeout, "Failover.MinBackoff": f.MinBackoff, "Failover.MaxBackoff": f.MaxBackoff,
		"Failover.MaxElapsed": f.MaxElapsed, "Failover.ConnectTimeout": f.ConnectTimeout, "Failover.Silence": f.Silence,
	} {
		if v < 0 {
			return fmt.Errorf("oncemq: Config.%s is %v: it must not be negative (0 is the default)", name, v)
		}
	}
	if f.MaxBackoff > 0 && f.MaxBackoff < f.MinBackoff {
		return fmt.Errorf("oncemq: Config.Failover.MaxBackoff (%v) is less than MinBackoff (%v)", f.MaxBackoff, f.MinBackoff)
	}
	if f.ConnectTimeout == 0 {
		f.ConnectTimeout = 2 * time.Second
	}
	if err := checkName("Config.ClientID", c.ClientID); err != nil {
		return err
	}
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{}).DialContext
	}
	if c.ClientID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		c.ClientID = "oncemq-" + hex.EncodeToString(b[:])
	}
	return nil
}

func newClient(c Config, addrs []string, web bool, dialTLS func() (*tls.Config, error), mechanisms func(binding []byte) []engine.SASLMechanism) *Client {
	var seed [24]byte
	_, _ = rand.Read(seed[:]) // never fails
	d := &driver{cfg: c, web: web, tls: dialTLS, wake: make(chan struct{}, 1), done: make(chan struct{}), notify: make(chan struct{}, 1), up: newWaiter()}
	d.core = client.New(client.Config{
		Addrs: addrs, ContainerID: c.ClientID, Nonce: [16]byte(seed[:16]), Seed: binary.BigEndian.Uint64(seed[16:]),
		Mechanisms:  func() []engine.SASLMechanism { return mechanisms(d.binding) },
		IdleTimeout: c.IdleTimeout, Silence: c.Failover.Silence, IgnoreServerList: c.Failover.IgnoreServerList,
		MinBackoff: c.Failover.MinBackoff, MaxBackoff: c.Failover.MaxBackoff, MaxElapsed: c.Failover.MaxElapsed,
	}, time.Now())
	d.wg.Add(2)
	go d.run()
	go d.events()
	return &Client{d: d}
}

// transport is what a URL's scheme says of how to connect.
type transport struct {
	port   string // the default
	secure bool   // with TLS
	web    bool   // over WebSocket
}

var transports = map[string]transport{
	"amqp": {port: "5672"}, "amqps": {port: "5671", secure: true}, "ws": {port: "80", web: true}, "wss": {port: "443", secure: true, web: true},
}

// parseURLs reads the address list. User and password may stand in its first address.
func parseURLs(urls string, cfg *Config) (addrs []string, how transport, err error) {
	scheme, list, ok := strings.Cut(urls, "://")
	if !ok {
		scheme, list = "amqp", urls
	}
	if how, ok = transports[scheme]; !ok {
		return nil, how, fmt.Errorf("oncemq: address list %q: scheme %q: want amqp://, amqps://, ws:// or wss://", redacted(urls), scheme)
	}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if s, rest, ok := strings.Cut(item, "://"); ok {
			if s != scheme {
				return nil, how, fmt.Errorf("oncemq: address list %q mixes %s:// and %s://", redacted(urls), scheme, s)
			}
			item = rest
		}
		u, err := url.Parse("x://" + item)
		if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, how, fmt.Errorf("oncemq: address list %q: %q: want host or host:port", redacted(urls), redacted(item))
		}
		if u.User != nil && cfg.Credentials.User == "" {
			cfg.Credentials.User = u.User.Username()
			cfg.Credentials.Password, _ = u.User.Password()
		}
		p := u.Port()
		if p == "" {
			p = how.port
		}
		addrs = append(addrs, net.JoinHostPort(u.Hostname(), p))
	}
	if len(addrs) == 0 {
		return nil, how, errors.New("oncemq: the address list is empty")
	}
	return addrs, how, nil
}

// redacted keeps passwords out of errors.
func redacted(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "…" + s[i:]
	}
	return s
}
