package demo

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
)

const (
	// downTime is how long a killed node stays away.
	downTime = 2 * time.Second
	// pauseTime is how long a node is stopped (SIGSTOP).
	pauseTime = 2 * time.Second
	// readyBound is how long a node may take to be ready after an event.
	readyBound = 30 * time.Second
	// lastEvent is how long before the end of production the last event may begin, so
	// that its consequences are still seen under load.
	lastEvent = 3 * time.Second
)

// disturb lets the seed's events happen until production is to end.
func (d *Demo) disturb(ctx context.Context) error {
	end := time.NewTimer(d.cfg.Duration)
	defer end.Stop()
	deadline := time.Now().Add(d.cfg.Duration)
	plan := newSchedule(d.cfg.Seed, d.cfg.KillMin, d.cfg.KillMax)
	last := time.Now()
	for !d.cfg.NoKill {
		e := plan.next()
		last = last.Add(e.after)
		if now := time.Now(); last.Before(now) {
			last = now // the event before took longer
		}
		if last.After(deadline.Add(-lastEvent)) {
			break
		}
		if err := wait(ctx, time.Until(last)); err != nil {
			return err
		}
		if err := d.happen(ctx, e); err != nil {
			return err
		}
	}
	select {
	case <-end.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits, or returns ctx's error.
func wait(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// happen carries one event out and waits until the cluster is whole again.
func (d *Demo) happen(ctx context.Context, e event) error {
	bound, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	leader, err := d.cluster.Leader(bound)
	if err != nil {
		return err
	}
	victim := d.victim(e, leader)
	if e.kind == pauseNode {
		err = d.pause(ctx, victim, victim == leader)
	} else {
		err = d.kill(ctx, victim, victim == leader)
	}
	if err != nil {
		return err
	}
	bound, cancel = context.WithTimeout(ctx, readyBound)
	defer cancel()
	return d.cluster.WaitReady(bound)
}

// victim chooses the node that e is about.
func (d *Demo) victim(e event, leader *localcluster.Node) *localcluster.Node {
	all := d.cluster.Nodes()
	switch e.kind {
	case killFollower:
		return all[(leader.ID+e.pick%(nodes-1))%nodes] // ids begin with 1: never the leader
	case killHome:
		if home := d.homes[e.pick%workers].Load(); home != nil {
			if n := d.cluster.ByAMQP(*home); n != nil {
				return n
			}
		}
		return leader
	case pauseNode:
		return all[e.pick%nodes]
	case killLeader:
	}
	return leader
}

// residents are the workers whose home is n.
func (d *Demo) residents(n *localcluster.Node) (at []int) {
	for i := range d.homes {
		if home := d.homes[i].Load(); home != nil && *home == n.AMQP {
			at = append(at, i)
		}
	}
	return at
}

// kill kills a node, and starts it again later.
func (d *Demo) kill(ctx context.Context, n *localcluster.Node, leads bool) error {
	residents := d.residents(n)
	pid := n.PID()
	if err := n.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing node %d: %w", n.ID, err)
	}
	signalled := time.Now()
	d.kills.Add(1)
	if leads {
		d.watch.start(watchFailover, signalled, anyWorker)
	}
	for _, w := range residents {
		d.watch.start(watchHome, signalled, w)
	}
	d.say("kill -9 node %d (pid %d): %s", n.ID, pid, role(leads, residents))
	n.Wait()
	if err := wait(ctx, downTime); err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	begun := time.Now()
	bound, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	if err := n.WaitReady(bound); err != nil {
		return err
	}
	d.say("node %d is back (pid %d), ready after %.2f s", n.ID, n.PID(), time.Since(begun).Seconds())
	return nil
}

// pause stops a node's process for a while: it looks alive and says nothing.
func (d *Demo) pause(ctx context.Context, n *localcluster.Node, leads bool) error {
	residents := d.residents(n)
	if err := n.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping node %d: %w", n.ID, err)
	}
	stopped := time.Now()
	d.pauses.Add(1)
	for _, w := range residents {
		d.watch.start(watchPause, stopped, w)
	}
	if leads && residents == nil {
		d.watch.start(watchPause, stopped, anyWorker)
	}
	d.say("kill -STOP node %d (pid %d) for %v: %s", n.ID, n.PID(), pauseTime, role(leads, residents))
	err := wait(ctx, pauseTime)
	if contErr := n.Signal(syscall.SIGCONT); contErr != nil {
		return fmt.Errorf("continuing node %d: %w", n.ID, contErr)
	}
	return err
}

// role describes a node for the progress lines.
func role(leads bool, residents []int) string {
	text := "a follower"
	if leads {
		text = "the leader"
	}
	for i, w := range residents {
		if i == 0 {
			text += ", home of worker"
		}
		text += fmt.Sprintf(" %d", w+1)
	}
	return text
}
