package node

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/replica"
)

// InitOptions are what a cluster is made from.
type InitOptions struct {
	// Data is the first node's directory: empty, or that of a lone node, which keeps what it has.
	Data string
	// User is the first user's name, who gets a password; a lone node that has users keeps them instead.
	User string
	// OwnCA is a PEM file of authorities that sign the nodes' certificates; empty: the cluster gets one of its own.
	OwnCA string
	// Show tells people what was made, once: Init counts it as done only when Show has returned nil.
	Show   func(Founded) error
	Logger *slog.Logger
}

// Founded is what Init made.
type Founded struct {
	Node    uint64
	Cluster [16]byte
	// User is the first user and Password the generated one, which is nowhere else; User is empty where there were users before.
	User     string
	Password auth.Password
	// Authority is the fingerprint of the cluster's own, or of the first of InitOptions.OwnCA.
	Authority [32]byte
	// Uncertified: the node needs a certificate for this identity, which others sign, before it can start.
	Uncertified string
}

// readyTimeout bounds the start of the first node, requestTimeout what is asked of it.
const (
	readyTimeout   = time.Minute
	requestTimeout = 30 * time.Second
)

// Init makes a cluster of one node: its id, its authority and certificate, its first user. A crash at any point is gone on from by a
// second call; the user gets a new password then, since nobody may have seen the former one. Errors: config.ErrUsage where the
// directory belongs to a cluster of several nodes, or Init was here.
func Init(ctx context.Context, opts InitOptions) error {
	name, err := auth.Name(opts.User)
	if err != nil {
		return fmt.Errorf("%w: --user: %w", config.ErrUsage, err)
	}
	opts.User = name
	var own *certs.Authorities
	if opts.OwnCA != "" {
		if own, err = certs.ReadAuthorities(opts.OwnCA, time.Now()); err != nil {
			return fmt.Errorf("%w: --own-ca: %w", config.ErrUsage, err)
		}
	}
	owner, err := replica.Whose(opts.Data)
	if err != nil {
		return err
	}
	pki := certs.Directory(filepath.Join(opts.Data, pkiName))
	marker, err := founding(opts.Data, pki, owner)
	if err != nil {
		return err
	}
	f := Founded{Node: max(uint64(owner.Node), 1), User: opts.User}
	if err := f.alone(ctx, &opts, marker); err != nil {
		return err
	}
	if owner, err = replica.Whose(opts.Data); err != nil {
		return err
	}
	f.Cluster = owner.Cluster
	if err := f.certify(pki, own); err != nil {
		return err
	}
	if err := opts.Show(f); err != nil {
		return err
	}
	if err := os.Remove(marker); err != nil {
		return err
	}
	return certs.SyncDir(opts.Data)
}

// certify makes the first node's certificate and its authority; where others sign, a request for one.
func (f *Founded) certify(pki certs.Directory, own *certs.Authorities) error {
	id := certs.Identity{Cluster: f.Cluster, Node: f.Node}
	if own != nil {
		f.Authority, f.Uncertified = own.Fingerprint(), id.String()
		return pki.FoundOwn(own, id)
	}
	if err := pki.Found(id, time.Now()); err != nil {
		return err
	}
	a, err := pki.Authority()
	if err == nil {
		f.Authority = certs.Fingerprint(a.Certificate())
	}
	return err
}

// founding writes the file that tells a directory whose cluster is being made, or refuses the directory.
func founding(data string, pki certs.Directory, owner replica.Owner) (marker string, err error) {
	marker = filepath.Join(data, foundingName)
	again, err := exists(marker)
	if err != nil || again {
		return marker, err
	}
	joins, err := exists(filepath.Join(data, joiningName))
	switch {
	case err != nil:
		return "", err
	case joins:
		return "", fmt.Errorf("%w: %s is that of a node that joins another cluster", config.ErrUsage, data)
	case pki.Exists():
		return "", fmt.Errorf(`%w: %s belongs to a cluster already; "oncemq cluster token" on a running node lets others join it`, config.ErrUsage, data)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", err
	}
	kind := "new\n"
	if owner.Cluster != [16]byte{} || owner.History > 0 {
		kind = "grown\n" // from a lone node or a backup, which may have users
	}
	return marker, certs.WriteFile(marker, []byte(kind))
}

// alone runs the first node for itself, without clients, founds the cluster in it, and puts the user in.
func (f *Founded) alone(ctx context.Context, opts *InitOptions, marker string) error {
	kind, err := os.ReadFile(marker)
	if err != nil {
		return err
	}
	r, err := replica.Open(replica.Options{
		Node: command.NodeID(f.Node), Peers: map[command.NodeID]string{command.NodeID(f.Node): config.DefaultPeerListen},
		Dir: opts.Data, Mailbox: nobody{}, Logger: opts.Logger,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.WithoutCancel(ctx)) }()
	err = awaitReady(ctx, r, ended)
	if err == nil {
		err = f.putUser(ctx, &users{replica: r, logger: opts.Logger, making: make(chan struct{}, 1)}, strings.HasPrefix(string(kind), "grown"))
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = errors.Join(err, r.Stop(stopping))
	return errors.Join(err, <-ended)
}

// awaitReady waits until the node may be asked.
func awaitReady(ctx context.Context, r *replica.Replica, ended chan error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(readyTimeout)
	for r.Ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			ended <- nil // for the one who waits for the end
			return err
		case <-late:
			return fmt.Errorf("the node isn't ready within %s: %w", readyTimeout, r.Ready())
		}
	}
	return nil
}

// putUser makes the first user, or gives it a new password where an attempt of before may have made it. A lone node's users stay.
func (f *Founded) putUser(ctx context.Context, u *users, grown bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := u.Users(ctx)
	if err != nil {
		return err
	}
	rule := command.UserNew
	for _, x := range all {
		if x.Name == f.User {
			rule = command.UserChange
		}
	}
	if grown && len(all) > 0 {
		f.User = ""
		return nil
	}
	f.Password = auth.Password(generated())
	eff, err := u.PutUser(ctx, rule, f.User, &f.Password)
	if err == nil && eff.Refusal != nil {
		err = fmt.Errorf("user %s: %s", f.User, eff.Refusal.Description)
	}
	return err
}

// generated is a password of 120 random bits, in letters and digits that are not mistaken for each other.
func generated() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// nobody is the mailbox of a node without clients.
type nobody struct{}

// Deliver implements replica.Mailbox.
func (nobody) Deliver(uint64, []command.Effect) {}

// EpochBegun implements replica.Mailbox.
func (nobody) EpochBegun(command.Epoch) {}

// EpochEnded implements replica.Mailbox.
func (nobody) EpochEnded(string) {}
