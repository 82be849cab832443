package engine

import (
	"bytes"

	"github.com/oncemq/oncemq/internal/amqp"
)

// pendingDisposition is a disposition that waits for the next one, to be joined with it. Any other frame sends it off first, so that
// order on the wire is the order of calls. None is pending while s is nil.
type pendingDisposition struct {
	s           *Session
	role        amqp.Role
	first, last uint32
	settled     bool
	lazy        bool
	state       amqp.DeliveryState
}

// Dispose tells the peer state (nil: none) and whether the delivery is settled for us, for received deliveries and sent ones alike.
// Adjacent ones of equal state become one frame. state is kept: don't change it. Nothing is sent, and false returned, if
// the delivery was settled before, isn't Started yet, its link was closed or its session ended.
func (d *Delivery) Dispose(state amqp.DeliveryState, settled bool) bool {
	return d.tell(state, settled, false)
}

// DisposeLazily is Dispose for what nobody waits for at the other end: see Conn.Lazy.
func (d *Delivery) DisposeLazily(state amqp.DeliveryState, settled bool) bool {
	return d.tell(state, settled, true)
}

func (d *Delivery) tell(state amqp.DeliveryState, settled, lazy bool) bool {
	l := d.Link
	s := l.session
	if !d.listed || !s.ready() {
		return false
	}
	if state != nil {
		d.LocalState = state
	}
	if settled {
		l.settle(d)
	}
	s.conn.dispose(s, l.role, d.ID, state, settled, lazy)
	return true
}

// DisposeThrough disposes of all the link's unsettled deliveries up to and with d (JMS CLIENT_ACKNOWLEDGE) and says how many.
func (d *Delivery) DisposeThrough(state amqp.DeliveryState, settled bool) (n int) {
	d.Link.EachUnsettled(func(x *Delivery) bool {
		if int32(x.ID-d.ID) > 0 {
			return false
		}
		if x.Dispose(state, settled) {
			n++
		}
		return true
	})
	return n
}

// dispose joins a disposition to the pending one or makes it the pending one.
func (c *Conn) dispose(s *Session, role amqp.Role, id uint32, state amqp.DeliveryState, settled, lazy bool) {
	p := &c.pending
	if p.s == s && p.role == role && p.settled == settled && id == p.last+1 && sameState(p.state, state) {
		p.last, p.lazy = id, p.lazy && lazy
		return
	}
	c.flush()
	*p = pendingDisposition{s: s, role: role, first: id, last: id, settled: settled, lazy: lazy, state: state}
}

// flush makes a frame of the pending disposition.
func (c *Conn) flush() {
	p := &c.pending
	if p.s == nil {
		return
	}
	f := &c.frame.disposition
	*f = amqp.Disposition{Role: p.role, First: p.first, Settled: p.settled, State: p.state}
	if p.last != p.first {
		f.Last = amqp.Some(p.last)
	}
	start := len(c.out)
	c.out = amqp.AppendDisposition(c.out, p.s.channel, f)
	if len(c.out)-start > int(c.maxOut) {
		f.State = cutState(p.state)
		c.out = amqp.AppendDisposition(c.out[:start], p.s.channel, f)
	}
	if p.lazy && start == c.lazy {
		c.lazy = len(c.out)
	}
	*p = pendingDisposition{}
}

// cutState is a state whose error, if it has one, fits into the smallest frame.
func cutState(state amqp.DeliveryState) amqp.DeliveryState {
	switch x := state.(type) {
	case *amqp.Rejected:
		return &amqp.Rejected{Error: cutError(x.Error)}
	case *amqp.Modified:
		return &amqp.Modified{DeliveryFailed: x.DeliveryFailed, UndeliverableHere: x.UndeliverableHere}
	case *amqp.TransactionalState:
		return &amqp.TransactionalState{TxnID: x.TxnID, Outcome: cutState(x.Outcome)}
	}
	return state
}

// sameState says that two states are surely equal, as far as it is cheap to tell.
func sameState(a, b amqp.DeliveryState) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case *amqp.Accepted:
		_, ok := b.(*amqp.Accepted)
		return ok
	case *amqp.Released:
		_, ok := b.(*amqp.Released)
		return ok
	case *amqp.TransactionalState:
		y, ok := b.(*amqp.TransactionalState)
		return ok && bytes.Equal(x.TxnID, y.TxnID) && sameState(x.Outcome, y.Outcome)
	}
	return false
}

// peerDisposition takes a Disposition. A narrow range is looked up id by id, a wide one is held against the links' unsettled
// deliveries, so that its width costs nothing. What isn't unsettled is ignored (checklist 65, 69).
func (s *Session) peerDisposition(p *amqp.Disposition) {
	last := p.Last.Or(p.First)
	if int32(last-p.First) < 0 {
		s.fail(amqp.ErrCondInvalidField, "a disposition whose last is below its first")
		return
	}
	table, role := s.sent, amqp.RoleSender
	if p.Role == amqp.RoleSender {
		table, role = s.received, amqp.RoleReceiver
	}
	r := run{s: s, from: len(s.conn.runs), state: p.State, settled: p.Settled}
	if uint64(last-p.First) < uint64(len(table)) {
		for i, n := uint32(0), last-p.First; i <= n; i++ {
			if d := table[p.First+i]; d != nil {
				r.add(d)
			}
		}
		r.end()
		return
	}
	for i := 0; i < len(s.links); i++ {
		l := s.links[i]
		if l.role != role {
			continue
		}
		for d := l.first; d != nil; {
			next := d.next
			if d.ID-p.First <= last-p.First {
				r.add(d)
			}
			d = next
		}
		r.end()
		if i < len(s.links) && s.links[i] != l { // it was detached and this settled its last
			i--
		}
	}
}

// run gathers neighbouring deliveries of one link that a disposition changes, for one event.
type run struct {
	s       *Session
	from    int // in Conn.runs
	state   amqp.DeliveryState
	cloned  bool
	settled bool
}

func (r *run) add(d *Delivery) {
	if !r.settled && (r.state == nil || sameState(d.State, r.state)) {
		return // nothing new
	}
	c := r.s.conn
	if n := len(c.runs); n > r.from && c.runs[n-1].Link != d.Link {
		r.end()
	}
	if !r.cloned {
		r.state, r.cloned = amqp.CloneState(r.state), true
	}
	if r.state != nil {
		d.State = r.state
	}
	if r.settled {
		d.Link.settle(d)
	}
	c.runs = append(c.runs, d)
}

// end makes the event.
func (r *run) end() {
	c := r.s.conn
	n := len(c.runs)
	if n == r.from {
		return
	}
	ds := c.runs[r.from:n:n]
	r.from = n
	ev := c.emit(Disposed)
	ev.Session, ev.Link, ev.Deliveries, ev.State, ev.Settled = r.s, ds[0].Link, ds, r.state, r.settled
}
