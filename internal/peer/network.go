package peer

import "context"

// Network is a node's connections to all its peers. Methods are safe for concurrent use.
type Network struct{}

// New checks the configuration; it starts nothing.
func New(config Config) *Network { panic("soon") }

// Run serves and dials until ctx ends; it returns when all its goroutines are gone. Streams
// are dialled only once the stamp names a cluster; Ask is answered from the start.
func (n *Network) Run(ctx context.Context) { panic("soon") }

// SetStamp changes the stamp when the cluster is founded.
func (n *Network) SetStamp(s Stamp) { panic("soon") }

// Ask asks a peer for its stamp: the bootstrap question "are you empty?" [8.2]. ErrRefused
// where it won't talk to this node.
func (n *Network) Ask(ctx context.Context, peer uint64) (Stamp, error) { panic("soon") }

// SendRaft queues a raft message, on the urgent or the bulk stream. false: not connected, or
// the queue is full; the message is dropped.
func (n *Network) SendRaft(to uint64, urgent bool, p Payload) bool { panic("soon") }

// SendRecords queues records on the bulk stream; Data is owned by the Network from then on.
// false: nothing was queued; send again later.
func (n *Network) SendRecords(to uint64, r Records) bool { panic("soon") }

// SendNote queues a note on the urgent stream. false: it was not.
func (n *Network) SendNote(to uint64, note Note) bool { panic("soon") }

// Connected reports that both streams to the peer are open.
func (n *Network) Connected(peer uint64) bool { panic("soon") }
