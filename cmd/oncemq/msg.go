package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/export"
)

// msgFlags are what the msg commands were given.
type msgFlags struct {
	admin, url, user, passwordFile, ca string
	after                              uint64
}

func msgCommand() *cobra.Command {
	var f msgFlags
	c := &cobra.Command{
		Use:   "msg",
		Short: "Export and import messages as JSON lines",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	out := &cobra.Command{
		Use: "export QUEUE [FILE|-]", Short: "Write a queue's messages as JSON lines; the queue keeps them",
		Long: `Write the messages of a queue as JSON lines, in the queue's order, to a new FILE or standard output. The queue keeps them. Those that consumers hold
are among them. A line has all of a message: its sections, values with their AMQP types, the body in base64.`,
		Args: queueAndFile,
		RunE: func(c *cobra.Command, args []string) error { return exportQueue(c, f, args) },
	}
	out.Flags().StringVar(&f.admin, "admin", config.DefaultAdmin, "`ADDR` of the admin API of a node")
	out.Flags().Uint64Var(&f.after, "after", 0, "only messages behind this `POSITION`, such as the one where an export ended")
	in := &cobra.Command{
		Use: "import QUEUE [FILE|-]", Short: "Send the messages of JSON lines to a queue",
		Long: `Send the messages of JSON lines, from FILE or standard input, to a queue, in their order, in transactions of about
a thousand. Each is printed when it is committed. What broke off goes on with --after LINE, where the last one ended: nothing is
left out and nothing is there twice.`,
		Args: queueAndFile,
		RunE: func(c *cobra.Command, args []string) error { return importQueue(c, f, args) },
	}
	in.Flags().StringVar(&f.url, "url", "amqp://"+config.DefaultListen, "`ADDRESSES` of the nodes, separated by commas")
	in.Flags().StringVar(&f.user, "user", "", "`NAME` of the user")
	in.Flags().StringVar(&f.passwordFile, "password-file", "", "`FILE` whose first line is the password")
	in.Flags().StringVar(&f.ca, "ca", "", "`FILE` with the certificates that nodes are checked against, for amqps")
	in.Flags().Uint64Var(&f.after, "after", 0, "pass over the lines up to this `LINE`, counted from 1")
	c.AddCommand(out, in)
	return c
}

// queueAndFile wants a queue and perhaps a file.
func queueAndFile(c *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 || args[0] == "" {
		return fmt.Errorf("%w: %s takes a QUEUE and perhaps a FILE, or -", config.ErrUsage, c.CommandPath())
	}
	return nil
}

// exportQueue writes to a file that must not exist, or to standard output.
func exportQueue(c *cobra.Command, f msgFlags, args []string) (err error) {
	if err := config.Loopback("admin", f.admin); err != nil {
		return err
	}
	var r export.Result
	w, file := c.OutOrStdout(), append(args, "-")[1]
	if file != "-" {
		out, opening := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if opening != nil {
			return opening
		}
		defer func() { // of the named err: one that shadows it would be told to nobody
			err = errors.Join(err, out.Sync(), out.Close())
			if err != nil && r.Messages == 0 {
				err = errors.Join(err, os.Remove(file)) // there is nothing in it, and it would stand in the way of the next try
			}
		}()
		w = out
	}
	r, err = export.Export(c.Context(), f.admin, args[0], f.after, w)
	_, said := fmt.Fprintf(c.ErrOrStderr(), "%d messages of queue %s, up to position %d\n", r.Messages, args[0], r.Position)
	return errors.Join(adminError(err), said)
}

// importQueue reads a file or standard input.
func importQueue(c *cobra.Command, f msgFlags, args []string) error {
	cfg := oncemq.Config{CAFile: f.ca, Credentials: oncemq.Credentials{User: f.user}}
	if f.passwordFile != "" {
		r, err := os.Open(f.passwordFile)
		if err != nil {
			return fmt.Errorf("%w: --password-file: %w", config.ErrUsage, err)
		}
		p, err := firstLine(r, f.passwordFile)
		r.Close()
		if err != nil {
			return err
		}
		cfg.Credentials.Password = string(p)
	}
	return fromFile(c, append(args, "-")[1], func(r io.Reader) error {
		client, err := oncemq.Dial(c.Context(), f.url, &cfg)
		if err != nil {
			return err
		}
		defer client.Close(c.Context())
		done, err := export.Import(c.Context(), client, args[0], r, f.after, func(r export.Result) {
			fmt.Fprintf(c.ErrOrStderr(), "committed: %d messages, up to line %d\n", r.Messages, r.Position)
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, export.ErrUnknown) {
			err = fmt.Errorf("%w; go on with --after %d", err, done.Position)
		}
		return err
	})
}
