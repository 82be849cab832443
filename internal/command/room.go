package command

import "strconv"

// Room says how much room is left: on a node's disk, or in the cluster as a whole [8.5]. The values are stored and
// replicated; more is worse.
type Room uint8

// The levels of room.
const (
	// RoomOK: enough.
	RoomOK Room = iota
	// RoomLow: senders get no credit.
	RoomLow
	// RoomFull: sends and transactions that send are refused. What makes room is not: settlements, purges, deletions.
	RoomFull
)

// String is ok, low or full.
func (r Room) String() string {
	switch r {
	case RoomOK:
		return "ok"
	case RoomLow:
		return "low"
	case RoomFull:
		return "full"
	}
	return "room " + strconv.Itoa(int(r))
}

// NodeRoom is what a node says of its own room, proposed by the leader when it has changed. Only in system records; a
// node that state doesn't know is ignored. No answer.
type NodeRoom struct {
	Node NodeID
	// Disk is the room on the disk of its data directory.
	Disk Room
	// Memory is how many bytes of state it has memory for, 0: it doesn't say.
	Memory uint64
}

// Kind implements Command.
func (*NodeRoom) Kind() Kind { return KindNodeRoom }

func (c *NodeRoom) append(dst []byte) []byte {
	dst = append(appendUint(dst, uint64(c.Node)), byte(c.Disk))
	return appendUint(dst, c.Memory)
}

func (c *NodeRoom) decode(r *reader) {
	c.Node = NodeID(r.uint())
	if c.Disk = Room(r.byte()); c.Disk > RoomFull {
		r.fail("room on a disk")
	}
	c.Memory = r.uint()
}
