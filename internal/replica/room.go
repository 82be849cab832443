package replica

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// A node whose disk is full doesn't end. What is to be written waits until there is room (appender, store.StateOptions.Wait), leadership
// goes to a node that has some, and all nodes are told; the leader makes a command of it, and state refuses what needs room once a majority
// has none [8.5]. What frees room is written all the same: the reserve, a file, is given back for it. So is a node's memory told, for
// the count against the smallest budget.

const (
	// roomEvery is how often the room is measured, and told.
	roomEvery = time.Second
	// roomRetry is how often a write that found no room is tried again.
	roomRetry = 250 * time.Millisecond
	// roomStale is for how long what a node said of its room says something of now.
	roomStale = 3 * time.Second
	// moveEvery is how often a full leader tries to hand over.
	moveEvery = 2 * time.Second
	// hungTicks is for how many looks, one each second, a write to the log may not return before the node ends. A process that
	// stood still looks once when it goes on.
	hungTicks = 15
)

// said is what a node has said of its room.
type said struct {
	disk   command.Room
	memory uint64
	at     time.Duration
}

// rooms is what the nodes have said, and what this leader has proposed of it.
type rooms struct {
	own      said
	others   map[uint64]said
	tellAt   time.Duration
	moveAt   time.Duration
	proposed map[uint64]said
}

// ownRoom takes what this node has found out about itself.
func (c *core) ownRoom(disk command.Room) {
	if disk != c.rooms.own.disk {
		c.rooms.own.disk, c.rooms.tellAt = disk, 0
	}
}

// roomSaid takes what another node says of itself.
func (c *core) roomSaid(from uint64, n peer.Note) {
	if n.Number > uint64(command.RoomFull) {
		return // a newer version's
	}
	if c.rooms.others == nil {
		c.rooms.others = map[uint64]said{}
	}
	c.rooms.others[from] = said{command.Room(n.Number), n.Index, c.now}
}

// roomTimer tells the others this node's room, and has a leader propose what state doesn't know yet, and leave a full disk.
func (c *core) roomTimer() {
	r := &c.rooms
	if c.now >= r.tellAt {
		r.tellAt = c.now + roomEvery
		for _, other := range c.others {
			c.out.notes = append(c.out.notes, outNote{other, peer.Note{Kind: peer.NoteRoom, Number: uint64(r.own.disk), Index: r.own.memory}})
		}
	}
	if !c.leads() {
		return
	}
	r.own.at = c.now
	for _, known := range c.progress.rooms {
		node := uint64(known.Node)
		now, ok := r.others[node]
		if node == c.self {
			now, ok = r.own, true
		}
		if ok && c.now-now.at < roomStale && (now.disk != known.Disk || now.memory != known.Memory) {
			c.proposeRoom(node, now)
		}
	}
	if r.own.disk == command.RoomFull && !c.transferring() && c.now >= r.moveAt {
		r.moveAt = c.now + moveEvery
		c.transfer(func(id uint64) bool {
			other, ok := r.others[id]
			return ok && other.disk < command.RoomFull && c.now-other.at < roomStale
		})
		if c.transferring() {
			c.logger.Warn("this node's disk is full; handing leadership over")
		}
	}
}

// proposeRoom proposes it, but not what is on its way.
func (c *core) proposeRoom(node uint64, now said) {
	if last, ok := c.rooms.proposed[node]; ok && last.disk == now.disk && last.memory == now.memory && c.now-last.at < roomEvery {
		return
	}
	if c.rooms.proposed == nil {
		c.rooms.proposed = map[uint64]said{}
	}
	c.rooms.proposed[node] = said{now.disk, now.memory, c.now}
	c.propose(&command.NodeRoom{Node: command.NodeID(node), Disk: now.disk, Memory: now.memory})
}

