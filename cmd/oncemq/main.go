// Command oncemq is the OncemQ message broker: one binary that serves a node, shows
// what it promises (demo), measures (bench), manages users (user), and makes and restores backups (backup).
//
// This package parses, validates, wires and waits; what it wires are packages with
// tests of their own. Exit status: 0 done, 1 it could not be done, 2 wrong usage or a
// check that failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
)

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitWrong  = 2 // wrong usage; a check of the demo that failed
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal stops in order; a second one kills, as it would without us.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errCheck is returned by a command whose checks failed; what failed is printed.
var errCheck = errors.New("oncemq: a check failed")

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "oncemq",
		Short:         "A message broker that does not lose, double or leave you guessing",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%w: unknown command %q", config.ErrUsage, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", config.ErrUsage, err) })
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	root.AddCommand(serveCommand(), clusterCommand(), fsckCommand(), recoverCommand(), userCommand(), backupCommand(), msgCommand(), demoCommand(), benchCommand(), versionCommand())
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errCheck):
		return exitWrong
	case errors.Is(err, config.ErrUsage):
		fmt.Fprintf(stderr, "%v\nSee oncemq --help, or --help behind a command.\n", err)
		return exitWrong
	}
	fmt.Fprintln(stderr, err)
	return exitFailed
}

// noArgs refuses arguments that are not flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: %s takes no argument such as %q, only flags", config.ErrUsage, c.CommandPath(), args[0])
	}
	return nil
}
