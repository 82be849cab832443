package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/node"
)

// defaultUser is the first user's name.
const defaultUser = "admin"

func (f *clusterFlags) initCommand() *cobra.Command {
	var data, user, ownCA string
	c := &cobra.Command{
		Use: "init", Short: "Make a cluster of one node, which others can join", Args: noArgs,
		Long: `Make a cluster of one node, which others can join: its id, its certificate authority and
the first node's certificate (DIR/pki), and its first user, whose generated password is
printed once and is nowhere else. The directory is empty, or that of a lone node, which
keeps its data and its users. After a crash, run it again.

With --own-ca the nodes' certificates are yours to make: the cluster gets no authority of
its own, but a request for the first node's certificate (DIR/pki/node.csr). Have it signed,
and put the certificate in by "oncemq cluster certify", before the node is started.

DIR/pki has the keys of the cluster: protect it, as all of DIR.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return node.Init(c.Context(), node.InitOptions{
				Data: data, User: user, OwnCA: ownCA, Logger: quietLogger(c),
				Show: func(made node.Founded) error { return f.showFounded(c, &made, data) },
			})
		},
	}
	c.Flags().StringVar(&data, "data", config.DefaultData, "data `DIR` of the first node")
	c.Flags().StringVar(&user, "user", defaultUser, "`NAME` of the first user")
	c.Flags().StringVar(&ownCA, "own-ca", "", "PEM `FILE` of your authorities, which sign the nodes' certificates (default: the cluster makes its own)")
	return c
}

// signing says how a node gets a certificate that others sign.
func signing(data, identity string) string {
	return fmt.Sprintf("Have %s/pki/node.csr signed by your authority: the certificate has the URI name %s, for server and client.\nThen: oncemq cluster certify --data %s --cert FILE\n", data, identity, data)
}

// quietLogger shows what goes wrong.
func quietLogger(c *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (f *clusterFlags) showFounded(c *cobra.Command, made *node.Founded, data string) error {
	shown := map[string]any{
		"cluster": hex.EncodeToString(made.Cluster[:]), "node": made.Node, "authority": hex.EncodeToString(made.Authority[:]),
	}
	if made.User != "" {
		shown["user"], shown["password"] = made.User, string(made.Password)
	}
	if made.Uncertified != "" {
		shown["uncertified"] = made.Uncertified
	}
	return f.print(c.OutOrStdout(), shown, func(out io.Writer) error {
		fmt.Fprintf(out, "cluster %x was made; its authority's fingerprint (SHA-256) is %x\n", made.Cluster, made.Authority)
		if made.User != "" {
			fmt.Fprintf(out, "user:     %s\npassword: %s\nThe password is shown once; \"oncemq user passwd\" changes it.\n", made.User, string(made.Password))
		}
		if made.Uncertified != "" {
			io.WriteString(out, signing(data, made.Uncertified))
		}
		_, err := fmt.Fprintf(out, "Next: oncemq serve --data %s --peer-listen ADDR, with the ADDR at which other nodes reach it\n", data)
		return err
	})
}

func (f *clusterFlags) tokenCommand() *cobra.Command {
	var expires time.Duration
	var replace string
	c := &cobra.Command{
		Use: "token", Short: "Make a one-time token, with which a node joins", Args: noArgs,
		Long: `Make a token with which one node can join the cluster, once. It is a secret: who has it
becomes a node. It has the addresses of the members and the fingerprint of the cluster's
authority, so that the node that joins knows whom it speaks to. The cluster keeps only
a hash of it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			want := map[string]any{"lifetime": expires.String()}
			if replace != "" {
				id, err := f.nodeID(c, replace)
				if err != nil {
					return err
				}
				want["replace"] = id
			}
			var t admin.JoinToken
			if err := f.call(c, http.MethodPost, "/api/v1/cluster/tokens", want, &t); err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), t, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, t.Token)
				return err
			})
		},
	}
	c.Flags().DurationVar(&expires, "expires", 24*time.Hour, "how long it can be used: 1m to 720h")
	c.Flags().StringVar(&replace, "replace", "", "`NODE`, by id or name, that leaves once the one that joins has caught up")
	return c
}

