package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/test/cluster"
)

// tinyRoom are flags of nodes that soon have used up what the reserve gave back.
var tinyRoom = []string{"--disk-reserve=2MiB", "--log-segment=1MiB"}

// Row 49: the disk of the leader is full, then that of a follower. The node says so, hands leadership over, waits, and goes on when
// there is room; the others go on.
func TestRow49DiskFullOnOne(t *testing.T) {
	Long(t)
	Need(t, "mkfs.ext4", "mount")
	w := New(t, Options{Disks: NewLoopDisk, Rate: 500, Flags: tinyRoom})
	w.Run(func() {
		for i, n := range []*cluster.Node{w.Leader(), w.Follower(0)} {
			pid := n.PID()
			empty := w.Fill(n, 64<<10)
			w.Until(time.Minute, "the node to give its reserve back", func() bool {
				room := w.status(n).Room
				return room.Disk == "full" && !room.DiskReserveHeld
			})
			if i == 0 {
				w.LeaderAmong(w.Others(n), 2*failover)
			}
			w.Commits(1000, time.Minute) // it goes on out of the reserve
			emptyAll := w.Fill(n, 0)
			w.store(fmt.Sprintf("row49-%d", i), 60, 100<<10) // what nobody takes needs room
			w.Until(time.Minute, "the node to wait for room", func() bool { return w.status(n).Room.Waiting })
			w.Commits(1000, time.Minute)
			if st := w.status(n); st.Room.Disk != "full" || st.Room.Cluster != "ok" || st.Room.DiskReserveHeld || len(st.Alarms) == 0 {
				t.Errorf("the full node says %+v", st)
			}
			empty()
			emptyAll()
			w.Until(time.Minute, "the node to have room", func() bool {
				room := w.status(n).Room
				return !room.Waiting && room.Disk == "ok" && room.DiskReserveHeld
			})
			w.CatchesUp(n, w.Others(n)[0], time.Minute)
			n.WaitReady()
			w.Commits(100, failover)
			if n.PID() != pid {
				t.Errorf("node %d has ended", n.ID)
			}
		}
	})
}

// Row 50: all disks are full. Senders are held back, consumers drain their queues and settle out of the reserve, a purge passes, and with
// room all goes on in the same processes.
func TestRow50DiskFullOnAll(t *testing.T) {
	Long(t)
	Need(t, "mkfs.ext4", "mount")
	const stored = 300
	w := New(t, Options{Disks: NewLoopDisk, Rate: 300, Patience: 3 * time.Minute, Flags: []string{"--disk-reserve=64MiB", "--log-segment=1MiB"}})
	w.Run(func() {
		s, sender := w.store("row50", stored, 10<<10)
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
		defer cancel()
		var empty []func()
		pids := map[int]int{}
		for _, n := range w.Nodes {
			pids[n.ID] = n.PID()
			empty = append(empty, w.Fill(n, 1<<20))
		}
		for _, n := range w.Nodes {
			w.Until(time.Minute, "everybody to know that the disks are full", func() bool { return w.status(n).Room.Cluster == "full" })
		}
		w.NoCommits(10*time.Second, 2*time.Second)
		short, stop := context.WithTimeout(ctx, 2*time.Second)
		err := sender.Send(short, oncemq.NewMessage([]byte("no room")))
		stop()
		w.Note("a send on full disks: %v", err)
		if err == nil {
			t.Error("a send on full disks was accepted")
		}
		receiver, err := s.NewReceiver(ctx, "row50", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stored {
			d, err := receiver.Receive(ctx)
			if err == nil {
				err = d.Accept(ctx)
			}
			if err != nil {
				t.Fatalf("draining on full disks, message %d: %v", i, err)
			}
		}
		w.Note("%d messages were taken and settled on full disks", stored)
		for i := range w.Nodes {
			empty[i]()
		}
		for _, n := range w.Nodes {
			w.Until(time.Minute, "room", func() bool { return w.status(n).Room.Cluster == "ok" })
		}
		w.Commits(100, 2*failover)
		for _, n := range w.Nodes {
			if n.PID() != pids[n.ID] {
				t.Errorf("node %d has ended", n.ID)
			}
		}
	})
}

// store sends messages of some size to a queue, and gives the session and sender that it did so by.
func (w *World) store(queue string, messages, size int) (*oncemq.Session, *oncemq.Sender) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	s := w.session(w.urls(0))
	sender, err := s.NewSender(ctx, queue, nil)
	for n := 0; err == nil && n < messages; n++ {
		err = sender.Send(ctx, oncemq.NewMessage(make([]byte, size)))
	}
	if err != nil {
		w.tb.Fatalf("storing messages in %s: %v", queue, err)
	}
	return s, sender
}

// status is what a node says of itself; zero where it doesn't answer.
func (w *World) status(n *cluster.Node) admin.Status {
	st, err := n.Status(w.ctx)
	if err != nil {
		return admin.Status{}
	}
	return st
}
