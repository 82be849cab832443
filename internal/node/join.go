package node

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// doorman lets nodes into the cluster: it implements peer.Joiner.
type doorman struct {
	replica *replica.Replica
	links   *links
	logger  *slog.Logger
}

// Join implements peer.Joiner. What a stranger sends without a token that the cluster knows puts nothing into the log.
func (d *doorman) Join(ctx context.Context, st tls.ConnectionState, request peer.JoinRequest) (peer.JoinAnswer, error) {
	add, err := memberAdd(st, request)
	if err != nil {
		return peer.JoinAnswer{}, err
	}
	known, err := d.known(ctx, add)
	if err == nil && !known {
		d.logger.Warn("a node was not let in: its token is unknown, was used, or has expired", "peer", request.Peer)
		return peer.JoinAnswer{}, errors.New(`this token is unknown, was used, or has expired; make another one with "oncemq cluster token"`)
	}
	var eff command.Effect
	if err == nil {
		eff, err = d.replica.Request(ctx, add)
	}
	if err != nil {
		return peer.JoinAnswer{}, fmt.Errorf("%w: %w", peer.ErrLater, err)
	}
	if eff.Refusal != nil {
		d.logger.Warn("a node was not let in", "peer", request.Peer, "because", eff.Refusal.Description)
		return peer.JoinAnswer{}, errors.New(eff.Refusal.Description)
	}
	d.logger.Info("a node joins", "node", eff.Number, "name", request.Name, "peer", request.Peer, "again", eff.Existed)
	return d.welcome(ctx, eff.Number, st)
}

// memberAdd checks a request.
func memberAdd(st tls.ConnectionState, request peer.JoinRequest) (*command.MemberAdd, error) {
	if len(request.Secret) != 32 {
		return nil, fmt.Errorf("a secret of %d bytes", len(request.Secret))
	}
	if err := errors.Join(config.NodeName("name", request.Name), config.Reachable("peer-listen", request.Peer)); err != nil {
		return nil, err
	}
	return &command.MemberAdd{
		Token: certs.TokenHash([32]byte(request.Secret)), Key: certs.KeyFingerprint(st),
		Name: request.Name, Addresses: command.Addresses{Peer: request.Peer},
	}, nil
}

// known says whether the cluster knows the token, or has let this very key in, behind a read barrier (C16).
func (d *doorman) known(ctx context.Context, add *command.MemberAdd) (bool, error) {
	found := make(chan bool, 1)
	err := d.replica.Read(ctx, func(m *state.Machine) {
		ok := false
		for _, t := range m.Tokens() {
			ok = ok || t.Hash == add.Token
		}
		for _, x := range m.Members() {
			ok = ok || x.Key == add.Key
		}
		found <- ok
	})
	if err != nil {
		return false, err
	}
	return <-found, nil
}

// welcome is the answer to a node that is a member now.
func (d *doorman) welcome(ctx context.Context, node uint64, st tls.ConnectionState) (a peer.JoinAnswer, err error) {
	stamp, err := d.replica.Stamp()
	if err != nil {
		return a, fmt.Errorf("%w: %w", peer.ErrLater, err)
	}
	found := make(chan []peer.JoinMember, 1)
	err = d.replica.Read(ctx, func(m *state.Machine) {
		var all []peer.JoinMember
		for _, x := range m.Members() {
			all = append(all, peer.JoinMember{Node: uint64(x.ID), Peer: x.Addresses.Peer})
		}
		found <- all
	})
	if err != nil {
		return a, fmt.Errorf("%w: %w", peer.ErrLater, err)
	}
	a = peer.JoinAnswer{Node: node, Cluster: stamp.Cluster[:], History: stamp.History, Voters: stamp.Voters, Members: <-found}
	authority, err := d.links.pki.Authority()
	if errors.Is(err, certs.ErrNoAuthority) {
		a.Authority = d.links.peers.Authority()
		return a, nil
	}
	if err == nil {
		a.Authority, a.Key = authority.Certificate(), authority.Key()
		a.Certificate, err = authority.Sign(st.PeerCertificates[0].PublicKey, certs.Identity{Cluster: stamp.Cluster, Node: node}, time.Now())
	}
	if err != nil {
		d.logger.Error("no certificate can be made for a node that joins", "node", node, "error", err)
		return peer.JoinAnswer{}, fmt.Errorf("%w: this node can't make a certificate; ask another one", peer.ErrLater)
	}
	return a, nil
}

// JoinOptions are what a node needs to join a cluster.
type JoinOptions struct {
	Token certs.Token
	// Data is the new node's directory.
	Data string
	// OwnCA is a PEM file of authorities that the node trusts beside the token's, which is among them; empty: the token's alone.
	OwnCA string
	// Name is what people call it, perhaps empty; Peer the host:port at which other nodes reach it.
	Name, Peer string
	// Logger takes what stands in the way, while it is tried again.
	Logger *slog.Logger
}

// Joined is what became of a node.
type Joined struct {
	Node    uint64
	Cluster [16]byte
	// Unsigned: the cluster's certificates come from somebody else, and this node's is still missing.
	Unsigned bool
}

const joinPause = 500 * time.Millisecond