// RoomStatus is what is known here of the room of the cluster and of this node.
type RoomStatus struct {
	// Cluster is the cluster's, by disks and by memory, as this replica has applied it.
	Cluster state.RoomInfo
	// Disk is this node's own disk's, as it found last.
	Disk command.Room
	// Total and Free are the bytes of the disk and of what is free of it, Reserve those of the reserve, held or not; zeros where the system
	// doesn't say.
	Total, Free, Reserve uint64
	// Held: the reserve is there.
	Held bool
	// Waiting: a write waits for room.
	Waiting bool
}

// nodeRoom is what the steps of a node know of its own room and of the cluster's.
type nodeRoom struct {
	cluster atomic.Uint32                  // command.Room, as applied
	detail  atomic.Pointer[state.RoomInfo] // as applied
	full    atomic.Bool                    // an append waits for room
}

// Room is the cluster's room, as this replica has applied it: low, and senders get no credit; full, and they are refused [8.5].
func (s *steps) Room() command.Room { return command.Room(s.room.cluster.Load()) }

// showRoom shows what the apply step has come to.
func (s *steps) showRoom() {
	if s.machine == nil {
		return
	}
	info := s.machine.RoomInfo()
	if old := s.room.detail.Load(); old == nil || *old != info {
		s.room.detail.Store(&info)
		s.room.cluster.Store(uint32(info.Room))
	}
}

// noteRoom takes the outcome of an append: no room, or done.
func (s *steps) noteRoom(full bool) {
	if s.room.full.Swap(full) != full && full {
		s.logger.Error("this node's disk is full; what is to be written waits until there is room", "dir", s.opts.Dir)
	}
}

// roomFound hands what was found of this node's disk to the raft step.
func (s *steps) roomFound(disk command.Room) { s.events.put(event{kind: evRoom, room: disk}) }

// roomMeter measures the room on this node's disk. The room goroutine's, but for what is atomic.
type roomMeter struct {
	reserve *store.Reserve // nil: there is none
	bytes   int64          // of the reserve: the measure of what is little
	level   command.Room
	waiting atomic.Int32  // writes of the state that wait for room
	kick    chan struct{} // capacity 1: a write has found no room
	shown   atomic.Pointer[RoomStatus]

	complained time.Duration
	began      int64 // of the append that was looked at last
	looks      int   // at that one
}

// roomOf is the level of a disk: free bytes, where a reserve that isn't held counts as taken, beside the reserve's size; before is the level
// so far, which is left only with some more room, and stuck says that a write waits for room.
func roomOf(before command.Room, free, reserve int64, stuck bool) command.Room {
	full, low := reserve/2, 2*reserve
	if before == command.RoomFull {
		full = reserve
	}
	if before >= command.RoomLow {
		low = 5 * reserve / 2
	}
	switch {
	case stuck || free < full:
		return command.RoomFull
	case free < low:
		return command.RoomLow
	}
	return command.RoomOK
}

// openRoom looks at the disk before anything else is opened: a full one gets its reserve back, so that the start has room.
func (r *Replica) openRoom() {
	r.meter.kick = make(chan struct{}, 1)
	total, _ := r.dir.DiskBytes()
	if r.meter.bytes = r.opts.Limits.ReserveBytes; r.meter.bytes == 0 {
		r.meter.bytes = min(maxReserveBytes, int64(total/50))
	}
	if total > 0 && !r.opts.SafetyOff {
		r.meter.reserve = r.dir.Reserve(r.meter.bytes)
	}
	r.measureRoom()
	if m := &r.meter; m.reserve != nil && m.reserve.Held() {
		_ = m.reserve.Hold() // it may be of another size; if that fails it isn't held, and measured again soon
	}
}

