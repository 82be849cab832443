package frontend

import (
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// qpidJMS is the Open of Qpid JMS.
func qpidJMS(o *amqp.Open) {
	o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: "QpidJMS"}}
}

// named gives a link a name.
func named(name string) func(*amqp.Attach) { return func(a *amqp.Attach) { a.Name = name } }

// identified is a message with an id.
func identified(id string) engine.Transfer {
	return engine.Transfer{Payload: [][]byte{append(amqp.AppendProperties(nil, &amqp.Properties{MessageID: id}), text(id)...)}}
}

// C9: what Qpid JMS says again over a sender link that it attaches anew is accepted and stored once; other clients mean what they send.
func TestResendOfQpidJMS(t *testing.T) {
	const link = "qpid-jms:sender:ID:1:1:1:q"
	lost := func(_ *rig, p *pair) { p.lose(command.EndReset) }
	for name, c := range map[string]struct {
		open func(*amqp.Open)
		link string
		end  func(r *rig, p *pair)
		want string
	}{
		"lost":   {qpidJMS, link, lost, "1/0"},
		"silent": {qpidJMS, link, func(_ *rig, p *pair) { p.lose(command.EndSilent) }, "1/0"},
		"its node goes": {qpidJMS, link, func(r *rig, p *pair) {
			p.fe.Stop("test", r.now)
			r.pump()
		}, "1/0"},
		"it finds its node silent": {qpidJMS, link, func(r *rig, p *pair) {
			_ = p.cl.Close(&amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: "local-idle-timeout expired"})
			r.pump()
		}, "1/0"},
		"closed": {qpidJMS, link, func(r *rig, p *pair) {
			_ = p.cl.Close(nil)
			r.pump()
		}, "2/0"},
		"another link's name": {qpidJMS, "mine", lost, "2/0"},
		"another product":     {func(*amqp.Open) {}, link, lost, "2/0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.open("app", c.open)
			d := p.send(p.sender(p.begin(), "q", named(c.link)), identified("ID:1-1"))
			r.pump()
			wantState[*amqp.Accepted](t, d, true)
			c.end(r, p)
			p = r.open("app", c.open)
			d = p.send(p.sender(p.begin(), "q", named(c.link)), identified("ID:1-1"))
			r.pump()
			wantState[*amqp.Accepted](t, d, true)
			r.wantDepth("q", c.want)
		})
	}
}

// A link that is detached without being closed may be attached again; one that is closed, or whose session has ended, may not.
func TestResendBehindDetach(t *testing.T) {
	const link = "qpid-jms:sender:ID:1:1:1:q"
	for name, c := range map[string]struct {
		end  func(s *engine.Session, l *engine.Link)
		want string
	}{
		"detached": {func(_ *engine.Session, l *engine.Link) { _ = l.Detach(false, nil) }, "1/0"},
		"closed":   {func(_ *engine.Session, l *engine.Link) { _ = l.Detach(true, nil) }, "2/0"},
		"ended":    {func(s *engine.Session, _ *engine.Link) { _ = s.End(nil) }, "2/0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.open("app", qpidJMS)
			s := p.begin()
			l := p.sender(s, "q", named(link))
			p.send(l, identified("ID:1-1"))
			r.pump()
			c.end(s, l)
			r.pump()
			p.send(p.sender(p.begin(), "q", named(link)), identified("ID:1-1"))
			r.pump()
			r.wantDepth("q", c.want)
		})
	}
}

// A link that ends here, for a settled send that is refused, may be attached anew by a client that was gone before it heard of that.
func TestResendBehindDeletedQueue(t *testing.T) {
	const link = "qpid-jms:sender:ID:1:1:1:q"
	r := newRig(t)
	p := r.open("app", qpidJMS)
	l := p.sender(p.begin(), "q", named(link))
	p.send(l, identified("ID:1-1"))
	r.pump()
	r.wantDepth("q", "1/0")
	r.log.queue = append(r.log.queue, command.Append(nil, &command.QueueDelete{Request: 1, Name: "q"}))
	p.send(l, engine.Transfer{Settled: true, Payload: [][]byte{text("late")}})
	p.wantDetached(l, amqp.ErrCondResourceDeleted)
	p.lose(command.EndReset)
	p = r.open("app", qpidJMS)
	d := p.send(p.sender(p.begin(), "q", named(link)), identified("ID:1-1"))
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	r.wantDepth("q", "0/0")
}

// What may have been stored isn't refused for want of room without asking the state.
func TestResendWithoutRoom(t *testing.T) {
	const link = "qpid-jms:sender:ID:1:1:1:q"
	r := newRig(t)
	p := r.open("app", qpidJMS)
	p.send(p.sender(p.begin(), "q", named(link)), identified("ID:1-1"))
	r.pump()
	p.lose(command.EndReset)
	p = r.open("app", qpidJMS)
	s := p.begin()
	again, other := p.sender(s, "q", named(link)), p.sender(s, "q", named(link+":2"))
	r.log.room = command.RoomFull
	d, no := p.send(again, identified("ID:1-1")), p.send(other, identified("ID:1-2"))
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	wantRejected(t, no, amqp.ErrCondResourceLimitExceeded)
	r.wantDepth("q", "1/0")
}
