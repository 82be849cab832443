package replica

import (
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/peer"
)

// raftLoop drives core.step: the raft goroutine.
func (r *Replica) raftLoop(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var events []event
	for {
		select {
		case <-r.events.wake:
		case <-timer.C:
		case <-stop:
			return
		}
		events = r.events.take(events)
		wake := r.core.step(r.monotonic(), r.opts.Civil(), events)
		r.route(&r.core.out)
		r.publish()
		timer.Reset(wake - r.monotonic())
	}
}

// route hands on what a step wants done.
func (r *Replica) route(out *output) {
	if len(out.appends) > 0 || out.cut > 0 {
		for _, m := range out.appends {
			r.appends.put(appendJob{message: m})
		}
		if out.cut > 0 {
			r.everyone.Store(out.cut)
		}
	}
	if len(out.applies) > 0 {
		r.applies.put(out.applies...)
	}
	sends := out.sends
	if r.opts.SafetyOff {
		sends = r.lazy.sift(r.core.now, sends)
	}
	for _, m := range sends {
		r.send(m)
	}
	for i := range out.records {
		if o := &out.records[i]; !r.network.SendRecords(o.to, o.records) {
			// The queue is full or the stream down: they stay here, in order.
			r.home.untake(o.epoch, o.first)
			break
		}
	}
	for _, n := range out.notes {
		r.network.SendNote(n.to, n.note)
	}
}

// send sends a raft message; one that can't be sent is reported to raft.
func (r *Replica) send(m *pb.Message) {
	if !r.network.SendRaft(m.GetTo(), urgent(m), payload{m}) && m.GetType() == pb.MsgApp {
		r.events.put(event{kind: evUnreachable, from: m.GetTo()})
	}
}

// appendLoop drives appender.step: the append goroutine.
func (r *Replica) appendLoop(stop <-chan struct{}) {
	var jobs []appendJob
	prepare := true
	for {
		// While there is nothing to write, the log prepares the blocks to come.
		for prepare && r.appends.empty() {
			var err error
			if prepare, err = r.log.Prepare(); err != nil {
				r.fail(err)
				return
			}
		}
		select {
		case <-r.appends.wake:
		case <-stop:
			return
		}
		jobs = r.appends.take(jobs)
		if len(jobs) == 0 {
			continue
		}
		responses, err := r.appender.step(jobs)
		if err != nil {
			r.fail(err)
			return
		}
		prepare = true
		var own []*pb.Message
		for _, m := range responses {
			if m.GetTo() == r.core.self {
				own = append(own, m)
			} else {
				r.send(m)
			}
		}
		if len(own) > 0 {
			r.events.put(event{kind: evStored, messages: own})
		}
	}
}

// applyLoop drives applier.step: the apply goroutine.
func (r *Replica) applyLoop(stop <-chan struct{}) {
	var jobs []applyJob
	for {
		select {
		case <-r.applies.wake:
		case <-stop:
			return
		}
		jobs = r.applies.take(jobs)
		if err := r.applier.step(jobs); err != nil {
			r.fail(err)
			return
		}
		out := &r.applier.out
		var events []event
		if len(out.responses) > 0 {
			events = append(events, event{kind: evStored, messages: append([]*pb.Message(nil), out.responses...)})
		}
		if out.moved {
			events = append(events, event{kind: evProgress, progress: out.progress})
		}
		if out.expected != 0 {
			events = append(events, event{kind: evExpected, term: out.expected})
		}
		for _, d := range out.digests {
			events = append(events, event{kind: evDigest, note: peer.Note{Kind: peer.NoteDigest, Index: d.index, Number: d.sum}})
		}
		if len(events) > 0 {
			r.events.put(events...)
		}
	}
}
