package state

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// Machine is the replicated state of one group. It isn't safe for concurrent use:
// one goroutine owns it.
type Machine struct {
	group    uint16
	cluster  [16]byte
	history  uint16
	founded  bool // ClusterInit was applied
	level    level
	civil    civilTime
	running  int64
	fault    error // of a command: the node must stop
	skips    []Skipped
	newSkips int // the last of skips, not written yet
	next     nextState
	counters Counters
	// handTurn is the id of the subscription at which hand-outs ran out of steps in
	// the last entry, 0 if they didn't: the next entry begins there.
	handTurn uint64

	nodes    map[command.NodeID]*node
	members  map[command.NodeID]*member
	lastNode command.NodeID // the highest id ever given [8.2]
	tokens   map[string]*joinToken
	// revision counts changes of members and configuration in memory, so that a reader sees whether there were any.
	revision uint64
	// configuration is raft's, as of the last entry.
	configuration Configuration
	conns         map[command.ConnID]*conn
	clients       map[clientKey]*client
	sessions      map[command.SessionID]*session
	ofUser        map[string]int // how many of sessions, by principal
	streams       map[uint64]*stream
	results       map[uint64]*results
	users         map[string]*user
	guarded       bool     // a UserPut was applied once: connections need a user
	userSeed      [32]byte // of that UserPut
	grace         timers[*session]
	retain        timers[*session]
	windows       map[uint64]*window
	lost          timers[*window]             // windows that nobody has attached, by civil time
	lostOf        map[string]*timers[*window] // the same by principal
	// former are sessions of earlier histories that are still to be forgotten, by id; the tables don't have them.
	former []*session

	addresses   []*address // by slot; slot 0 is none, free ones are nil
	freeAddress []uint32
	byName      map[string]*address
	byInc       map[command.Incarnation]*address
	links       []*link // by slot, as addresses
	freeLink    []uint32
	linkByID    map[uint64]*link
	// subscriptions are those of topics, by slot, as addresses.
	subscriptions    []*subscription
	freeSubscription []uint32
	subscriptionByID map[uint64]*subscription
	named            map[subscriptionKey]*subscription
	deliveryAt       map[deliveryKey]uint32 // of topics
	published        []*address             // topics that got messages in this entry

	messages   slab[message]
	deliveries slab[delivery]
	chunks     slab[chunk]
	cells      slab[cell] // of heads
	timers     slab[expiry]
	expiries   expiryHeap
	chunkAt    map[chunkKey]uint32
	overlays   map[uint32][]byte     // by message; only of those that have one
	moved      map[uint32]origin     // by message; dead letters
	holders    map[origin]uint32     // how many dead letters have their body there
	apart      map[bodyChunk]uint32  // how many bodies of a chunk belong to dead letters elsewhere
	excluded   map[uint32]exclusions // by delivery; undeliverable-here
	// kept is what overlays, results, outcomes and refusals cost, partBytes what the large commands under way have in memory.
	kept, partBytes uint64
	room            room            // as of the last entry's end
	ending          []*link         // return jobs, by id [4.2]
	working         []*subscription // deletions and purges under way, by id
	touched         []*subscription // those that may have something to hand out
	// maxSteps bounds an entry's work [4.2]; leastSteps is what jobs and hand-outs get
	// behind an entry full of commands.
	maxSteps, leastSteps int
	maxOfUser            int              // sessions and tokens of one user
	maxLost              int              // lost windows of one user
	steps                int              // done in this entry
	ticked               bool             // a Tick is in this entry
	index                uint64           // of this entry
	place                int              // of this command in it
	record               command.Record   // that this command stands in
	effects              []command.Effect // of this entry
	applied              []command.Effect // EffectApplied and EffectExpected, one per node
	plan                 plan             // from check to change
	decoder              command.Decoder  // of records
	inner                command.Decoder  // of commands that came in parts
	out                  Changes          // of this entry
	digest               uint64           // after the last entry
	hash                 *xxhash.Digest   // of this entry
	dirty                dirty            // what flush writes
	keyBuf               []byte           // scratch
	valueBuf             []byte           // scratch
	scratch              []uint64         // scratch
	headBuf              []byte           // scratch
}

