package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/config"
)

func (f *clusterFlags) finalizeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "finalize", Short: "End an upgrade: raise the cluster's feature level", Args: noArgs,
		Long: `End an upgrade: raise the cluster's feature level, once every member runs the new
version. Until then the nodes behave as the version before did, and can go back to it one by
one; from then on they can't: the version before refuses the data directory.

Where there is nothing to raise, it says so and changes nothing.`,
		RunE: func(c *cobra.Command, _ []string) error {
			var done admin.Finalized
			if err := f.call(c, http.MethodPost, "/api/v1/cluster/finalize", nil, &done); err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), done, func(out io.Writer) error {
				text := fmt.Sprintf("the cluster was at feature level %d and is at %d now\n", done.Was, done.Level)
				if done.Was == done.Level {
					text = fmt.Sprintf("the cluster is at feature level %d, the highest that this version knows\n", done.Level)
				}
				_, err := io.WriteString(out, text)
				return err
			})
		},
	}
}

func (f *clusterFlags) setTimeCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "set-time", Short: "Set the cluster's civil time, also back", Args: noArgs,
		Long: `Set the cluster's civil time, also back: for the day after a clock was years ahead and
took the cluster's time with it. Set the nodes' clocks right first: the time of the log goes on
from what is set by the clocks of the majority, and is ahead again otherwise.

What is kept for a time (outcomes, sessions, tokens of transactions) stays for what is left of
it. Tokens to join with end. Who asked is kept with the cluster and written to every node's log.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if to != "" {
				if _, err := time.Parse(time.RFC3339, to); err != nil {
					return config.Fault("to", to, "not a time", "such as 2030-01-02T15:04:05Z")
				}
			}
			var done admin.TimeSet
			if err := f.call(c, http.MethodPost, "/api/v1/cluster/set-time", map[string]string{"to": to, "by": admin.WhoAmI()}, &done); err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), done, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "civil time was %s and is %s now\n", done.From.Format(time.RFC3339), done.To.Format(time.RFC3339))
				return err
			})
		},
	}
	c.Flags().StringVar(&to, "to", "", "`TIME` as RFC 3339 (default: the clock of the node that is asked)")
	return c
}
