package node

import (
	"net"
	"strconv"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/state"
)

// servers are the other members as clients reach them, with TLS or without: a client is told of them when it connects.
func (n *Node) servers(secure bool) []frontend.Server {
	return serversOf(n.replica.Members(), command.NodeID(n.opts.Config.Node), secure)
}

// serversOf leaves out who goes, and a loopback address of another machine's: a client would find the node that it comes from there.
func serversOf(members []state.MemberInfo, self command.NodeID, secure bool) (all []frontend.Server) {
	for i := range members {
		x := &members[i]
		address := x.Addresses.AMQP
		if secure {
			address = x.Addresses.AMQPS
		}
		host, text, err := net.SplitHostPort(address)
		port, err2 := strconv.ParseUint(text, 10, 16)
		if x.ID == self || x.Leaving || err != nil || err2 != nil || loopback(address) && !loopback(x.Addresses.Peer) {
			continue
		}
		all = append(all, frontend.Server{Host: host, Port: uint16(port)})
	}
	return all
}

// loopback says whether an address is this machine's alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
