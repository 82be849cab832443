package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/fsck"
	"github.com/oncemq/oncemq/internal/store"
)

// errDamaged is the end of an fsck that found damage, which is printed by then.
var errDamaged = errors.New("oncemq: the data directory is damaged")

func fsckCommand() *cobra.Command {
	output := outputText
	c := &cobra.Command{
		Use:   "fsck DIR",
		Short: "Check the data directory of a node that isn't running",
		Long: `Check the data directory of a node that isn't running, and change nothing in it.

Every append of the log, every block of every table, the lists of tables, stamp and
voters are read and verified, the state is loaded as a start would load it, every message's
body is looked for, and all of it is compared. What is damaged is printed with its place, what is lost by it, and what
is safe to do.

Exit status: 0 sound, 1 damaged, or it couldn't be checked, 2 wrong usage.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%w: %s takes one DIR", config.ErrUsage, c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := knownFormat(output); err != nil {
				return err
			}
			r, err := fsck.Check(fsck.Options{Dir: args[0]})
			if errors.Is(err, store.ErrNothing) {
				return fmt.Errorf("%w: %w", config.ErrUsage, err)
			}
			if err != nil {
				return fmt.Errorf("fsck: %w", err)
			}
			if output == outputJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(r)
			} else {
				err = r.Print(c.OutOrStdout())
			}
			if err == nil && !r.Sound {
				err = fmt.Errorf("%w: %s", errDamaged, args[0])
			}
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}
