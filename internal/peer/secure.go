package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// secureTimeout bounds the TLS handshake of who connects.
const secureTimeout = 5 * time.Second

// Security makes connections between nodes private and mutual. Package certs has it; its methods are safe for concurrent use.
type Security interface {
	// Server is for who connects, Client for a dial of a node.
	Server() *tls.Config
	Client(node uint64) *tls.Config
	// Node is the node that a connection of Server is of, by its verified certificate.
	Node(tls.ConnectionState) (uint64, error)
	// Joining says that a connection of Server is of somebody who wants to become a node, and is none yet.
	Joining(tls.ConnectionState) bool
}

// secureDial puts TLS around a dialled connection.
func (n *Network) secureDial(ctx context.Context, conn net.Conn, peer uint64) (net.Conn, error) {
	if n.config.Security == nil {
		return conn, nil
	}
	secured := tls.Client(conn, n.config.Security.Client(peer))
	return abrupt{secured}, secured.HandshakeContext(ctx)
}

// abrupt closes without a farewell, which a stuck socket would make wait for seconds: every frame has its length, so nobody takes
// a cut for an end.
type abrupt struct{ *tls.Conn }

// Close implements net.Conn.
func (a abrupt) Close() error { return a.NetConn().Close() }

// visitor is who connected.
type visitor struct {
	conn    net.Conn
	node    uint64              // by its certificate; 0 where there is no TLS
	joining bool                // it is no node yet
	state   tls.ConnectionState // with TLS
}

// secureAccept puts TLS around a connection that was accepted.
func (n *Network) secureAccept(ctx context.Context, conn net.Conn) (visitor, error) {
	v := visitor{conn: conn}
	if n.config.Security == nil {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secureTimeout)
	defer cancel()
	secured := tls.Server(conn, n.config.Security.Server())
	if err := secured.HandshakeContext(ctx); err != nil {
		return v, fmt.Errorf("TLS: %w", err)
	}
	v.conn, v.state = abrupt{secured}, secured.ConnectionState()
	if v.joining = n.config.Security.Joining(v.state); v.joining {
		return v, nil
	}
	var err error
	v.node, err = n.config.Security.Node(v.state)
	return v, err
}

// secureError makes a refusal of what TLS says about certificates and protocols: the other side lives, and only people can mend
// it. A connection that just ended says nothing of the kind.
func secureError(err error) error {
	lost := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || isTimeout(err)
	if err == nil || lost || errors.Is(err, ErrRefused) || errors.Is(err, ErrFrame) || errors.Is(err, errNotFounded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
