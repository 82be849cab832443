package replica

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// countingMachine keeps the rules of the node's own commands (epochs, unbroken sequence,
// parts) and otherwise only remembers the bodies that it applied, in order.
type countingMachine struct {
	mu      sync.Mutex // tests read while the apply goroutine applies
	civil   int64
	running int64
	cluster [16]byte
	nodes   map[command.NodeID]*countedNode
	bodies  uint64 // applied
	sum     uint64 // over the applied bodies, in order
	last    []byte // the newest body
	large   int    // bodies that came in parts
	due     state.Due
	ticks   int
	dec     command.Decoder
}

type countedNode struct {
	epoch command.Epoch
	nonce [16]byte
	next  uint64
	parts []byte
}

func newCountingMachine(s State) (machine, error) {
	m := &countingMachine{nodes: map[command.NodeID]*countedNode{}, due: state.Due{Running: state.Never, Civil: state.Never}}
	err := s.IterateRange([]byte{0, 0}, []byte{0, 1}, func(_, v []byte) bool {
		u := func() uint64 { x := binary.BigEndian.Uint64(v); v = v[8:]; return x }
		m.civil, m.running, m.bodies, m.sum, m.large = int64(u()), int64(u()), u(), u(), int(u())
		copy(m.cluster[:], v)
		for v = v[16:]; len(v) > 0; {
			id, n := command.NodeID(u()), &countedNode{}
			n.epoch, n.next = command.Epoch(u()), u()
			copy(n.nonce[:], v)
			v = v[16:]
			size := int(u())
			n.parts, v = slices.Clone(v[:size]), v[size:]
			m.nodes[id] = n
		}
		return true
	})
	return m, err
}

// The members of a counting machine are always the founding ones.

func (m *countingMachine) Configure(uint64, state.Configuration, state.Changes, []command.Effect) ([]command.Effect, error) {
	panic("a counting machine's configuration never changes")
}

func (m *countingMachine) Configuration() (state.Configuration, bool) {
	return state.Configuration{}, false
}

func (m *countingMachine) Slice(*state.Browser) (command.BrowseSlice, int) {
	return command.BrowseSlice{}, 1
}
func (m *countingMachine) Members() []state.MemberInfo { return nil }
func (m *countingMachine) MembersRevision() uint64     { return 0 }
func (m *countingMachine) LastNode() command.NodeID    { return 0 }
func (m *countingMachine) Nodes() (live []command.NodeID) {
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		if m.nodes[id].epoch != 0 {
			live = append(live, id)
		}
	}
	return live
}

func (m *countingMachine) save(out state.Changes) {
	v := binary.BigEndian.AppendUint64(nil, uint64(m.civil))
	for _, x := range []uint64{uint64(m.running), m.bodies, m.sum, uint64(m.large)} {
		v = binary.BigEndian.AppendUint64(v, x)
	}
	v = append(v, m.cluster[:]...)
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[id]
		for _, x := range []uint64{uint64(id), uint64(n.epoch), n.next} {
			v = binary.BigEndian.AppendUint64(v, x)
		}
		v = append(v, n.nonce[:]...)
		v = append(binary.BigEndian.AppendUint64(v, uint64(len(n.parts))), n.parts...)
	}
	out.Put([]byte{0, 0, 'm'}, v)
}

