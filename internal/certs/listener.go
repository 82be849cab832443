package certs

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are a listener's PEM files.
type Files struct {
	// Cert and Key are the listener's own certificate, with its chain, and its key.
	Cert, Key string
	// ClientCA are certificates that sign clients'; empty: none is asked for. Clients
	// need not show one.
	ClientCA string
}

// lookEvery is how often the files are looked at, while there are handshakes.
const lookEvery = time.Second

// Listener gives a listener's configuration and keeps up with its files. It is safe for
// concurrent use and starts no goroutine: it looks when a handshake begins.
type Listener struct {
	files  Files
	logger *slog.Logger

	mu     sync.Mutex // guards everything below
	now    *tls.Config
	stamps [3]stamp
	bad    [3]stamp // what was complained about
	looked time.Time
}

// stamp tells one content of a file from another.
type stamp struct {
	changed time.Time
	size    int64
	info    os.FileInfo // for its identity; nil: not there
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.changed.Equal(o.changed) && s.size == o.size && os.SameFile(s.info, o.info)
}

// NewListener reads the files. Errors wrap ErrFiles. What goes wrong later is logged.
func NewListener(files Files, logger *slog.Logger) (*Listener, error) {
	l := &Listener{files: files, logger: logger, stamps: look(files), looked: time.Now()}
	var err error
	if l.now, err = load(files); err != nil {
		return nil, err
	}
	return l, nil
}

// Config is for tls.Server; what it says is decided at each handshake anew.
func (l *Listener) Config() *tls.Config {
	c := base()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.current(time.Now()), nil }
	return c
}

// current is the configuration as the files are, looked at once in lookEvery.
func (l *Listener) current(now time.Time) *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.looked) < lookEvery {
		return l.now
	}
	l.looked = now
	found := look(l.files)
	if same(found, l.stamps) {
		return l.now
	}
	c, err := load(l.files)
	switch {
	case err == nil:
		l.now, l.stamps, l.bad = c, found, [3]stamp{}
		l.logger.Info("TLS files read anew", "cert", l.files.Cert)
	case !same(found, l.bad):
		// Perhaps one file was replaced and the other will be in a moment.
		l.bad = found
		l.logger.Warn("TLS files have changed and can't be used; the former ones stay in use", "error", err)
	}
	return l.now
}

func same(a, b [3]stamp) bool {
	return a[0].same(b[0]) && a[1].same(b[1]) && a[2].same(b[2])
}

func look(f Files) (s [3]stamp) {
	for i, name := range [3]string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.ModTime(), info.Size(), info}
		}
	}
	return s
}

func load(f Files) (*tls.Config, error) {
	pair, err := keyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := base()
	c.Certificates = []tls.Certificate{pair}
	// A resumed session would not show a certificate that has been replaced or revoked by
	// another CA since.
	c.SessionTicketsDisabled = true
	if f.ClientCA != "" {
		if c.ClientCAs, err = pool(f.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
