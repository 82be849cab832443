package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
)

// Members are the nodes of the cluster, as far as a node knows; they come and go while it runs.
type Members struct {
	// Addresses are their peer addresses by id, empty where one isn't known.
	Addresses map[uint64]string
	// Last is the highest id ever given: who is at or below it and no member was removed. Zero: not known.
	Last uint64
}

// ErrRemoved says that the other node knows that this one was removed from the cluster. It wraps ErrRefused.
var ErrRemoved = fmt.Errorf("%w: this node was removed from the cluster", ErrRefused)

// errNoAddress: who it is is known, and not yet where.
var errNoAddress = errors.New("its address isn't known yet")

// removedText begins the refusal that a removed node gets.
const removedText = "removed: "

// book is who the peers are and where they are found.
type book struct {
	mu      sync.RWMutex
	links   map[uint64]*link  // guarded by mu
	members Members           // guarded by mu
	heard   map[uint64]string // addresses that nodes have told in a hello; guarded by mu
	run     func(l *link)     // starts a link; nil before Run; guarded by mu
}

// link is the outgoing side towards a peer, or nil.
func (n *Network) link(peer uint64) *link {
	n.book.mu.RLock()
	defer n.book.mu.RUnlock()
	return n.book.links[peer]
}

// address is where a peer is dialled: where the operator has said, else where it has said itself, else where the state
// says.
func (n *Network) address(peer uint64) (string, error) {
	n.book.mu.RLock()
	defer n.book.mu.RUnlock()
	for _, from := range []map[uint64]string{n.config.Addresses, n.book.heard, n.book.members.Addresses} {
		if a := from[peer]; a != "" {
			return a, nil
		}
	}
	return "", fmt.Errorf("node %d: %w", peer, errNoAddress)
}

// SetMembers changes who the members are. Streams to and from a node that was removed end; to a new one they begin. m is
// the Network's from then on.
func (n *Network) SetMembers(m Members) {
	b := &n.book
	b.mu.Lock()
	if m.Last < b.members.Last {
		b.mu.Unlock()
		return // what a start finds in its files is older than what was applied since
	}
	for id, address := range m.Addresses {
		if address != "" && address != b.members.Addresses[id] {
			delete(b.heard, id) // the newer word
		}
	}
	b.members = m
	for id := range m.Addresses {
		n.addLink(id)
	}
	var gone []*link
	for id, l := range b.links {
		if n.removed(id) {
			gone = append(gone, l)
			delete(b.links, id)
			delete(b.heard, id)
		}
	}
	b.mu.Unlock()
	for _, l := range gone {
		l.cancel()
		n.dropAccepted(l.peer)
	}
}

// removed says that a node was a member and is none. b.mu is held.
func (n *Network) removed(id uint64) bool {
	_, member := n.book.members.Addresses[id]
	return !member && id <= n.book.members.Last
}

// addLink makes the link to a peer where there is none. b.mu is held.
func (n *Network) addLink(id uint64) {
	if id == n.config.Stamp.Node || n.book.links[id] != nil {
		return
	}
	l := &link{net: n, peer: id, kick: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	n.book.links[id] = l
	if n.book.run != nil {
		n.book.run(l)
	}
}

// runLinks starts all links, those that come later included; ctx ends them. It returns what keeps new ones from starting.
func (n *Network) runLinks(ctx context.Context, wg *sync.WaitGroup) (stop func()) {
	b := &n.book
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = func(l *link) {
		wg.Go(func() {
			defer context.AfterFunc(ctx, l.cancel)()
			select {
			case <-n.founded:
				l.run(l.ctx)
			case <-l.ctx.Done():
			}
		})
	}
	for _, l := range b.links {
		b.run(l)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.run = func(*link) {}
	}
}

// meet judges whether a node of the same cluster may talk to this one, and notes where it says it is. One that isn't known
// here yet is let in: it may be the leader that this node needs to hear of it.
func (n *Network) meet(h *hello) error {
	b := &n.book
	b.mu.Lock()
	defer b.mu.Unlock()
	id := h.stamp.Node
	switch {
	case n.removed(id) && n.removed(n.config.Stamp.Node):
		// Both were, and perhaps no member knows it yet: then it needs their votes to find out. Only a member sends them away.
		return fmt.Errorf("node %d was removed from the cluster, and so was node %d", id, n.config.Stamp.Node)
	case n.removed(id):
		return fmt.Errorf("%snode %d was removed from the cluster; empty its directory and join again", removedText, id)
	case b.links[id] == nil && b.members.Last == 0:
		return fmt.Errorf("node %d isn't among the nodes %v; check --peers", id, h.stamp.Voters)
	}
	n.addLink(id)
	if h.address != "" && h.address != b.members.Addresses[id] {
		b.heard[id] = h.address
	}
	return nil
}

// refusal is the error for the text that a handshake was refused with.
func refusal(text string) error {
	switch {
	case text == errNotFounded.Error():
		return errNotFounded
	case text == errRecovering.Error():
		return errRecovering
	case strings.HasPrefix(text, removedText):
		return fmt.Errorf("%w: %s", ErrRemoved, strings.TrimPrefix(text, removedText))
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// dropAccepted ends the connections that a node has dialled.
func (n *Network) dropAccepted(node uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn, from := range n.accepted {
		if from == node {
			conn.Close()
		}
	}
}

// accredit notes whose connection it is, and ends it where that node was removed since its hello was judged.
func (n *Network) accredit(conn net.Conn, node uint64) {
	n.mu.Lock()
	if _, open := n.accepted[conn]; open {
		n.accepted[conn] = node
	}
	n.mu.Unlock()
	n.book.mu.RLock()
	defer n.book.mu.RUnlock()
	if n.removed(node) {
		conn.Close()
	}
}

// newBook has links to the nodes that the configuration names.
func newBook(n *Network, config *Config) {
	n.book.links, n.book.heard = map[uint64]*link{}, map[uint64]string{}
	n.book.members = Members{Addresses: maps.Clone(config.Members.Addresses), Last: config.Members.Last}
	for _, from := range []map[uint64]string{config.Addresses, config.Members.Addresses} {
		for id := range from {
			n.addLink(id)
		}
	}
}