func (m *countingMachine) Apply(index uint64, entry []byte, out state.Changes, effects []command.Effect) ([]command.Effect, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, records, err := command.DecodeEntry(entry)
	if err != nil {
		return effects, err
	}
	if h.Civil < m.civil || h.Running < m.running {
		panic("time goes back")
	}
	m.civil, m.running = h.Civil, h.Running
	appliedTo := map[command.NodeID]uint64{}
	for len(records) > 0 {
		var r command.Record
		if r, records, err = command.DecodeRecord(records); err != nil {
			return effects, err
		}
		if r.Node == 0 {
			effects = m.system(index, r.Body, effects)
			continue
		}
		n := m.nodes[r.Node]
		switch {
		case n == nil || r.Epoch != n.epoch:
		case r.Number > n.next:
			effects = append(effects, command.Effect{Kind: command.EffectExpected, Node: r.Node, Epoch: n.epoch, Number: n.next})
		case r.Number == n.next:
			n.next++
			appliedTo[r.Node] = r.Number
			effects = m.body(r.Node, n, r.Body, effects)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(appliedTo)) {
		effects = append(effects, command.Effect{Kind: command.EffectApplied, Node: id, Epoch: m.nodes[id].epoch, Number: appliedTo[id]})
	}
	m.save(out)
	return effects, nil
}

func (m *countingMachine) system(index uint64, body []byte, effects []command.Effect) []command.Effect {
	m.dec.Reset(body)
	for c := m.dec.Next(); c != nil; c = m.dec.Next() {
		switch c := c.(type) {
		case *command.ClusterInit:
			m.cluster = c.Cluster
		case *command.Tick:
			m.ticks++
			m.due = state.Due{Running: state.Never, Civil: state.Never}
		case *command.NodeUp:
			n := m.nodes[c.Node]
			if n == nil || n.nonce != c.Nonce {
				n = &countedNode{epoch: command.Epoch(index), nonce: c.Nonce, next: 1}
				m.nodes[c.Node] = n
			}
			effects = append(effects, command.Effect{Kind: command.EffectNodeUp, Node: c.Node, Number: uint64(n.epoch), Detail: c.Nonce})
		case *command.NodeDown:
			if n := m.nodes[c.Node]; n != nil && n.epoch == c.Epoch {
				delete(m.nodes, c.Node)
				effects = append(effects, command.Effect{Kind: command.EffectNodeDown, Node: c.Node, Number: uint64(c.Epoch)})
			}
		}
	}
	return effects
}

func (m *countingMachine) body(id command.NodeID, n *countedNode, body []byte, effects []command.Effect) []command.Effect {
	m.dec.Reset(body)
	if part, ok := m.dec.Next().(*command.Part); ok && m.dec.Err() == nil {
		if part.Offset != uint64(len(n.parts)) {
			panic("a part is missing")
		}
		n.parts = append(n.parts, part.Data...)
		if !part.Last {
			return effects
		}
		body, n.parts = n.parts, nil
		m.large++
	}
	m.bodies++
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, m.sum))
	h.Write(body)
	m.sum, m.last = h.Sum64(), slices.Clone(body)
	// Local 7 stands for the connection that proposed it.
	return append(effects, command.Effect{Kind: command.EffectSent, Node: id, Epoch: n.epoch, Local: 7, Payload: m.last})
}

func (m *countingMachine) Next() state.Due { m.mu.Lock(); defer m.mu.Unlock(); return m.due }
func (m *countingMachine) Digest() uint64  { m.mu.Lock(); defer m.mu.Unlock(); return m.sum }
func (m *countingMachine) Cluster() ([16]byte, uint16, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cluster, 0, m.cluster != [16]byte{}
}

func (m *countingMachine) Times() (civil, running int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.civil, m.running
}

func (m *countingMachine) Stamp() command.EntryHeader {
	civil, running := m.Times()
	return command.EntryHeader{Civil: civil, Running: running}
}

func (m *countingMachine) Reported(command.NodeID) [4]uint64        { return [4]uint64{} }
func (m *countingMachine) Level() (uint32, string)                  { return command.Level, "" }
func (m *countingMachine) Skip(uint64, []byte, state.Changes) error { panic("nothing is skipped here") }

func (m *countingMachine) Epoch(id command.NodeID) (command.Epoch, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.nodes[id]; n != nil {
		return n.epoch, n.next
	}
	return 0, 0
}

// NodeRoom: it doesn't count.
func (m *countingMachine) NodeRoom(id command.NodeID) (command.NodeRoom, bool) {
	return command.NodeRoom{}, false
}
