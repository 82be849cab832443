package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// draining is set once the node has begun to stop.
type draining struct{ on atomic.Bool }

func (d *draining) set() { d.on.Store(true) }

// errStopping is /readyz's answer of a node that stops.
var errStopping = errors.New("oncemq: the node is stopping")

// errDrained is /readyz's answer of a node that was drained.
var errDrained = errors.New(`oncemq: the node is drained; "oncemq cluster revive" opens it again`)

// adminNode is the replica as package admin wants it.
type adminNode struct {
	replica *replica.Replica
	stop    *draining
	service *service

	certificates func() []admin.Certificate

	version string
	pid     int
}

// Status implements admin.Node.
func (a *adminNode) Status() admin.Status {
	st, room, scrub := a.replica.Status(), a.replica.RoomStatus(), a.replica.ScrubStatus()
	safety := "on"
	if st.SafetyOff {
		safety = "off"
	}
	return admin.Status{
		Node: uint64(st.Node), Leader: uint64(st.Leader), Role: st.Role, Term: st.Term, AppliedIndex: st.Applied,
		PID: a.pid, Version: a.version, Safety: safety, Recovering: st.Recovering, Certificates: a.certificates(),
		LagMillis: st.Lag.Milliseconds(), Room: showRoom(room), Alarms: append([]string{}, alarms(room, st.Lag, scrub)...),
		Scrub: admin.Scrub{Passes: scrub.Passes, Bytes: scrub.Bytes, Damage: scrub.Damage},
	}
}

// Live implements admin.Node.
func (a *adminNode) Live() error { return a.replica.Live() }

// Ready implements admin.Node.
func (a *adminNode) Ready() error {
	if a.stop.on.Load() {
		return errStopping
	}
	if a.service.drained() {
		return errDrained
	}
	return a.replica.Ready()
}

// Request implements admin.Node.
func (a *adminNode) Request(ctx context.Context, cmd command.Command) (command.Effect, error) {
	return a.replica.Request(ctx, cmd)
}

// Queue implements admin.Node.
func (a *adminNode) Queue(ctx context.Context, name string) (admin.Queue, error) {
	// fn may still run after ctx has ended, so it writes to a variable that nobody reads then.
	type answer struct {
		info state.QueueInfo
		ok   bool
	}
	found := make(chan answer, 1)
	err := a.replica.Read(ctx, func(m *state.Machine) {
		info, ok := m.Queue(name)
		found <- answer{info, ok}
	})
	if err != nil {
		return admin.Queue{}, err
	}
	got := <-found
	if !got.ok {
		return admin.Queue{}, admin.ErrNoQueue
	}
	return admin.Queue{Name: name, Depth: got.info.Depth, InFlight: got.info.InFlight}, nil
}