// joinFlags are what `cluster join` was given.
type joinFlags struct {
	tokenFile, data, name, peerListen, advertise, ownCA string
	timeout                                             time.Duration
}

func (f *clusterFlags) joinCommand() *cobra.Command {
	var j joinFlags
	c := &cobra.Command{
		Use: "join [TOKEN]", Short: "Make an empty directory that of a new member of a cluster",
		Long: `Make an empty directory that of a new member of a cluster: it gets a node id, a
certificate, and the cluster's authority. "oncemq serve" with the same --data and
--peer-listen then starts the node, which catches up before it votes.

Others on this machine can see a TOKEN on the command line; --token-file keeps it from
them. After a crash, or a time-out, run it again with the same token and --data.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (j.tokenFile != "") {
				return fmt.Errorf("%w: %s takes one token, as TOKEN or by --token-file", config.ErrUsage, c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.join(c, &j, args) },
	}
	flags := c.Flags()
	flags.StringVar(&j.tokenFile, "token-file", "", "`FILE` whose first line is the token; - is standard input")
	flags.StringVar(&j.data, "data", config.DefaultData, "data `DIR` of the new node, empty")
	flags.StringVar(&j.name, "name", "", "`NAME` that people call it by (default: node- and its id)")
	flags.StringVar(&j.peerListen, "peer-listen", config.DefaultPeerListen, "`ADDR` at which it will listen for other nodes")
	flags.StringVar(&j.advertise, "advertise-peer", "", "`ADDR` at which they reach it; the host may be a name (default: --peer-listen)")
	flags.StringVar(&j.ownCA, "own-ca", "", "PEM `FILE` of authorities to trust, the token's among them, where others than the cluster sign (default: the token's)")
	flags.DurationVar(&j.timeout, "timeout", 2*time.Minute, "how long it tries")
	return c
}

func (f *clusterFlags) join(c *cobra.Command, j *joinFlags, args []string) error {
	address, err := config.ReachableAt("peer-listen", j.peerListen, "advertise-peer", j.advertise)
	if err = errors.Join(err, config.PeerListen("peer-listen", j.peerListen), config.NodeName("name", j.name)); err != nil {
		return err
	}
	text, err := tokenText(c, j.tokenFile, args)
	if err != nil {
		return err
	}
	token, err := certs.ParseToken(text)
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrUsage, err)
	}
	ctx, cancel := context.WithTimeout(c.Context(), j.timeout)
	defer cancel()
	joined, err := node.Join(ctx, node.JoinOptions{Token: token, Data: j.data, Name: j.name, Peer: address, OwnCA: j.ownCA, Logger: quietLogger(c)})
	if err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	shown := map[string]any{"cluster": hex.EncodeToString(joined.Cluster[:]), "node": joined.Node, "signed": !joined.Unsigned}
	return f.print(c.OutOrStdout(), shown, func(out io.Writer) error {
		fmt.Fprintf(out, "this is node %d of cluster %x\n", joined.Node, joined.Cluster)
		if joined.Unsigned {
			io.WriteString(out, "The cluster's certificates come from somebody else. "+signing(j.data, certs.Identity{Cluster: joined.Cluster, Node: joined.Node}.String()))
		}
		_, err := fmt.Fprintf(out, "Next: oncemq serve --data %s --peer-listen %s\n", j.data, j.peerListen)
		return err
	})
}

// tokenText is the token as it was given.
func tokenText(c *cobra.Command, file string, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	from := c.InOrStdin()
	if file != "-" {
		r, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("%w: --token-file: %w", config.ErrUsage, err)
		}
		defer r.Close()
		from = r
	}
	b, err := io.ReadAll(io.LimitReader(from, 64<<10))
	if err != nil {
		return "", fmt.Errorf("reading the token from %s: %w", file, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line, nil
}
