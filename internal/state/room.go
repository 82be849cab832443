package state

import (
	"github.com/oncemq/oncemq/internal/command"
)

// What things cost in memory, in bytes, as the count against the nodes' budgets has it [8.5]: about what they take, and part of
// the behaviour of the feature level, since refusals hang on it [7.1].
const (
	messageCost  = 56
	chunkCost    = 336
	cellCost     = 40
	deliveryCost = 96
	movedCost    = 72
	overlayCost  = 64 // and its bytes
	resultCost   = 96
	outcomeCost  = 64 // and the bytes of a reason that has no code
	refusalCost  = 256
	queueCost    = 1024
	linkCost     = 768
	expiryCost   = 32

	subscriptionCost  = 1024
	topicDeliveryCost = 48 // beside a delivery's
	holderCost        = 64 // of a dead letter
	connCost          = 1024
	sessionCost       = 1024
	streamCost        = 512
	windowCost        = 512
	storedIDCost      = 32
	userCost          = 1024
)

// room is what the nodes have said of their room, put together.
type room struct {
	disk   command.Room
	budget uint64 // bytes of state that every node has memory for; 0: nobody says
}

// lowShare is the part of the budget, in percent, from which memory is low.
const lowShare = 80

// reckonRoom puts together what the nodes have said. The disks of a majority of the voters take every entry: one that is down
// counts among those that can't, since the entry needs the others then. The budget is the smallest one, of a node that is down as
// well: it has to hold the state when it comes back.
func (m *Machine) reckonRoom() {
	r := room{}
	worst := command.RoomOK
	for _, id := range sortedKeys(m.nodes) {
		n := m.nodes[id]
		if n.memory > 0 && (r.budget == 0 || n.memory < r.budget) {
			r.budget = n.memory
		}
		if role := m.configuration.Role(id); role == RoleVoter || role == RoleOutgoing {
			worst = max(worst, n.disk)
		}
	}
	// The best level that a majority has; without any trouble said nothing is wrong.
	for r.disk < worst && !(m.majorityHas(r.disk, m.configuration.Voters) && m.majorityHas(r.disk, m.configuration.Outgoing)) {
		r.disk++
	}
	m.room = r
}

// majorityHas says that most of some voters live and have that room or better; of none it is true.
func (m *Machine) majorityHas(level command.Room, voters []command.NodeID) bool {
	fit := 0
	for _, id := range voters {
		if n := m.nodes[id]; n != nil && n.epoch != 0 && n.disk <= level {
			fit++
		}
	}
	return len(voters) == 0 || fit > len(voters)/2
}

// Room is how much room the cluster has, by disks and by memory: the worse of the two.
func (m *Machine) Room() command.Room {
	return max(m.room.disk, m.memoryRoom())
}

// memoryRoom is the room in memory.
func (m *Machine) memoryRoom() command.Room {
	switch used, budget := m.memoryUsed(), m.room.budget; {
	case budget == 0 || used < budget/100*lowShare:
		return command.RoomOK
	case used < budget:
		return command.RoomLow
	}
	return command.RoomFull
}

// memoryUsed is the count against the budget. What is counted here one by one is the same behind an entry and after Load.
func (m *Machine) memoryUsed() uint64 {
	n := m.kept
	n += uint64(m.messages.live())*messageCost + uint64(m.chunks.live())*chunkCost + uint64(m.deliveries.live())*deliveryCost + uint64(m.cells.live())*cellCost
	n += uint64(m.timers.live()) * expiryCost
	n += uint64(len(m.moved))*movedCost + uint64(len(m.holders))*holderCost
	n += uint64(len(m.subscriptionByID))*subscriptionCost + uint64(len(m.deliveryAt))*topicDeliveryCost
	n += uint64(len(m.byInc))*queueCost + uint64(len(m.linkByID))*linkCost
	n += uint64(len(m.conns))*connCost + uint64(len(m.sessions))*sessionCost + uint64(len(m.streams))*streamCost
	n += uint64(len(m.windows)) * windowCost
	n += uint64(len(m.users)) * userCost
	return n + m.partBytes
}

// noRoom is why a send is refused for want of room, nil where it isn't.
func (m *Machine) noRoom() *command.Refusal {
	switch {
	case m.room.disk == command.RoomFull:
		return refusal(condLimit, "the disks of the cluster are full: nothing is stored until messages are consumed, purged or deleted, or the disks have room")
	case m.memoryRoom() == command.RoomFull:
		return refusal(condLimit, "the cluster's messages take the memory that it may use: nothing is stored until some are consumed, purged or deleted")
	}
	return nil
}

// RoomInfo is what admin shows of the room.
type RoomInfo struct {
	// Room is the cluster's, Disk its disks' alone, Memory its memory's alone.
	Room, Disk, Memory command.Room
	// Used and Budget are bytes of state: counted, and what the smallest node has memory for (0: not known).
	Used, Budget uint64
}

// NodeRoom is what a node has said of its own room; ok is false for one that has never spoken.
func (m *Machine) NodeRoom(id command.NodeID) (r command.NodeRoom, ok bool) {
	n := m.nodes[id]
	if n == nil {
		return r, false
	}
	return command.NodeRoom{Node: id, Disk: n.disk, Memory: n.memory}, true
}

// RoomInfo is the room in detail.
func (m *Machine) RoomInfo() RoomInfo {
	return RoomInfo{Room: m.Room(), Disk: m.room.disk, Memory: m.memoryRoom(), Used: m.memoryUsed(), Budget: m.room.budget}
}

// keepOverlay sets a message's overlay and counts it.
func (m *Machine) keepOverlay(mi uint32, overlay []byte) {
	m.forgetOverlay(mi)
	m.overlays[mi] = overlay
	m.kept += overlayCost + uint64(len(overlay))
}

// forgetOverlay drops a message's overlay, if it has one.
func (m *Machine) forgetOverlay(mi uint32) {
	if overlay, ok := m.overlays[mi]; ok {
		m.kept -= overlayCost + uint64(len(overlay))
		delete(m.overlays, mi)
	}
}

// outcomeBytes is what a session's outcome costs.
func (s *session) outcomeBytes(r *outcomeRecord) uint64 {
	return outcomeCost + uint64(len(s.reasons[r.number]))
}
