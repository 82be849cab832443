package state

import "github.com/oncemq/oncemq/internal/command"

// Machine is the replicated state of one group. It isn't safe for concurrent use:
// one goroutine owns it.
type Machine struct{}

// New is the machine before the first entry.
func New(group uint16) *Machine { panic("soon") }

// Load rebuilds a machine from its keys, which next yields in ascending order (all
// keys with the group's prefix; bodies may be left out: they are never read here,
// see BodyRange). Key and value are borrowed until the following call. Errors wrap
// ErrState.
func Load(group uint16, next func() (key, value []byte, ok bool)) (*Machine, error) { panic("soon") }

// Apply applies the entry at index: changes go to out, effects are appended to
// effects and returned. The entry's bytes may be kept in effects' payloads until the
// effects are dropped. Indexes rise. An error means that the node must stop; the
// machine is unusable then. A panic means the same (a broken invariant).
func (m *Machine) Apply(index uint64, entry []byte, out Changes, effects []command.Effect) ([]command.Effect, error) {
	panic("soon")
}

// Next is when the machine wants the next entry.
func (m *Machine) Next() Due { panic("soon") }

// Digest is the running hash over all changes up to the last entry applied [7.2].
func (m *Machine) Digest() uint64 { panic("soon") }

// Cluster is the cluster's identity and history; ok is false before ClusterInit.
func (m *Machine) Cluster() (id [16]byte, history uint16, ok bool) { panic("soon") }

// Times are the stamps of the last entry, in ms: civil since 1970, running since the
// cluster began. The next leader's stamps must not be lower.
func (m *Machine) Times() (civil, running int64) { panic("soon") }

// Epoch is the node's present epoch and the number that its next record must have.
// Zero epoch: the node has none now.
func (m *Machine) Epoch(node command.NodeID) (epoch command.Epoch, next uint64) { panic("soon") }

// Nodes lists the nodes that have an epoch now, ascending.
func (m *Machine) Nodes() []command.NodeID { panic("soon") }

// Queue is the queue of that name.
func (m *Machine) Queue(name string) (QueueInfo, bool) { panic("soon") }

// Queues lists all queues by name.
func (m *Machine) Queues() []QueueInfo { panic("soon") }

// Connections lists the live connections by id.
func (m *Machine) Connections() []ConnInfo { panic("soon") }

// Sessions counts sessions and tokens, ended ones that are still retained included.
func (m *Machine) Sessions() int { panic("soon") }

// Counters are the machine's sums.
func (m *Machine) Counters() Counters { panic("soon") }
