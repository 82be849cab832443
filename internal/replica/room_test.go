package replica

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// The levels of a disk whose reserve has 100 bytes.
func TestRoomOf(t *testing.T) {
	const ok, low, full = command.RoomOK, command.RoomLow, command.RoomFull
	for _, tt := range []struct {
		before command.Room
		free   int64
		stuck  bool
		want   command.Room
	}{
		{ok, 1000, false, ok},
		{ok, 200, false, ok},
		{ok, 199, false, low},
		{low, 249, false, low},
		{low, 250, false, ok},
		{low, 50, false, low},
		{low, 49, false, full},
		{ok, -100, false, full},
		{full, 99, false, full},
		{full, 100, false, low},
		{full, 249, false, low},
		{full, 250, false, ok},
		{ok, 1000, true, full},
	} {
		if got := roomOf(tt.before, tt.free, 100, tt.stuck); got != tt.want {
			t.Errorf("%s, %d free, stuck %v: %s, want %s", tt.before, tt.free, tt.stuck, got, tt.want)
		}
	}
}

// fullDisks are disks that can be made full: no write finds room then.
type fullDisks struct {
	files map[command.NodeID]store.FS
	full  map[command.NodeID]*atomic.Bool
}

// newFullDisks makes them; of is a part of the names of the files that find no room.
func newFullDisks(of string) *fullDisks {
	d := &fullDisks{map[command.NodeID]store.FS{}, map[command.NodeID]*atomic.Bool{}}
	for id := command.NodeID(1); id <= 3; id++ {
		full := new(atomic.Bool)
		d.full[id] = full
		d.files[id] = store.FaultFS(store.NewMemFS(), func(name string, bytes int) store.Fault {
			if full.Load() && bytes > 0 && strings.Contains(name, of) {
				return store.Fault{Err: syscall.ENOSPC, Bytes: bytes / 2}
			}
			return store.Fault{}
		})
	}
	return d
}

// Rows 49 and 50: a full disk ends nobody. A leader hands over, one node's is told to all and holds nobody up, two hold up everything,
// and state says so; with room all goes on and nothing is lost.
func TestFullDisksStall(t *testing.T) {
	disks := newFullDisks("")
	c := newCluster(t, 3, func(o *Options) {
		realMachine(o)
		o.FS = disks.files[o.Node]
		o.Limits.SegmentBytes, o.Limits.LogFlushBytes, o.Limits.KeepEvery = 1<<20, 16<<10, 20*time.Millisecond
	})
	room := func(want command.Room) {
		t.Helper()
		c.wait("the cluster's room is "+want.String(), func() bool {
			for _, m := range c.nodes {
				if !disks.full[m.id].Load() && m.Room() != want {
					return false
				}
			}
			return true
		})
	}
	first := c.leader()
	disks.full[first.id].Store(true)
	first.Propose(body("a write for the full disk"))
	c.wait("another leads", func() bool { l := c.leader(); return l != nil && l.id != first.id })
	if got := first.RoomStatus(); got.Disk != command.RoomFull || !got.Waiting {
		t.Errorf("the full node says %+v", got)
	}
	for n := range 50 {
		c.write(c.leader(), string(rune('a'+n%26)))
	}
	room(command.RoomOK) // one of three
	second := c.leader()
	disks.full[second.id].Store(true)
	second.Propose(body("nobody but one has room"))
	third := c.nodes[6-first.id-second.id]
	if err := third.Live(); err != nil {
		t.Fatal(err)
	}
	c.wait("two are full", func() bool { return second.RoomStatus().Waiting && first.RoomStatus().Waiting })
	disks.full[first.id].Store(false)
	c.wait("the first has room again", func() bool { return !first.RoomStatus().Waiting })
	disks.full[second.id].Store(false)
	// Who is closed while a write of the state waits leaves everything open, for the end of the process.
	c.wait("the second has room again", func() bool { return !second.RoomStatus().Waiting })
	c.ready()
	room(command.RoomOK)
	for _, m := range c.nodes {
		if err := m.Live(); err != nil {
			t.Errorf("node %d: %v", m.id, err)
		}
	}
	c.digests()
}

// A node whose disk is full is killed, and has everything when it comes back with room.
func TestKilledWithAFullDisk(t *testing.T) {
	disks := newFullDisks("/log/") // what Pebble waits for is given up only with the process
	c := newCluster(t, 3, func(o *Options) { realMachine(o); o.FS = disks.files[o.Node] })
	m := c.follower()
	disks.full[m.id].Store(true)
	for range 50 {
		c.write(c.leader(), "x")
	}
	c.wait("the append waits", func() bool { return m.RoomStatus().Waiting })
	c.kill(m.id)
	disks.full[m.id].Store(false)
	c.start(m.id)
	c.ready()
	c.digests()
}

// The reserve is a fiftieth of a small disk, is given back when the disk is nearly full and made again when there is room, and what a
// lone node finds decides for the cluster.
func TestReserveIsGivenBack(t *testing.T) {
	disk := &store.SmallDisk{FS: store.NewMemFS()}
	disk.Free.Store(500 << 20)
	c := newCluster(t, 1, func(o *Options) { realMachine(o); o.FS = disk })
	m := c.leader()
	want := func(room command.Room, held int64) {
		t.Helper()
		c.wait("room "+room.String(), func() bool {
			got := m.RoomStatus()
			return got.Disk == room && got.Cluster.Disk == room && got.Held == (held > 0) && disk.Held() == held
		})
	}
	want(command.RoomOK, 20<<20)
	disk.Free.Store(55 << 20) // 35 beside the reserve
	want(command.RoomLow, 20<<20)
	disk.Free.Store(25 << 20)
	want(command.RoomFull, 0)
	disk.Free.Store(39 << 20) // 19 if the reserve were there
	select {
	case <-time.After(1500 * time.Millisecond):
	case err := <-m.ran:
		t.Fatal(err)
	}
	want(command.RoomFull, 0)
	disk.Free.Store(500 << 20)
	want(command.RoomOK, 20<<20)
}

// The budget that a node names reaches the state of all, and the smallest counts.
func TestMemoryBudget(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { realMachine(o); o.Limits.StateBytes = int64(o.Node) << 30 })
	c.wait("the smallest budget", func() bool {
		for _, m := range c.nodes {
			if got := m.RoomStatus().Cluster; got.Budget != 1<<30 || got.Room != command.RoomOK {
				return false
			}
		}
		return true
	})
}