// New is the machine before the first entry.
func New(group uint16) *Machine {
	m := &Machine{
		group:     group,
		level:     level{number: command.Level},
		nodes:     make(map[command.NodeID]*node),
		revision:  1,
		members:   make(map[command.NodeID]*member),
		tokens:    make(map[string]*joinToken),
		conns:     make(map[command.ConnID]*conn),
		clients:   make(map[clientKey]*client),
		sessions:  make(map[command.SessionID]*session),
		ofUser:    make(map[string]int),
		users:     make(map[string]*user),
		streams:   make(map[uint64]*stream),
		results:   make(map[uint64]*results),
		grace:     timers[*session]{which: 0},
		retain:    timers[*session]{which: 1},
		windows:   make(map[uint64]*window),
		lostOf:    make(map[string]*timers[*window]),
		addresses: make([]*address, 1),
		byName:    make(map[string]*address),
		byInc:     make(map[command.Incarnation]*address),
		links:     make([]*link, 1),
		linkByID:  make(map[uint64]*link),

		subscriptions:    make([]*subscription, 1),
		subscriptionByID: make(map[uint64]*subscription),
		named:            make(map[subscriptionKey]*subscription),
		deliveryAt:       make(map[deliveryKey]uint32),

		chunkAt:  make(map[chunkKey]uint32),
		overlays: make(map[uint32][]byte),
		moved:    make(map[uint32]origin),
		holders:  make(map[origin]uint32),
		apart:    make(map[bodyChunk]uint32),
		excluded: make(map[uint32]exclusions),
		hash:     xxhash.New(),
		maxSteps: maxSteps, leastSteps: leastSteps, maxOfUser: maxUserSessions, maxLost: maxUserLost,
	}
	return m
}

// Next is when the machine wants the next entry.
func (m *Machine) Next() Due {
	return Due{
		Running: m.grace.next(),
		Civil:   min(m.civil.due(min(m.retain.next(), m.lost.next())), m.nextExpiry()),
		Job:     len(m.former) > 0 || len(m.ending) > 0 || len(m.working) > 0 || len(m.touched) > 0,
	}
}

// Jobs counts what goes on in later entries [4.2]: returns of ended links, purges and deletions.
func (m *Machine) Jobs() int { return len(m.ending) + len(m.working) }

// Digest is the running hash over all changes up to the last entry applied [7.2].
func (m *Machine) Digest() uint64 { return m.digest }

// Cluster is the cluster's identity and history; ok is false before ClusterInit.
func (m *Machine) Cluster() (id [16]byte, history uint16, ok bool) {
	return m.cluster, m.history, m.founded
}

// Times are the stamps of the last entry, in ms: civil since 1970, running since the
// cluster began. The next leader's stamps must not be lower.
func (m *Machine) Times() (civil, running int64) { return m.civil.now, m.running }

// Epoch is the node's present epoch and the number that its next record must have.
// Zero epoch: the node has none now.
func (m *Machine) Epoch(id command.NodeID) (epoch command.Epoch, next uint64) {
	n := m.nodes[id]
	if n == nil || n.epoch == 0 {
		return 0, 0
	}
	return n.epoch, n.last + 1
}

// Nodes lists the nodes that have an epoch now, ascending.
func (m *Machine) Nodes() []command.NodeID {
	var live []command.NodeID
	for _, id := range sortedKeys(m.nodes) {
		if m.nodes[id].epoch != 0 {
			live = append(live, id)
		}
	}
	return live
}

// Queue is the queue of that name.
func (m *Machine) Queue(name string) (QueueInfo, bool) {
	a := m.byName[name]
	if a == nil {
		return QueueInfo{}, false
	}
	return a.info(), true
}

// Queues lists all queues by name.
func (m *Machine) Queues() []QueueInfo {
	all := make([]QueueInfo, 0, len(m.byName))
	for _, name := range sortedKeys(m.byName) {
		all = append(all, m.byName[name].info())
	}
	return all
}

// Connections lists the live connections by id.
func (m *Machine) Connections() []ConnInfo {
	all := make([]ConnInfo, 0, len(m.conns))
	for _, id := range sortedKeys(m.conns) {
		c := m.conns[id]
		all = append(all, ConnInfo{
			Conn: id, Node: c.node, Local: c.local, Principal: c.client.key.principal,
			ContainerID: c.client.key.container, Links: len(c.links),
		})
	}
	return all
}

// Sessions counts sessions and tokens, ended ones that are still retained included.
func (m *Machine) Sessions() int { return len(m.sessions) }

// Counters are the machine's sums.
func (m *Machine) Counters() Counters { return m.counters }

// ordered is what keys of the machine's maps are made of.
type ordered interface {
	~uint16 | ~uint32 | ~uint64 | ~string
}

// sortedKeys is the one way in which this package walks over a map [4.3].
func sortedKeys[K ordered, V any](in map[K]V) []K {
	keys := make([]K, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	if !mutant.On(mutant.MapOrder) {
		slices.Sort(keys)
	}
	return keys
}
