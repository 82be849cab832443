package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// listener is one bound address.
type listener struct {
	net.Listener
	tls *tls.Config // nil: plaintext
	web bool        // AMQP over WebSocket
}

// bind binds the addresses of cfg; on an error none stays bound.
func bind(cfg *Config) (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
		}
	}()
	for _, a := range []struct {
		address string
		tls     *tls.Config
		web     bool
	}{{cfg.Listen, nil, false}, {cfg.ListenTLS, cfg.TLS, false}, {cfg.ListenWS, nil, true}, {cfg.ListenWSS, cfg.TLS, true}} {
		if a.address == "" {
			continue
		}
		inside := cfg.Dev || a.tls == nil && !cfg.Insecure // for this machine alone
		if inside {
			if err := checkLoopback(a.address); err != nil {
				return all, err
			}
		}
		ln, err := listen(a.address)
		if err != nil {
			return all, fmt.Errorf("%w %s: %w", ErrConfig, a.address, err)
		}
		l := listener{ln, a.tls, a.web}
		all = append(all, l)
		// A name may have resolved to anything: what counts is where the socket is.
		if inside && !l.loopback() {
			return all, notLoopback(a.address)
		}
	}
	return all, nil
}

// loopback says whether only this machine can reach it.
func (l *listener) loopback() bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// checkLoopback refuses an address that isn't on loopback before anything is bound.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w %q: want host:port, such as 127.0.0.1:5672: %w", ErrConfig, address, err)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() || host == "" {
		return notLoopback(address)
	}
	return nil
}

func notLoopback(address string) error {
	return fmt.Errorf("%w %s: plaintext and --dev are for loopback only: listen on 127.0.0.1 or ::1, or with TLS and users", ErrConfig, address)
}

// acceptAll accepts on all listeners until one fails or all are closed; it gives the first error.
func (s *Server) acceptAll() error {
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- s.accept(l) }()
	}
	var first error
	for range s.listeners {
		err := <-ended
		if first == nil {
			first = err
		}
		s.closeListeners()
	}
	return first
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// accept runs until the listener is closed.
func (s *Server) accept(l listener) error {
	var complained time.Time
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.admit(nc, &l)
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Out of file descriptors, mostly: it passes.
			if now := time.Now(); now.Sub(complained) >= time.Second {
				complained = now
				s.log.Warn("no connection can be accepted now", "error", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
