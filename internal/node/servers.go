package node

import (
	"net"
	"strconv"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
)

// servers are the other members as clients reach them, with TLS or without: a client is told of them when it connects.
func (n *Node) servers(secure bool) (all []frontend.Server) {
	for _, x := range n.replica.Members() {
		address := x.Addresses.AMQP
		if secure {
			address = x.Addresses.AMQPS
		}
		host, text, err := net.SplitHostPort(address)
		port, err2 := strconv.ParseUint(text, 10, 16)
		if x.ID == command.NodeID(n.opts.Config.Node) || x.Leaving || err != nil || err2 != nil {
			continue
		}
		all = append(all, frontend.Server{Host: host, Port: uint16(port)})
	}
	return all
}
