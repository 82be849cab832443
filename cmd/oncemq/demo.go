package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/demo"
)

func demoCommand() *cobra.Command {
	var cfg demo.Config
	var killEvery, safety string
	var asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Kill nodes of a real cluster under load, and check that nothing is lost or doubled",
		Long: `Run three nodes as processes of this machine, four producers, three transactional
workers and a checker that knows nothing of the broker; kill or stop a node every few
seconds; in the end, check that every order took effect exactly once.

Exit status: 0 all right, 2 a check failed (what is wrong stands on standard error,
data and logs are kept), 1 it could not run.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if cfg.KillMin, cfg.KillMax, err = demo.ParseKillEvery(killEvery); err != nil {
				return fmt.Errorf("%w: %w", config.ErrUsage, err)
			}
			switch safety {
			case "on":
			case "off":
				cfg.SafetyOff = true
			default:
				return config.Fault("safety", safety, "not a setting", `"on", or "off" to see the checker find what gets lost`)
			}
			return runDemo(c, cfg, asJSON)
		},
	}
	flags := c.Flags()
	flags.DurationVar(&cfg.Duration, "duration", 60*time.Second, "how long orders are produced")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "chooses the events")
	flags.IntVar(&cfg.Rate, "rate", 1000, "orders a second, at most")
	flags.StringVar(&killEvery, "kill-every", "3s-5s", "time between two events: `MIN-MAX`")
	flags.BoolVar(&cfg.NoKill, "no-kill", false, "kill and stop nothing")
	flags.StringVar(&cfg.Dir, "dir", "", "`DIR` for data and logs, empty or new (default: a temporary one)")
	flags.BoolVar(&asJSON, "json", false, "print the summary as one JSON object, the last line of standard output")
	flags.StringVar(&safety, "safety", "on", `"off" answers before replication and fsync: the checker will find faults`)
	return c
}

// runDemo runs the demo. With --json standard output has the summary alone.
func runDemo(c *cobra.Command, cfg demo.Config, asJSON bool) error {
	var err error
	if cfg.Binary, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program's file: %w", err)
	}
	out := c.OutOrStdout()
	if asJSON {
		out = c.ErrOrStderr()
	}
	res, err := demo.Run(c.Context(), cfg, out, c.ErrOrStderr())
	switch {
	case errors.Is(err, demo.ErrConfig):
		return fmt.Errorf("%w: %w", config.ErrUsage, err)
	case err != nil && !errors.Is(err, demo.ErrCheck):
		return fmt.Errorf("the demo could not run: %w", err)
	}
	if asJSON {
		if err := json.NewEncoder(c.OutOrStdout()).Encode(res); err != nil {
			return err
		}
	} else if _, err := res.WriteTo(out); err != nil {
		return err
	}
	if err != nil {
		fmt.Fprintln(c.ErrOrStderr(), err)
		return errCheck
	}
	return nil
}
