package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// The protocols on a node's listener for other nodes (ALPN).
const (
	PeerProtocol = "oncemq-peer/1" // between members, each with its certificate
	JoinProtocol = "oncemq-join/1" // from a node that is none yet, which has a token
)

// nodeKeys is what a node shows to other nodes and trusts.
type nodeKeys struct {
	pair    tls.Certificate
	joining tls.Certificate // the same with the authority's own, whose fingerprint a token has
	roots   *x509.CertPool
	ca      []byte // the authority of pair, DER
}

// Peers gives the configurations of the connections between nodes and keeps up with their files. It is safe for concurrent use.
// Invariant: of two nodes on such a connection both have shown a certificate that an authority of the cluster has signed,
// with the cluster's id and the node's.
type Peers struct {
	id   Identity
	keys *watched[*nodeKeys]
}

// NewPeers reads a node's directory. Errors wrap ErrFiles: among them a certificate that has ended, or is of another node.
func NewPeers(dir Directory, id Identity, logger *slog.Logger) (*Peers, error) {
	w, err := watch(logger, func() (*nodeKeys, error) { return dir.keys(id) }, dir.path(nodeCertName), dir.path(nodeKeyName), dir.path(caCertName))
	if err != nil {
		return nil, err
	}
	return &Peers{id, w}, nil
}

// Expires is when the certificate that this node shows now ends.
func (p *Peers) Expires() time.Time { return expiry(&p.keys.current(time.Now()).pair) }

// Authority is the certificate (DER) of who signed this node's; a token has its fingerprint.
func (p *Peers) Authority() []byte { return p.keys.current(time.Now()).ca }

// Server is for the listener: the client's first message says whether it is a member or joins.
func (p *Peers) Server() *tls.Config {
	c := base()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		keys := p.keys.current(time.Now())
		if slices.Contains(hello.SupportedProtos, JoinProtocol) {
			return joinServer(keys), nil
		}
		return p.peerServer(keys), nil
	}
	return c
}

func (p *Peers) peerServer(keys *nodeKeys) *tls.Config {
	c := base()
	c.Certificates = []tls.Certificate{keys.pair}
	c.ClientCAs, c.ClientAuth = keys.roots, tls.RequireAndVerifyClientCert
	c.NextProtos = []string{PeerProtocol}
	c.SessionTicketsDisabled = true // a session that is resumed shows no certificate
	c.VerifyConnection = func(st tls.ConnectionState) error {
		_, err := p.Node(st)
		return err
	}
	return c
}

// Client is for a dial of a node.
func (p *Peers) Client(node uint64) *tls.Config {
	keys := p.keys.current(time.Now())
	c := base()
	c.Certificates = []tls.Certificate{keys.pair}
	c.NextProtos = []string{PeerProtocol}
	// Nodes have no host names: what is verified is the chain and the node's identity, below, at every handshake.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(st tls.ConnectionState) error {
		id, _, err := verify(st.PeerCertificates, keys.roots, x509.ExtKeyUsageServerAuth)
		switch {
		case err != nil:
			return err
		case id != Identity{p.id.Cluster, node}:
			return fmt.Errorf("%w: it is of %s, %s was dialled", ErrIdentity, id, Identity{p.id.Cluster, node})
		}
		return negotiated(st, PeerProtocol)
	}
	return c
}

// Node is the node whose verified certificate the other side of a connection of Server has shown. ErrIdentity where it is of another
// cluster, or none.
func (p *Peers) Node(st tls.ConnectionState) (uint64, error) {
	if err := negotiated(st, PeerProtocol); err != nil {
		return 0, err
	}
	if len(st.VerifiedChains) == 0 {
		return 0, fmt.Errorf("%w: no verified certificate", ErrIdentity)
	}
	id, err := identityOf(st.PeerCertificates[0])
	if err != nil {
		return 0, err
	}
	if id.Cluster != p.id.Cluster {
		return 0, fmt.Errorf("%w: it is of %s, this is cluster %x", ErrIdentity, id, p.id.Cluster)
	}
	return id.Node, nil
}

// Joining reports that the other side of a connection of Server has come to join.
func (p *Peers) Joining(st tls.ConnectionState) bool { return st.NegotiatedProtocol == JoinProtocol }

// joinServer is for who joins: it shows a certificate that only proves that it has the key.
func joinServer(keys *nodeKeys) *tls.Config {
	c := base()
	c.Certificates = []tls.Certificate{keys.joining}
	c.ClientAuth = tls.RequireAnyClientCert
	c.NextProtos = []string{JoinProtocol}
	c.SessionTicketsDisabled = true
	return c
}

// Join is the configuration of who joins a cluster: the other side has to show a chain to the authority of that fingerprint. key is
// the key that the certificate will be for.
func Join(authority [32]byte, key *ecdsa.PrivateKey) (*tls.Config, error) {
	own, err := selfSigned(key, time.Now())
	if err != nil {
		return nil, err
	}
	c := base()
	c.Certificates = []tls.Certificate{own}
	c.NextProtos = []string{JoinProtocol}
	// The authority isn't known before the handshake, only its fingerprint: the chain is verified below, at every one.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(st tls.ConnectionState) error {
		if _, err := member(st, authority); err != nil {
			return err
		}
		return negotiated(st, JoinProtocol)
	}
	return c, nil
}

// member is the node that the other side of a connection of Join is.
func member(st tls.ConnectionState, authority [32]byte) (Identity, error) {
	for _, c := range st.PeerCertificates {
		if c.IsCA && Fingerprint(c.Raw) == authority {
			roots := x509.NewCertPool()
			roots.AddCert(c)
			id, _, err := verify(st.PeerCertificates, roots, x509.ExtKeyUsageServerAuth)
			return id, err
		}
	}
	return Identity{}, fmt.Errorf("%w: the authority with the token's fingerprint has not signed it; another cluster has this address, or somebody is in between", ErrIdentity)
}

// negotiated checks the protocol that both sides speak: without one, each could mean another.
func negotiated(st tls.ConnectionState, want string) error {
	if st.NegotiatedProtocol != want {
		return fmt.Errorf("%w: protocol %q instead of %q", ErrIdentity, st.NegotiatedProtocol, want)
	}
	return nil
}
