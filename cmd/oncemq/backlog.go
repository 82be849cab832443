package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/bench"
	"github.com/oncemq/oncemq/internal/config"
)

// backlogCommand is one of the benchmarks, with flags of its own.
func backlogCommand(f *benchFlags) *cobra.Command {
	cfg := bench.BacklogConfig{}
	var nodeFlags string
	c := &cobra.Command{
		Use: "backlog", Short: "Millions of waiting messages on a lone node that is started for it", Args: noArgs,
		Long: `Start a lone node, fill its queues, and measure what the backlog costs: memory a
message, restarts with a tenth of it and with all of it (after a kill and after an
orderly stop, until a client has its first message), the rate of sends into a deep
queue beside that into an empty one, and how long small sends to another queue take
while the backlog grows, is purged, grows again and is deleted. Ten million messages
of 1 KB need about 40 GB under --dir and half an hour. Exit status: 0 all targets
reached, 2 one was missed, 1 it could not run.`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			cfg.Config = f.Config
			if err := cfg.Validate(); err != nil {
				return fmt.Errorf("%w: %w", config.ErrUsage, err)
			}
			cfg.NodeFlags, cfg.Progress = strings.Fields(nodeFlags), c.ErrOrStderr()
			if cfg.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program's file: %w", err)
			}
			if cfg.Dir, err = os.MkdirTemp(f.dir, "oncemq-bench-"); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
			return f.backlog(c, cfg)
		},
	}
	flags := c.Flags()
	flags.IntVar(&cfg.Messages, "messages", 10_000_000, "messages in all queues together")
	flags.IntVar(&cfg.Queues, "queues", 1, "queues that they lie in")
	flags.IntVar(&cfg.Rounds, "rounds", 5, "how often the rates of sends are compared")
	flags.DurationVar(&cfg.Settle, "settle", 15*time.Second, "how long is probed at least around a purge or a deletion")
	flags.StringVar(&nodeFlags, "node-flags", "", "flags for the node, blanks between them")
	return c
}

// backlog runs it and prints the figures.
func (f *benchFlags) backlog(c *cobra.Command, cfg bench.BacklogConfig) error {
	begin := time.Now()
	res, err := bench.RunBacklog(c.Context(), cfg)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(res)
	} else {
		err = res.Write(c.OutOrStdout())
	}
	switch {
	case err != nil:
		return err
	case res.Missed() > 0:
		fmt.Fprintf(c.ErrOrStderr(), "%d targets missed, after %v\n", res.Missed(), time.Since(begin).Round(time.Second))
		return errCheck
	}
	return nil
}
