package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/replica"
)

// renewEvery is how often a node looks whether its certificate is to be renewed; soonDays is when it warns of one that it can't renew.
const (
	renewEvery = 12 * time.Hour
	soonDays   = 30
)

// links is what a node speaks to other nodes with: nothing where it is a lone one or its list of peers is on loopback.
type links struct {
	pki      certs.Directory
	id       certs.Identity
	peers    *certs.Peers // nil: plaintext
	listener net.Listener
	address  string // at which other nodes reach it
	logger   *slog.Logger
}

// openLinks reads the certificates and binds the listener.
func openLinks(cfg *config.Serve, pki certs.Directory, logger *slog.Logger) (*links, error) {
	owner, err := replica.WhoseToStart(cfg.Data)
	if err != nil {
		return nil, err
	}
	l := &links{pki: pki, id: certs.Identity{Cluster: owner.Cluster, Node: cfg.Node}, logger: logger}
	if l.address, err = config.ReachableAt("peer-listen", cfg.PeerListen, "advertise-peer", cfg.Advertised.Peer); err != nil {
		return nil, err
	}
	l.renew()
	if l.peers, err = certs.NewPeers(pki, l.id, logger); err != nil {
		return nil, err
	}
	if l.listener, err = net.Listen("tcp", cfg.PeerListen); err != nil {
		return nil, fmt.Errorf("listening for other nodes: %w", err)
	}
	return l, nil
}

// security is for package replica, whose nil means plaintext.
func (l *links) security() peer.Security {
	if l.peers == nil {
		return nil
	}
	return l.peers
}

// tend renews the certificate in time until ctx ends.
func (l *links) tend(ctx context.Context) {
	if l.peers == nil {
		return
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.renew()
		case <-ctx.Done():
			return
		}
	}
}

// renew makes a new certificate where it is time; package certs takes it into use by itself.
func (l *links) renew() {
	renewed, expires, err := l.pki.Renew(l.id, time.Now())
	switch {
	case err != nil:
		l.logger.Warn("the certificate for other nodes can't be renewed", "node", l.id.Node, "error", err)
	case renewed:
		l.logger.Info("the certificate for other nodes was renewed", "node", l.id.Node, "expires", expires)
	case time.Until(expires) < soonDays*24*time.Hour:
		l.logger.Warn("the certificate for other nodes ends soon, and this node can't sign a new one: put one into the directory", "directory", l.pki, "expires", expires)
	}
}

// close frees the listener of a node that was not opened.
func (l *links) close() error {
	if l.listener == nil {
		return nil
	}
	return l.listener.Close()
}
