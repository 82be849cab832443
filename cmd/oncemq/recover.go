package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/replica"
)

func recoverCommand() *cobra.Command {
	var force, yes bool
	data := ""
	c := &cobra.Command{
		Use: "recover", Short: "Last resorts, in the directory of a node that isn't running", Args: noArgs,
		Long: `Last resorts, in the directory of a node that isn't running.

With --force-new-cluster: make the data directory of a node whose cluster has lost its
majority for good that of the only node of a new cluster. Others join it then. It keeps
everything that this node's log has. What the lost nodes had accepted besides is lost,
and nobody can say what that is; what may be lost is printed first, and nothing is
changed without --yes. A new history begins: no node of the old cluster can come back,
and transactions of the old history answer Expired. A call that was broken off is
repeated. Exit status: 0 done, 1 it could not be done, 2 wrong usage, or no --yes.`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case !force:
				return c.Help()
			case data == "":
				return fmt.Errorf("%w: --data is needed", config.ErrUsage)
			}
			return forceNewCluster(c, data, yes)
		},
	}
	flags := c.Flags()
	flags.StringVar(&data, "data", data, "data `DIR` of the survivor")
	flags.BoolVar(&force, "force-new-cluster", false, "begin a new cluster with this node alone")
	flags.BoolVar(&yes, "yes", false, "do it, and lose what may be lost")
	c.AddCommand(skipCommand())
	return c
}

func skipCommand() *cobra.Command {
	var o replica.SkipOptions
	output := outputText
	c := &cobra.Command{
		Use: "skip", Short: "Pass over an entry that stops every node", Args: noArgs,
		Long: `Pass over an entry that stops every node, since the program has a fault: the node said
"the program has a fault, which this entry meets" and named it. A version that has the fault put
right is the better way; this one gives the entry up: none of its commands is carried out, on
any node, what it would have decided is rolled back, and the state remembers that it was skipped.

Stop all nodes, run this on every one of them, with the same index and term, and start them. A
node that doesn't skip the entry stops at it again. The nodes compare their states behind it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != outputText && output != outputJSON {
				return config.Fault("output", output, "not a format", "text or json")
			}
			if o.Index == 0 || o.Dir == "" {
				return fmt.Errorf("%w: --index and --data are needed", config.ErrUsage)
			}
			r, err := replica.SkipEntry(o)
			if err != nil {
				return fmt.Errorf("skipping entry %d in %s: %w", o.Index, o.Dir, err)
			}
			if output == outputJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(r)
			}
			return printSkip(c.OutOrStdout(), &r)
		},
	}
	flags := c.Flags()
	flags.Uint64Var(&o.Index, "index", 0, "`N`, the entry's index")
	flags.Uint64Var(&o.Term, "term", 0, "the entry's `TERM` (default: that of the entry in this directory's log)")
	flags.StringVar(&o.Dir, "data", "", "data `DIR` of a node that isn't running")
	flags.StringVarP(&output, "output", "o", output, "`FORMAT` of what is printed: text or json")
	return c
}

func printSkip(out io.Writer, r *replica.SkipReport) error {
	what := "which isn't in this node's log yet"
	if r.InLog {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(r.Commands)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", r.Commands[kind], kind))
		}
		what = fmt.Sprintf("%d bytes: %s", r.Bytes, strings.Join(kinds, ", "))
	}
	fmt.Fprintf(out, "node %d will pass over entry %d of term %d (%s)\n", r.Node, r.Index, r.Term, what)
	if r.Index > r.Commit {
		fmt.Fprintf(out, "this node doesn't know yet that the entry is committed: it knows that of %d\n", r.Commit)
	}
	_, err := fmt.Fprintf(out, "do the same on every other node before you start any: oncemq recover skip --index %d --term %d --data DIR\n", r.Index, r.Term)
	return err
}
