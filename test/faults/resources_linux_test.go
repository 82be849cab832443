package faults

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/test/cluster"
)

// Row 14: a node gets next to no processor time: the leader, then a follower.
func TestRow14Starved(t *testing.T) {
	Long(t)
	Need(t)
	w := New(t, Options{Rate: 100})
	starvers := w.Starvers()
	w.Run(func() {
		for _, s := range starvers {
			for _, victim := range []func() *cluster.Node{w.Leader, func() *cluster.Node { return w.Follower(0) }} {
				n := victim()
				before := w.Term()
				heal := s.Begin(n)
				w.For(5 * time.Second)
				w.Commits(50, 3*failover)
				heal()
				n.WaitReady()
				w.CatchesUp(n, w.Leader(), failover)
				w.Commits(100, failover)
				if terms := w.Term() - before; terms > 3 {
					t.Errorf("%s: %d terms: a storm of elections", s.Name, terms)
				}
			}
		}
	})
}

// Row 32: everything that the others say to one follower comes at 1 Mbit/s.
func TestRow32NarrowLink(t *testing.T) {
	Long(t)
	Need(t)
	const megabit = 1_000_000 / 8
	w := New(t, Options{Proxies: true, Rate: 1000})
	w.Run(func() {
		leader, n := w.Leader(), w.Follower(0)
		grown := w.Peak(leader)
		set := func(c cluster.Conditions) {
			for _, other := range w.Others(n) {
				w.Link(other, n, c)
			}
		}
		set(cluster.Conditions{Rate: megabit})
		for range 4 {
			w.Commits(1000, failover)
			w.For(3 * time.Second)
			if w.Lag(n, w.Leader()) < 100 {
				t.Error("the link was wide enough, so nothing was tested")
			}
		}
		if more := grown(); more > 256<<20 {
			t.Errorf("the leader grew by %d MiB", more>>20)
		}
		set(cluster.Conditions{})
		n.WaitReady()
		w.CatchesUp(n, w.Leader(), 2*failover)
	})
}

// Row 34: strangers connect and go again, as fast as they can: 10,000 a second where
// the machine can do that. Who is no stranger gets in meanwhile.
func TestRow34StormOfConnects(t *testing.T) {
	Long(t)
	Need(t)
	w := New(t, Options{})
	w.Run(func() {
		n := w.Leader()
		files, grown := w.Descriptors(n), w.Peak(n)
		var made atomic.Int64
		var strangers sync.WaitGroup
		end := make(chan struct{})
		begun := time.Now()
		for range 8 {
			strangers.Go(func() { storm(n.AMQP, end, &made) })
		}
		for range 3 {
			w.For(2 * time.Second)
			w.Commits(50, failover)
			w.Newcomer(n, failover)
		}
		close(end)
		strangers.Wait()
		rate := float64(made.Load()) / time.Since(begun).Seconds()
		w.Note("%d connections, %.0f a second", made.Load(), rate)
		t.Logf("%.0f connections a second", rate)
		if rate < 500 {
			t.Errorf("%.0f connections a second: that is no storm", rate)
		}
		if more := grown(); more > 256<<20 {
			t.Errorf("the node grew by %d MiB", more>>20)
		}
		w.Until(failover, "the strangers' descriptors to be given back", func() bool { return w.Descriptors(n) <= files+10 })
		w.Commits(100, failover)
	})
}

// storm connects and resets, which leaves no port occupied, until end.
func storm(addr string, end <-chan struct{}, made *atomic.Int64) {
	for {
		select {
		case <-end:
			return
		default:
		}
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		made.Add(1)
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// Newcomer connects a client to one node and sends a message, within limit.
func (w *World) Newcomer(n *cluster.Node, limit time.Duration) {
	w.tb.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	c, err := oncemq.Dial(ctx, "amqp://"+n.AMQP, nil)
	if err != nil {
		w.tb.Fatalf("a client among strangers: %v", err)
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			w.tb.Error(err)
		}
	}()
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	sender, err := s.NewSender(ctx, "newcomers", nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := sender.Send(ctx, oncemq.NewText("let me in")); err != nil {
		w.tb.Fatal(err)
	}
	w.Note("a newcomer was served after %v", time.Since(begun).Round(time.Millisecond))
}
