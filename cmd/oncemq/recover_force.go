package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/node"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// errUnconfirmed ends a forced recovery that nobody has confirmed.
var errUnconfirmed = errors.New("nothing was changed; copy the directory, and give --yes to go on")

func forceNewCluster(c *cobra.Command, data string, yes bool) error {
	f, err := node.Force(node.ForceOptions{Data: data, Confirm: func(f *replica.Forecast) error {
		if _, err := fmt.Fprint(c.OutOrStdout(), node.ForecastText(data, f)); err != nil {
			return err
		}
		if !yes {
			return fmt.Errorf("%w: %w", config.ErrUsage, errUnconfirmed)
		}
		return nil
	}})
	if errors.Is(err, store.ErrNothing) {
		return fmt.Errorf("%w: %w", config.ErrUsage, err)
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "\nNode %d is the only node of cluster %x, history %d. Start it without --peers: oncemq serve --data %s\n", f.Node, f.Cluster, f.History, data)
	if err == nil && f.Uncertified != "" {
		_, err = fmt.Fprint(c.OutOrStdout(), "It needs a new certificate for other nodes first. "+signing(data, f.Uncertified))
	}
	return err
}