// measureRoom measures the disk and holds the reserve, or gives it back.
func (r *Replica) measureRoom() {
	m := &r.meter
	total, free := r.dir.DiskBytes()
	stuck := r.room.full.Load() || m.waiting.Load() > 0
	left := int64(free)
	if m.reserve != nil && !m.reserve.Held() {
		left -= m.bytes
	}
	before := m.level
	if m.level = roomOf(before, left, m.bytes, stuck); total == 0 && !stuck {
		m.level = command.RoomOK
	}
	if m.reserve != nil {
		var err error
		switch held := m.reserve.Held(); {
		case held && m.level == command.RoomFull:
			err = m.reserve.Release()
		case !held && m.level < command.RoomFull && left >= 0:
			err = m.reserve.Hold()
		}
		if now := r.monotonic(); err != nil && (m.complained == 0 || now-m.complained > complainEvery) {
			m.complained = now
			r.logger.Warn("the reserve on the disk isn't as it should be", "error", err)
		}
	}
	if m.level != before {
		r.roomChanged(total, free)
	}
	shown := &RoomStatus{Disk: m.level, Total: total, Free: free, Reserve: uint64(m.bytes), Held: m.reserve != nil && m.reserve.Held(), Waiting: stuck}
	m.shown.Store(shown)
}

// roomChanged tells whom it concerns.
func (r *Replica) roomChanged(total, free uint64) {
	args := []any{"room", r.meter.level.String(), "free", free, "of", total, "dir", r.opts.Dir}
	if r.meter.level == command.RoomOK {
		r.logger.Info("there is room on this node's disk again", args...)
	} else {
		r.logger.Warn("there is little room on this node's disk; make some, or give the node a larger one", args...)
	}
	r.roomFound(r.meter.level)
	if log, ok := r.log.(*store.Log); ok && log != nil {
		log.Tight(r.meter.level != command.RoomOK)
	}
	r.tight.Store(r.meter.level != command.RoomOK)
}

// awaitRoom is store.StateOptions.Wait.
func (r *Replica) awaitRoom(err error) (again bool) {
	if r.meter.waiting.Add(1) == 1 {
		r.logger.Error("this node's disk is full; the state on disk waits until there is room", "error", err)
	}
	defer r.meter.waiting.Add(-1)
	r.kickRoom()
	timer := time.NewTimer(roomRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.done:
		return false
	}
}

// kickRoom has the room measured now.
func (r *Replica) kickRoom() {
	select {
	case r.meter.kick <- struct{}{}:
	default:
	}
}

// roomLoop measures the room, and watches over the writes to the log: the room goroutine.
func (r *Replica) roomLoop(stop <-chan struct{}) {
	ticker := time.NewTicker(roomEvery)
	defer ticker.Stop()
	r.roomFound(r.meter.level)
	for {
		select {
		case <-ticker.C:
			if r.hung() {
				r.fence()
				return
			}
		case <-r.meter.kick:
		case <-stop:
			return
		}
		r.measureRoom()
	}
}

// hung reports that one write to the log hasn't returned for hungTicks looks.
func (r *Replica) hung() bool {
	m, began := &r.meter, r.appending.Load()
	if began == 0 || began != m.began {
		m.began, m.looks = began, 0
		return false
	}
	m.looks++
	return m.looks >= hungTicks
}

// ErrHung is what ends a node whose write to the log didn't return. The process has to end, and may not be able to: the system waits for the disk with it.
var ErrHung = errors.New("oncemq: the disk answers nothing")

// fence ends a node whose disk hangs: its clients and peers are let go now, whatever the disk does. Only then the process ends, for
// the sockets of one that waits for its disk outlive it.
func (r *Replica) fence() {
	err := fmt.Errorf("%w: a write to the log in %s hasn't returned for %d s; the node ends", ErrHung, r.opts.Dir, hungTicks)
	r.logger.Error("the node can't go on", "error", err)
	r.finish(err)
}

// RoomStatus is what is known here of the room.
func (r *Replica) RoomStatus() RoomStatus {
	room := *r.meter.shown.Load()
	if detail := r.room.detail.Load(); detail != nil {
		room.Cluster = *detail
	}
	return room
}
