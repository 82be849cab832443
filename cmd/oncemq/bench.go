package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/bench"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// benchFlags are the flags of all benchmarks.
type benchFlags struct {
	bench.Config
	admin   string
	cluster bool
	dir     string
	json    bool
	rounds  int
	short   bool
}

func benchCommand() *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a cluster",
		Long: `Measure a cluster, one that runs (--urls, and --admin for raw) or three nodes of this
machine that are started for it and removed afterwards (--cluster; fsync is on).
Answers count once they are on the disks of a majority. A warm-up of half a second
is left out.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%w: unknown benchmark %q; there are raw, send, recv, tx, transfer, backlog, all", config.ErrUsage, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := c.PersistentFlags()
	flags.StringVar(&f.URLs, "urls", "amqp://127.0.0.1:5672", "address list of the cluster")
	flags.StringVar(&f.admin, "admin", config.DefaultAdmin, "admin ports of the nodes, comma between them; raw needs the leader's")
	flags.StringVar(&f.Queue, "queue", "bench", "queue to use")
	flags.IntVar(&f.Connections, "connections", 4, "connections that share the load")
	flags.IntVar(&f.Sessions, "sessions", 16, "sessions over all connections (recv, tx, transfer)")
	flags.IntVar(&f.Outstanding, "outstanding", 256, "sends under way over all connections (send), writers (raw)")
	flags.IntVar(&f.Size, "size", 1024, "bytes of a message's body")
	flags.DurationVar(&f.Duration, "duration", 5*time.Second, "how long is measured")
	flags.BoolVar(&f.cluster, "cluster", false, "start three nodes for it, and remove them afterwards")
	flags.StringVar(&f.dir, "dir", "", "`DIR` under which --cluster keeps its data (default: the system's for temporary files)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	for _, b := range []struct {
		name, short string
		run         func(context.Context, bench.Config) (bench.Result, error)
	}{
		{"raw", "Commands straight into replication, inside the leader's process", bench.Raw},
		{"send", "Plain sends", bench.Send},
		{"recv", "Receive and accept", bench.Recv},
		{"tx", "Transactions of one send", bench.Tx},
		{"transfer", "Transactions that receive one and send one", bench.Transfer},
	} {
		c.AddCommand(&cobra.Command{Use: b.name, Short: b.short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			return f.one(c, b.run)
		}})
	}
	all := &cobra.Command{
		Use: "all", Short: "All of these, interleaved, against their targets (implies --cluster)", Args: noArgs,
		Long: `Run the rows of the comparison, interleaved, and hold their medians against targets
that are relative to the disk and to raw replication of the same minutes. The machine
must be idle. Exit status: 0 all targets reached, 2 one was missed or an operation
failed, 1 it could not run.`,
		RunE: func(c *cobra.Command, _ []string) error { return f.all(c) },
	}
	all.Flags().BoolVar(&f.short, "short", false, "one round of one second each, on whatever machine: targets are shown, not held")
	all.Flags().IntVar(&f.rounds, "rounds", 5, "how often each is run; medians are shown")
	c.AddCommand(all, backlogCommand(f))
	return c
}

// validate checks what can be checked before anything runs.
func (f *benchFlags) validate() error {
	f.Admin = strings.Split(f.admin, ",")
	if err := f.Validate(); err != nil {
		return fmt.Errorf("%w: %w", config.ErrUsage, err)
	}
	return nil
}

// one runs one benchmark.
func (f *benchFlags) one(c *cobra.Command, run func(context.Context, bench.Config) (bench.Result, error)) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	if f.cluster {
		cluster, _, remove, startErr := startCluster(c.Context(), f.dir)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, remove()) }()
		f.URLs, f.Admin = cluster.URLs(0), nil
		for _, n := range cluster.Nodes() {
			f.Admin = append(f.Admin, n.Admin)
		}
	}
	res, err := run(c.Context(), f.Config)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(res)
	}
	return bench.WriteResult(c.OutOrStdout(), res)
}

// all runs the comparison.
func (f *benchFlags) all(c *cobra.Command) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	if f.rounds < 1 || f.rounds > 100 {
		return config.Fault("rounds", fmt.Sprint(f.rounds), "not a number of rounds", "1 to 100")
	}
	if f.short {
		f.rounds, f.Duration = 1, time.Second
	}
	cluster, dir, remove, err := startCluster(c.Context(), f.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	cmp, err := bench.Compare(c.Context(), cluster, dir, f.Config, f.rounds, c.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(cmp)
	} else {
		err = cmp.Write(c.OutOrStdout())
	}
	switch {
	case err != nil:
		return err
	case cmp.Errors() > 0 || cmp.Missed() > 0 && !f.short:
		fmt.Fprintf(c.ErrOrStderr(), "%d targets missed, %d operations failed\n", cmp.Missed(), cmp.Errors())
		return errCheck
	}
	return nil
}

// startCluster starts three nodes in a new directory under parent; remove stops them
// and deletes it.
func startCluster(ctx context.Context, parent string) (cluster *localcluster.Cluster, dir string, remove func() error, err error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, "", nil, fmt.Errorf("finding this program's file: %w", err)
	}
	if dir, err = os.MkdirTemp(parent, "oncemq-bench-"); err != nil {
		return nil, "", nil, err
	}
	cluster, err = localcluster.Start(localcluster.Config{Binary: binary, Dir: dir, Nodes: 3})
	if err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	remove = func() error { return errors.Join(cluster.Close(), os.RemoveAll(dir)) }
	bound, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := cluster.WaitReady(bound); err != nil {
		return nil, "", nil, errors.Join(err, remove())
	}
	return cluster, dir, remove, nil
}