// Join makes an empty directory that of a new member of the token's cluster. It may be repeated with the same token and directory after
// a crash at any point, on either side, and gives the same node. It tries until ctx ends, or the cluster refuses.
func Join(ctx context.Context, opts JoinOptions) (Joined, error) {
	own, err := opts.own()
	if err != nil {
		return Joined{}, err
	}
	directory, err := replica.Prepare(opts.Data)
	if err != nil {
		return Joined{}, err
	}
	defer directory.Close()
	begun, err := joining(opts.Data, opts.Token)
	if err != nil {
		return Joined{}, err
	}
	pki := certs.Directory(filepath.Join(opts.Data, pkiName))
	key, err := pki.Key()
	if err != nil {
		return Joined{}, err
	}
	secure, err := certs.Join(opts.Token.Authority, key)
	if err != nil {
		return Joined{}, err
	}
	answer, err := askAll(ctx, opts, secure)
	if err != nil {
		return Joined{}, err
	}
	j := Joined{Node: answer.Node, Cluster: [16]byte(answer.Cluster), Unsigned: len(answer.Certificate) == 0}
	if err := begun.check(&answer, opts.Token, certs.Identity{Cluster: j.Cluster, Node: j.Node}); err != nil {
		return Joined{}, err
	}
	if err := pki.Install(answer.Authority, answer.Key, answer.Certificate); err != nil {
		return Joined{}, err
	}
	if own != nil {
		if err := pki.Trust(own); err != nil {
			return Joined{}, err
		}
	}
	if j.Unsigned {
		if err := pki.Request(certs.Identity{Cluster: j.Cluster, Node: j.Node}); err != nil {
			return Joined{}, err
		}
	}
	members := map[uint64]string{}
	for _, m := range answer.Members {
		members[m.Node] = m.Peer
	}
	if err := directory.Finish(replica.Joined{Node: j.Node, Cluster: j.Cluster, History: answer.History, Voters: answer.Voters, Members: members}); err != nil {
		return Joined{}, err
	}
	return j, begun.end()
}

// own are the authorities of OwnCA, nil for none.
func (o *JoinOptions) own() (*certs.Authorities, error) {
	if o.OwnCA == "" {
		return nil, nil
	}
	a, err := certs.ReadAuthorities(o.OwnCA, time.Now())
	if err == nil && !a.Has(o.Token.Authority) {
		err = fmt.Errorf("%s hasn't the authority that the token is of", o.OwnCA)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: --own-ca: %w", config.ErrUsage, err)
	}
	return a, nil
}

// attempt is the file that tells a directory that joins from an empty one.
type attempt string

// joining writes that file, or refuses a directory that is somebody's.
func joining(data string, token certs.Token) (attempt, error) {
	a := attempt(filepath.Join(data, joiningName))
	hash := token.Hash()
	text := hex.EncodeToString(hash[:]) + "\n"
	owner, err := replica.Whose(data)
	if err != nil {
		return "", err
	}
	before, err := os.ReadFile(string(a))
	switch {
	case owner.Node != 0 && (err != nil || string(before) != text):
		return "", fmt.Errorf("%w: %s belongs to node %d already; a node joins with an empty directory", config.ErrUsage, data, owner.Node)
	case err == nil && string(before) == text:
		return a, nil
	}
	return a, certs.WriteFile(string(a), []byte(text))
}

// check refuses an answer that doesn't fit the token or the key.
func (a attempt) check(answer *peer.JoinAnswer, token certs.Token, id certs.Identity) error {
	if certs.Fingerprint(answer.Authority) != token.Authority {
		return fmt.Errorf("%w: the answer's authority isn't the token's", peer.ErrRefused)
	}
	if len(answer.Certificate) == 0 {
		return nil
	}
	pki := certs.Directory(filepath.Join(filepath.Dir(string(a)), pkiName))
	return pki.Fits(answer.Authority, answer.Key, answer.Certificate, id)
}

// end removes the file: the directory is whole.
func (a attempt) end() error {
	if err := os.Remove(string(a)); err != nil {
		return err
	}
	return certs.SyncDir(filepath.Dir(string(a)))
}

// askAll asks the token's members in turn.
func askAll(ctx context.Context, opts JoinOptions, secure *tls.Config) (peer.JoinAnswer, error) {
	request := peer.JoinRequest{Secret: opts.Token.Secret[:], Name: opts.Name, Peer: opts.Peer}
	for {
		var faults []error
		for _, address := range opts.Token.Addresses {
			answer, err := peer.Join(ctx, address, secure, request)
			switch {
			case err == nil:
				return answer, nil
			case errors.Is(err, peer.ErrRefused) && !errors.Is(err, certs.ErrIdentity):
				return answer, fmt.Errorf("node at %s: %w", address, err)
			}
			// Another one may know better, also where this address is another cluster's by now.
			faults = append(faults, fmt.Errorf("node at %s: %w", address, err))
		}
		opts.Logger.Warn("no node of the cluster could answer; trying again", "error", strings.ReplaceAll(errors.Join(faults...).Error(), "\n", "; "))
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return peer.JoinAnswer{}, fmt.Errorf("%w; nothing is lost: run it again with the same token and --data: %w", ctx.Err(), errors.Join(faults...))
		}
	}
}
