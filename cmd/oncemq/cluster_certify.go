package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/node"
)

func (f *clusterFlags) certifyCommand() *cobra.Command {
	var opts node.CertifyOptions
	c := &cobra.Command{
		Use: "certify --cert FILE", Short: "Put in a node's certificate that your own authority has signed", Args: noArgs,
		Long: `Put in a node's certificate for other nodes that your own authority has signed, the first
one or a newer one. It is checked before: the node's URI name (oncemq://CLUSTER/NODE), the
key, the use for server and client, and the authority, which has to be one of DIR/pki/ca.crt.
A node that runs takes it within seconds.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if opts.Cert == "" {
				return config.Fault("cert", opts.Cert, "no file", "a PEM file with the node's certificate, and what is between it and the authority")
			}
			id, expires, err := node.Certify(opts)
			if err != nil {
				return fmt.Errorf("certify: %w", err)
			}
			shown := map[string]any{"cluster": hex.EncodeToString(id.Cluster[:]), "node": id.Node, "expires": expires.UTC().Format(time.RFC3339)}
			return f.print(c.OutOrStdout(), shown, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "node %d of cluster %x has this certificate until %s\n", id.Node, id.Cluster, expires.Local().Format(time.DateTime))
				return err
			})
		},
	}
	c.Flags().StringVar(&opts.Data, "data", config.DefaultData, "data `DIR` of the node")
	c.Flags().StringVar(&opts.Cert, "cert", "", "PEM `FILE` with the certificate and its chain")
	c.Flags().StringVar(&opts.Key, "key", "", "PEM `FILE` with its key (default: the node's own, of the request)")
	return c
}
