package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/backup"
	"github.com/oncemq/oncemq/internal/config"
)

// backupFlags are what the backup commands were given.
type backupFlags struct {
	admin, rate, keepFree    string
	stale                    bool
	data, node, peers, print string
}

func backupCommand() *cobra.Command {
	var f backupFlags
	c := &cobra.Command{
		Use:   "backup",
		Short: "Make, verify and restore backups",
		Long: `Make, verify and restore backups of a cluster: one consistent cut of everything that it has,
made while it runs.

A backup holds all messages, and what passwords are checked with: whoever has the file can read
the one and try to guess the other. It is made readable for its owner alone; keep it so.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	create := &cobra.Command{
		Use: "create [FILE|-]", Short: "Make a backup of a running node, with all that its cluster had acknowledged",
		Long: `Make a backup, through the admin API of any node that is ready, in a new file, or on standard output (-).
The file is there when the backup is whole and verified, or not at all. Without FILE it gets a name
made of the time.`,
		Args: oneFile(true),
		RunE: func(c *cobra.Command, args []string) error { return createBackup(c, f, append(args, "")[0]) },
	}
	create.Flags().StringVar(&f.admin, "admin", config.DefaultAdmin, "`ADDR` of the admin API of a node")
	create.Flags().StringVar(&f.rate, "rate", "128MiB", "how many `BYTES` a second are read of the node's disk at most; 0: as fast as it goes")
	create.Flags().StringVar(&f.keepFree, "keep-free", "256MiB", "how many `BYTES` must stay free of FILE's disk, which may be the node's own")
	create.Flags().BoolVar(&f.stale, "stale", false, "also of a node that reaches no majority: what it has, which may not be the newest")
	verify := &cobra.Command{
		Use: "verify FILE|-", Short: "Check every checksum of a backup", Args: oneFile(false),
		RunE: func(c *cobra.Command, args []string) error {
			return fromFile(c, args[0], func(r io.Reader) error {
				info, err := backup.Verify(r)
				if err != nil {
					return err
				}
				return printBackup(c, f, "whole", args[0], &info)
			})
		},
	}
	restore := &cobra.Command{
		Use: "restore FILE|- --data DIR --node N [--peers IDS]", Short: "Make a node's data directory of a backup",
		Long: `Make the data directory of a node of a new cluster that has all that the backup has. It must not exist, or be
empty. For a cluster of three, restore the same backup on each, with the same --peers; then start all three.

It is a new cluster, with a new history: transactions that were open or in doubt when the backup was made, and all that were
begun since, answer Expired. Messages that consumers had and had not settled are handed out again.
Don't let the old cluster and the new one serve the same clients.`,
		Args: oneFile(false),
		RunE: func(c *cobra.Command, args []string) error { return restoreBackup(c, f, args[0]) },
	}
	restore.Flags().StringVar(&f.data, "data", "", "`DIR` that is made")
	restore.Flags().StringVar(&f.node, "node", config.DefaultNode, "`ID` of the node that it is for")
	restore.Flags().StringVar(&f.peers, "peers", "", "the `IDS` of all nodes of the new cluster, such as 1,2,3, or what their --peers will be (default: this one alone)")
	for _, x := range []*cobra.Command{create, verify, restore} {
		c.AddCommand(withFormat(x, &f.print))
	}
	return c
}

// withFormat gives a command the flag --output, and refuses formats that aren't known.
func withFormat(c *cobra.Command, output *string) *cobra.Command {
	c.Flags().StringVarP(output, "output", "o", outputText, "`FORMAT` of what is printed: text or json")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := knownFormat(*output); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// oneFile wants the name of a file, perhaps.
func oneFile(optional bool) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" || len(args) == 0 && optional {
			return nil
		}
		return fmt.Errorf("%w: %s takes one FILE, or - for standard input or output", config.ErrUsage, c.CommandPath())
	}
}

// createBackup gets a backup from a node.
func createBackup(c *cobra.Command, f backupFlags, file string) error {
	if err := config.Loopback("admin", f.admin); err != nil {
		return err
	}
	rate, err := config.ParseBytes(f.rate)
	if err != nil {
		return config.Fault("rate", f.rate, err.Error(), "a number of bytes a second such as 128MiB, or 0")
	}
	room, err := config.ParseBytes(f.keepFree)
	if err != nil {
		return config.Fault("keep-free", f.keepFree, err.Error(), "a number of bytes such as 256MiB, or 0")
	}
	if file == "" {
		file = time.Now().Format("oncemq-20060102-150405.backup")
	}
	out, isFile := c.OutOrStdout().(*os.File)
	if info, err := outInfo(out, isFile); file == "-" && err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return fmt.Errorf("%w: a backup isn't for a terminal; name a file, or redirect the output", config.ErrUsage)
	}
	if file != "-" {
		if err := backup.Absent(file); err != nil {
			return err // the node hasn't begun anything
		}
	}
	stream, err := admin.OpenBackup(c.Context(), f.admin, rate, f.stale)
	if err != nil {
		return adminError(err)
	}
	defer stream.Close()
	if file == "-" {
		info, err := backup.Copy(c.OutOrStdout(), stream)
		if err != nil {
			return err
		}
		c.SetOut(c.ErrOrStderr())
		return printBackup(c, f, "made", "standard output", &info)
	}
	info, err := backup.Save(stream, file, uint64(room))
	if err != nil {
		return err
	}
	return printBackup(c, f, "made", file, &info)
}

// outInfo is what standard output is.
func outInfo(f *os.File, isFile bool) (os.FileInfo, error) {
	if !isFile {
		return nil, os.ErrInvalid
	}
	return f.Stat()
}

// fromFile opens a file, or standard input, for fn.
func fromFile(c *cobra.Command, file string, fn func(io.Reader) error) error {
	if file == "-" {
		return fn(c.InOrStdin())
	}
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := fn(r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func restoreBackup(c *cobra.Command, f backupFlags, file string) error {
	node, nodes, err := config.ParseNodes(f.node, f.peers)
	if err != nil {
		return err
	}
	if f.data == "" {
		return config.Fault("data", f.data, "no directory", "the path of a directory that doesn't exist, or is empty")
	}
	return fromFile(c, file, func(r io.Reader) error {
		info, err := backup.Restore(r, backup.RestoreOptions{Dir: f.data, Node: node, Voters: nodes})
		if err != nil {
			return err
		}
		return printBackup(c, f, fmt.Sprintf("restored to %s for node %d of %v", f.data, node, nodes), file, &info)
	})
}

// printBackup says what a backup is.
func printBackup(c *cobra.Command, f backupFlags, what, file string, i *backup.Info) error {
	m := &i.Manifest
	if f.print == outputJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{
			"file": file, "id": fmt.Sprintf("%x", i.ID), "made": i.Made.UTC().Format(time.RFC3339Nano), "bytes": i.Bytes, "cluster": fmt.Sprintf("%x", m.Cluster),
			"history": m.History, "node": m.Node, "entry": m.Index, "files": len(m.Files),
		})
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s; %d bytes, made %s by node %d of cluster %x, history %d, up to entry %d\n",
		file, what, i.Bytes, i.Made.Local().Format(time.DateTime), m.Node, m.Cluster, m.History, m.Index)
	return err
}

// adminError adds what to do about an error of the admin API that isn't an answer.
func adminError(err error) error {
	if said := (*admin.StatusError)(nil); err != nil && !errors.As(err, &said) {
		return fmt.Errorf("%w; is a node running there? --admin names another", err)
	}
	return err
}
