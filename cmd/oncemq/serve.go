package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/node"
	"github.com/oncemq/oncemq/internal/replica"
)

func serveCommand() *cobra.Command {
	var f config.ServeFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node until SIGTERM or SIGINT.

"oncemq serve --dev" is a lone node. Three nodes on one machine:

  peers=1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003
  oncemq serve --dev --node 1 --data n1 --peers $peers --listen 127.0.0.1:5672 --admin 127.0.0.1:8161 &
  oncemq serve --dev --node 2 --data n2 --peers $peers --listen 127.0.0.1:5682 --admin 127.0.0.1:8171 &
  oncemq serve --dev --node 3 --data n3 --peers $peers --listen 127.0.0.1:5692 --admin 127.0.0.1:8181 &

Without --dev clients need a name: "oncemq user add" makes one. Others than this
machine are served with TLS alone, and once there is a user:

  oncemq serve --listen-tls 0.0.0.0:5671 --tls-cert mq1.pem --tls-key mq1.key

The files of --tls-cert, --tls-key and --tls-client-ca are read anew when they change.
One line on standard output says that the node is ready; logs go to standard error.
Exit status: 0 stopped by a signal, 1 the node could not go on, 2 wrong flags.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.Parse()
			if err != nil {
				return err
			}
			return serve(c, cfg)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.Node, "node", "", "this node's `ID`, 1 and up, never used again by another node (default: the data directory's, else 1)")
	flags.StringVar(&f.Data, "data", config.DefaultData, "data `DIR` of this node alone")
	flags.StringVar(&f.Listen, "listen", config.DefaultListen, "loopback `ADDR` for AMQP clients without TLS, or off")
	flags.StringVar(&f.ListenTLS, "listen-tls", "", "`ADDR` for AMQP clients with TLS (default: none)")
	flags.StringVar(&f.ListenWS, "listen-ws", "", "loopback `ADDR` for AMQP over WebSocket without TLS (default: none)")
	flags.StringVar(&f.ListenWSS, "listen-wss", "", "`ADDR` for AMQP over WebSocket with TLS (default: none)")
	flags.StringVar(&f.WSOrigins, "ws-origin", "", "`HOSTS` whose web pages may connect over WebSocket, split by commas, such as app.example.org,*.example.net (default: the node's own)")
	flags.StringVar(&f.TLSCert, "tls-cert", "", "`FILE` with the certificate for --listen-tls and --listen-wss and its chain, PEM")
	flags.StringVar(&f.TLSKey, "tls-key", "", "`FILE` with its key, PEM")
	flags.StringVar(&f.TLSClientCA, "tls-client-ca", "", "`FILE` with certificates that sign clients', PEM: a client whose certificate names a user (SAN) needs no password")
	flags.BoolVar(&f.Insecure, config.InsecureFlag, false, "let --listen and --listen-ws be addresses that others can reach, although they have no TLS")
	flags.BoolVar(&f.Plain, "sasl-plain", false, "allow SASL PLAIN, over TLS and from this machine, for clients that can't SCRAM")
	flags.StringVar(&f.PeerListen, "peer-listen", "", "`ADDR` for the other nodes (default: this node's in --peers, or "+config.DefaultPeerListen+")")
	flags.StringVar(&f.Peers, "peers", "", "peer addresses of all nodes, this one included, `1=ADDR,2=ADDR,3=ADDR` (default: the members that the data directory knows, else a lone node)")
	flags.StringVar(&f.Name, "name", "", "`NAME` that people call this node by (default: the one it has)")
	flags.StringVar(&f.Advertise, "advertise", "", "`ADDR` at which clients reach --listen from elsewhere; the host may be a name (default: --listen)")
	flags.StringVar(&f.AdvertiseTLS, "advertise-tls", "", "`ADDR` at which clients reach --listen-tls (default: --listen-tls)")
	flags.StringVar(&f.AdvertisePeer, "advertise-peer", "", "`ADDR` at which other nodes reach --peer-listen (default: --peer-listen)")
	flags.StringVar(&f.Admin, "admin", config.DefaultAdmin, "`ADDR` of the HTTP admin API")
	sizeFlags(c, &f.SizeFlags)
	flags.DurationVar(&f.ScrubEvery, "scrub-every", 0, "how often all of log and state is read to find damage, 1s to 2160h (default: 24h)")
	flags.BoolVar(&f.Dev, "dev", false, "allow anonymous clients and profiling, on loopback only")
	flags.StringVar(&f.Safety, "safety", config.DefaultSafety, `"off" answers before replication and fsync: for the demo, with an empty directory`)
	return c
}

// serve runs the node.
func serve(c *cobra.Command, cfg config.Serve) error {
	tuneMemory(node.PlanMemory(cfg.Sizes))
	logger := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	err := node.Serve(c.Context(), node.Options{
		Config: cfg, Version: versionText(), Ready: c.OutOrStdout(), Logger: logger,
		Fatal: func(err error) {
			logger.Error("the node can't go on", "error", err)
			if errors.Is(err, replica.ErrDiverged) {
				err = beginAnew()
				logger.Error("beginning anew", "error", err)
			}
			os.Exit(exitFailed)
		},
	})
	if err != nil {
		return fmt.Errorf("node %d: %w", cfg.Node, err)
	}
	return nil
}

// beginAnew replaces this process by a new one of the same command line. It returns
// only with an error. With safety off a node that answered what the cluster never got
// comes back so, with the cluster's state.
func beginAnew() error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(binary, os.Args, os.Environ())
}

// tuneMemory trades memory for less collecting: the live heap of a node is small and
// pointer-free, so at Go's default the collector would run for every few megabytes
// of traffic. What --memory allows bounds it. GOGC and GOMEMLIMIT in the environment have
// the last word.
func tuneMemory(m node.Memory) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(m.Heap)
	}
}
