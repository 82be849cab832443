package node

import (
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
)

// lagAlarm is from which lag on a node isn't ready [3.5].
const lagAlarm = 2 * time.Second

// showRoom is the room as admin shows it.
func showRoom(r replica.RoomStatus) admin.Room {
	return admin.Room{
		Cluster: r.Cluster.Room.String(), Disks: r.Cluster.Disk.String(), Memory: r.Cluster.Memory.String(),
		MemoryUsed: r.Cluster.Used, MemoryBudget: r.Cluster.Budget,
		Disk: r.Disk.String(), DiskFree: r.Free, DiskTotal: r.Total, DiskReserve: r.Reserve, DiskReserveHeld: r.Held, Waiting: r.Waiting,
	}
}

// alarms are what an operator has to see to.
func alarms(r replica.RoomStatus, lag time.Duration, scrub replica.ScrubStatus) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	const effect = "; senders get no credit"
	const refused = "; sends are refused until messages are consumed, purged or deleted, or there is room"
	switch {
	case r.Waiting:
		say("the disk of this node is full, and it writes nothing until there is room: make some, or give it a larger disk")
	case r.Disk == command.RoomFull:
		say("the disk of this node is nearly full (%d bytes free, the reserve of %d is given back): make room, or give it a larger disk", r.Free, r.Reserve)
	case r.Disk == command.RoomLow:
		say("there is little room on the disk of this node (%d bytes free)", r.Free)
	}
	switch r.Cluster.Disk {
	case command.RoomFull:
		say("a majority of the nodes has no room on its disks" + refused)
	case command.RoomLow:
		say("a majority of the nodes has little room on its disks" + effect)
	case command.RoomOK:
	}
	used := func(what string) {
		say("the cluster's state takes %d bytes of memory, of %d that the smallest node has for it%s", r.Cluster.Used, r.Cluster.Budget, what)
	}
	switch r.Cluster.Memory {
	case command.RoomFull:
		used(refused)
	case command.RoomLow:
		used(effect)
	case command.RoomOK:
	}
	if lag > lagAlarm {
		say("this node is %s behind the cluster", lag.Round(time.Millisecond))
	}
	if scrub.Damage != "" {
		say("damage was found in what this node keeps: %s; where the other nodes can do without it, it recovers from them; a lone node needs a backup (oncemq fsck says what is lost)", scrub.Damage)
	}
	return list
}
