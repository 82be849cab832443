package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/config"
)

// clusterFlags are what the cluster commands were given.
type clusterFlags struct {
	admin  string
	output string
}

const (
	outputText = "text"
	outputJSON = "json"
)

func clusterCommand() *cobra.Command {
	var f clusterFlags
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Make a cluster, let nodes join and leave, move its leadership and its clients",
		Long: `Make a cluster, let nodes join and leave, move its leadership and its clients.

  oncemq cluster init --data n1                        # once: prints the first user's password
  oncemq serve --data n1 --peer-listen 10.0.0.1:5673 &
  oncemq cluster token                                 # on that machine, for each node that joins
  oncemq cluster join --token-file - --data n2 --peer-listen 10.0.0.2:5673
  oncemq serve --data n2 --peer-listen 10.0.0.2:5673 &

All but init, join and certify speak to the admin API of a running node.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVarP(&f.output, "output", "o", outputText, "`FORMAT` of what is printed: text or json")
	remote := []*cobra.Command{
		{
			Use: "status", Short: "Show the members", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error { return f.status(c) },
		},
		f.tokenCommand(),
		f.removeCommand(), f.transferCommand(), f.finalizeCommand(), f.setTimeCommand(),
		{
			Use: "step-down", Short: "Move leadership to another node", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error { return f.move(c, "/api/v1/cluster/step-down", nil) },
		},
		f.awaitQuorumCommand(), f.drainCommand(), f.reviveCommand(), f.rebalanceCommand(),
	}
	for _, x := range remote {
		x.Flags().StringVar(&f.admin, "admin", config.DefaultAdmin, "`ADDR` of the admin API of a node")
	}
	c.AddCommand(remote...)
	c.AddCommand(f.initCommand(), f.joinCommand(), f.certifyCommand())
	for _, x := range c.Commands() {
		run := x.RunE
		x.RunE = func(c *cobra.Command, args []string) error {
			if err := knownFormat(f.output); err != nil {
				return err
			}
			return run(c, args)
		}
	}
	return c
}

// knownFormat refuses an --output that isn't one.
func knownFormat(output string) error {
	if output != outputText && output != outputJSON {
		return config.Fault("output", output, "not a format", "text or json")
	}
	return nil
}

func oneNode(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: %s takes one NODE, its id or name", config.ErrUsage, c.CommandPath())
	}
	return nil
}

func someNodes(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: %s takes NODEs, their ids or names", config.ErrUsage, c.CommandPath())
	}
	return nil
}

// print writes v as JSON, or as text says.
func (f *clusterFlags) print(out io.Writer, v any, text func(io.Writer) error) error {
	if f.output == outputJSON {
		return json.NewEncoder(out).Encode(v)
	}
	return text(out)
}

// call asks the admin API.
func (f *clusterFlags) call(c *cobra.Command, method, path string, body, answer any) error {
	return callAdmin(c.Context(), f.admin, method, path, body, answer)
}

func (f *clusterFlags) status(c *cobra.Command) error {
	var cl admin.Cluster
	if err := f.call(c, http.MethodGet, "/api/v1/cluster", nil, &cl); err != nil {
		return err
	}
	return f.print(c.OutOrStdout(), cl, func(out io.Writer) error {
		fmt.Fprintf(out, "cluster %s, history %d, leader %d, feature level %d\n", cl.ID, cl.History, cl.Leader, cl.Level)
		if cl.Supported > cl.Level {
			fmt.Fprintf(out, "every member knows feature level %d; \"oncemq cluster finalize\" raises it, and then there is no way back to the version before\n", cl.Supported)
		}
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NODE\tNAME\tROLE\tSTATE\tCONNECTIONS\tPEER\tCLIENTS")
		for i := range cl.Members {
			m := &cl.Members[i]
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", m.Node, m.Name, m.Role, stateOf(m, cl.Leader), m.Connections, m.Peer, clientsOf(m))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, t := range cl.Tokens {
			replace := ""
			if t.Replace != 0 {
				replace = fmt.Sprintf(", in the place of node %d", t.Replace)
			}
			fmt.Fprintf(out, "a token that a node can join with%s, until %s\n", replace, t.Expires.Local().Format(time.DateTime))
		}
		return nil
	})
}

// stateOf is how a member stands, in a word or two.
func stateOf(m *admin.Member, leader uint64) string {
	s := "down"
	switch {
	case m.Up && m.Node == leader:
		s = "leads"
	case m.Up:
		s = "up"
	}
	if m.Leaving {
		s += ", leaving"
	}
	return s
}

// clientsOf are a member's addresses for clients.
func clientsOf(m *admin.Member) string {
	var urls []string
	if m.AMQP != "" {
		urls = append(urls, "amqp://"+m.AMQP)
	}
	if m.AMQPS != "" {
		urls = append(urls, "amqps://"+m.AMQPS)
	}
	return strings.Join(urls, " ")
}

// nodeID is the member of that id or name.
func (f *clusterFlags) nodeID(c *cobra.Command, text string) (uint64, error) {
	if id, err := strconv.ParseUint(text, 10, 64); err == nil {
		return id, nil
	}
	var cl admin.Cluster
	if err := f.call(c, http.MethodGet, "/api/v1/cluster", nil, &cl); err != nil {
		return 0, err
	}
	var ids []uint64
	for i := range cl.Members {
		if cl.Members[i].Name == text {
			ids = append(ids, cl.Members[i].Node)
		}
	}
	if len(ids) != 1 {
		return 0, fmt.Errorf(`%d members have the name %q; "oncemq cluster status" lists their ids`, len(ids), text)
	}
	return ids[0], nil
}

func (f *clusterFlags) transferCommand() *cobra.Command {
	return &cobra.Command{
		Use: "transfer NODE", Short: "Move leadership to a node", Args: oneNode,
		RunE: func(c *cobra.Command, args []string) error {
			id, err := f.nodeID(c, args[0])
			if err != nil {
				return err
			}
			return f.move(c, "/api/v1/cluster/transfer", map[string]uint64{"to": id})
		},
	}
}

func (f *clusterFlags) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NODE...", Short: "Let members leave, in one step", Args: someNodes,
		Long: `Let members leave. What would leave a cluster of two voters is refused: let another
node join first (cluster token --replace), or name two of three.

A member that is gone never comes back: its directory is worth nothing any more, and
its machine can join again with an empty one.`,
		RunE: func(c *cobra.Command, args []string) error { return f.remove(c, args) },
	}
}

func (f *clusterFlags) remove(c *cobra.Command, args []string) error {
	var ids []uint64
	for _, a := range args {
		id, err := f.nodeID(c, a)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var answer struct {
		Leaving []uint64 `json:"leaving"`
	}
	if err := f.call(c, http.MethodPost, "/api/v1/cluster/remove", map[string][]uint64{"nodes": ids}, &answer); err != nil {
		return err
	}
	return f.print(c.OutOrStdout(), answer, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "nodes %v leave the cluster; \"oncemq cluster status\" shows them until they are gone\n", answer.Leaving)
		return err
	})
}

func (f *clusterFlags) move(c *cobra.Command, path string, body any) error {
	var answer struct {
		Leader uint64 `json:"leader"`
	}
	if err := f.call(c, http.MethodPost, path, body, &answer); err != nil {
		return err
	}
	return f.print(c.OutOrStdout(), answer, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "node %d leads\n", answer.Leader)
		return err
	})
}

func (f *clusterFlags) awaitQuorumCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "await-quorum", Short: "Wait until this node can be stopped without the cluster losing its majority", Args: noArgs,
		Long: `Wait until this node can be stopped without the cluster losing its majority: until
enough other nodes are there and have all that was acknowledged. For a lone node it
returns at once, and says so. Exit status 1: not within the time.`,
		RunE: func(c *cobra.Command, _ []string) error { return f.awaitQuorum(c, timeout) },
	}
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long it waits")
	return c
}

// pollEvery is how often a command asks again for what it waits for.
const pollEvery = 200 * time.Millisecond

func (f *clusterFlags) awaitQuorum(c *cobra.Command, timeout time.Duration) error {
	late := time.After(timeout)
	for {
		var q admin.Quorum
		err := f.call(c, http.MethodGet, "/api/v1/node/quorum", nil, &q)
		said := (*admin.StatusError)(nil)
		switch {
		case err == nil && q.MayStop:
			return f.print(c.OutOrStdout(), q, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, q.Why)
				return err
			})
		case err != nil && !(errors.As(err, &said) && said.Code == http.StatusServiceUnavailable):
			return err
		case err != nil:
			q.Why = err.Error()
		}
		select {
		case <-time.After(pollEvery):
		case <-late:
			return fmt.Errorf("after %s this node still can't be stopped: %s", timeout, q.Why)
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
}

func (f *clusterFlags) drainCommand() *cobra.Command {
	var over, timeout time.Duration
	c := &cobra.Command{
		Use: "drain", Short: "Move this node's leadership and clients to other nodes", Args: noArgs,
		Long: `Move this node's leadership and clients to other nodes, before it is stopped or worked
on: it is not ready and lets nobody in until "cluster revive" or a restart, and goes on
to vote and to keep the log. Returns once no client is left.`,
		RunE: func(c *cobra.Command, _ []string) error { return f.drain(c, over, timeout) },
	}
	c.Flags().DurationVar(&over, "over", 10*time.Second, "over how long the connections are closed")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long it waits beyond that; 0: not at all")
	return c
}

func (f *clusterFlags) drain(c *cobra.Command, over, timeout time.Duration) error {
	var s admin.NodeService
	err := f.call(c, http.MethodPost, "/api/v1/node/drain", map[string]string{"over": over.String()}, &s)
	late := time.After(over + timeout)
	for err == nil && timeout > 0 && (s.Connections > 0 || s.Leads && !f.alone(c)) {
		select {
		case <-time.After(pollEvery):
		case <-late:
			return fmt.Errorf("node %d still has %d connections after %s (leads: %v); it goes on draining", s.Node, s.Connections, over+timeout, s.Leads)
		case <-c.Context().Done():
			return c.Context().Err()
		}
		if err = f.call(c, http.MethodGet, "/api/v1/node", nil, &s); err == nil && !s.Drained {
			return fmt.Errorf("node %d was revived meanwhile", s.Node)
		}
	}
	if err != nil {
		return err
	}
	return f.print(c.OutOrStdout(), s, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "node %d is drained, %d connections are left\n", s.Node, s.Connections)
		return err
	})
}

// alone says that no other node could lead.
func (f *clusterFlags) alone(c *cobra.Command) bool {
	var cl admin.Cluster
	if f.call(c, http.MethodGet, "/api/v1/cluster", nil, &cl) != nil {
		return false
	}
	for i := range cl.Members {
		if m := &cl.Members[i]; m.Node != cl.Node && m.Role == "voter" && m.Up {
			return false
		}
	}
	return true
}

func (f *clusterFlags) reviveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revive", Short: "Open a drained node to clients again", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var s admin.NodeService
			if err := f.call(c, http.MethodPost, "/api/v1/node/revive", nil, &s); err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), s, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "node %d is open to clients\n", s.Node)
				return err
			})
		},
	}
}

func (f *clusterFlags) rebalanceCommand() *cobra.Command {
	var over time.Duration
	c := &cobra.Command{
		Use: "rebalance", Short: "Close this node's connections above the average", Args: noArgs,
		Long: `Close this node's connections above the average of the nodes that are up, so that they
go to others, as is of use for the nodes that had all clients while others were
restarted: "cluster status" shows which. It acts on the node that is asked alone: where two
have more than the average, ask each of them.`,
		RunE: func(c *cobra.Command, _ []string) error {
			var r admin.Rebalanced
			if err := f.call(c, http.MethodPost, "/api/v1/node/rebalance", map[string]string{"over": over.String()}, &r); err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), r, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%d connections, %d on average; %d are being closed\n", r.Connections, r.Average, r.Closing)
				return err
			})
		},
	}
	c.Flags().DurationVar(&over, "over", 10*time.Second, "over how long the connections are closed")
	return c
}
