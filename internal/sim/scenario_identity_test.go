package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/peer"
)

// identityScenarios are those of section 1: identity, fencing, deduplication.
func identityScenarios() []scenario {
	return []scenario{
		{name: "1.1-commit-leader-lost", play: commitLeaderLost, breaks: []mutant.Mutant{mutant.NoRewind, mutant.HalfCommit}, about: `
A commit is on its way to the leader, which dies with it. The home keeps its commands until its own replica has applied them, and
sends them to the next leader: the client's connection stays, and it is told what happened.`},
		{name: "1.1-gap-changes-nothing", play: gapChangesNothing, breaks: []mutant.Mutant{mutant.LastNumber}, about: `
The home's first command is lost on the way and its second arrives. If state took "the last number applied" for all that was
applied, the first would count as a repeat when it comes again, and a message would be gone for which its sender was told yes.
A number above last+1 changes nothing: state asks for the one that it expects.`},
		{name: "1.1-late-records", play: lateRecords, about: `
A home's command is held up on its way; the home sends it again when nothing comes of it, and it is applied. Then the first copy
arrives and reaches the log. A number that was applied is a repeat and changes nothing: no second message.`},
		{name: "1.2a-former-life", play: formerLife, breaks: []mutant.Mutant{mutant.AnyEpoch}, about: `
A home dies and is back before anyone has noticed. The first command of its former life, the opening of a connection, arrives when
its new life has begun, as number 1. It is of another epoch and changes nothing; else the new life's own number 1 would count as a
repeat and be lost.`},
		{name: "1.2b-nodedown-overtaken", play: nodeDownOvertaken, about: `
A home says goodbye; its word is held up, the process ends, starts again and has a new epoch. Then the word arrives: NodeDown. It
names the epoch that it ends, which is over; the new life and its clients stay.`},
		{name: "1.2c-nodeup-again", play: nodeUpAgain, about: `
A home's NodeUp reaches the log twice. The second has the nonce of the first and gets the same epoch: the connections that were
opened in between live on.`},
		{name: "1.2d-wrongly-dead", play: wronglyDead, about: `
A home stands still for longer than the cluster waits, with a message in its hands that its client has sent. Its epoch is ended; its
client goes elsewhere and sends again. When it goes on it finds its epoch ended, closes every client's connection, and only then
asks for a new epoch. The message is stored once.`},
		{name: "1.2d-flapping", play: flapping, about: `
Something is wrong with a home: the cluster takes it for dead three times within 10 s, and each time it comes back. After the third
it waits 5 s before it asks for a new epoch, so that its clients stay where they are well.`},
		{name: "1.3-restarted-home", play: restartedHome, breaks: []mutant.Mutant{mutant.ConnOutlivesEpoch}, about: `
A home dies and is back before anyone has noticed; a client of its never comes back. NodeUp of the new life ends the connections of
the former in the same step: what the client held goes to others. (A checkpoint that is installed is the same case; there are none
yet.)`},
		{name: "1.4-commit-jammed", play: commitJammed, breaks: []mutant.Mutant{mutant.FormerConnLives}, about: `
What a client sends to its home is jammed, a commit inside. It goes to another node, resumes its session, has the transaction
committed there and begins the next. Then the jam clears: the home is healthy, and carries the commit to the log. Taking the client
over has ended the former connection: its commands change nothing.`},
		{name: "1.4-lower-attempt", play: lowerAttempt, about: `
The opening of a client's first connection is held up. The client gives up and connects to another node, and works. Then the first
opening arrives. It has a lower attempt than the present one and is refused; else it would end the client's living connection.`},
		{name: "1.5b-equal-container-ids", play: equalContainerIDs, about: `
Two processes of one configuration have the same container-id, and neither asks to be the only one (legal AMQP). They must not end
each other's connections for ever: both live.`},
		{name: "1.5c-dead-host", play: deadHost, about: `
A JMS client asks to be its container-id's only connection. Its host loses power; started elsewhere it comes to another node and is
refused, as the old connection looks alive. That refusal makes the old home write an empty frame: nobody acknowledges it for 3 s,
the connection is ended, and the next attempt succeeds, not only after the idle time-out.`},
		{name: "1.5c-living-owner", play: livingOwner, about: `
The same with an owner that lives: its TCP acknowledges the probe. The newcomer is refused with invalid-field each time, and the
owner keeps its connection.`},
		{name: "1.6-refusal-repeated", play: refusalRepeated, breaks: []mutant.Mutant{mutant.ClientRepeats}, about: `
Of three pipelined sends the second is refused; the connection is lost before the answers. The client sends all three again. If
state knew only the last number it would call all of them repeats and say "accepted" thrice. Refused sends take their number in the
log too, and a repeat gets its first answer.`},
	}
}

// moving is a client at the home with a transaction that takes a message from a and sends two to b.
func moving(s *stage) *deal {
	s.person("producer", s.third).stores("a")
	d := s.person("mover", s.home).begin()
	d.settle(d.p.take("a"))
	d.send("b")
	d.send("b")
	s.wait(20 * ms) // the operations are at the home
	return d
}

func commitLeaderLost(s *stage) {
	d := moving(s)
	s.once(s.home, command.KindCommit, func(h *held) bool {
		s.say("n%d sends the commit to n%d, the leader", h.l.from.id, h.l.to.id)
		s.soon(func() { h.l.to.crash(false) })
		return false
	})
	d.commit()
	d.committed()
	s.must(d.p.at() == s.home, "the client has left its home")
}

func gapChangesNothing(s *stage) {
	p := s.person("producer", s.home)
	p.stores("a")
	s.once(s.home, command.KindSend, func(*held) bool {
		s.say("the frame with it from n%d to n%d is lost", s.home.id, s.leader.id)
		return true
	})
	first := p.send("a")
	s.wait(2 * ms)
	second := p.send("a")
	s.until("both are answered", func() bool { return first.x.Done() && second.x.Done() })
	for _, want := range []*message{s.history.list[0], first.m, second.m} {
		got := s.firstOf("a", want)
		s.must(got == want, "%s comes where %s is due", got.id, want.id)
	}
	all, _ := s.depth("a")
	s.must(all == 0, "%d messages are left in queue a", all)
}

// firstOf is what a consumer at the third node gets next.
func (s *stage) firstOf(queue string, _ *message) *message {
	for _, p := range s.people {
		if p.name == "consumer" {
			return p.consumes(queue)
		}
	}
	return s.person("consumer", s.third).consumes(queue)
}

func lateRecords(s *stage) {
	g := s.generic("jms", s.home)
	l := g.producer("a")
	var late *held
	s.once(s.home, command.KindSend, func(h *held) bool {
		s.say("the frame with it from n%d to n%d is held up", s.home.id, s.leader.id)
		late = h
		return true
	})
	m := s.newMessage("a")
	m.begun = true
	g.say("sends %s to queue a", m.id)
	d := g.put(l, nil, m.payload())
	g.answer(d)
	g.say("is told: %s is stored", m.id)
	m.sent = done
	s.say("n%d loses its connection to n%d and with it what it knew of that home's stream", s.leader.id, s.home.id)
	back := s.link(s.leader, s.home)
	back.lose()
	s.until("it is up again", func() bool { return back.up })
	s.wait(10 * ms)
	s.say("n%d gets the frame that was held up", s.leader.id)
	before := s.leader.step.Status().Applied
	late.carry()
	s.wait(second)
	s.must(s.leader.step.Status().Applied > before, "the frame didn't reach the log")
	all, _ := s.depth("a")
	s.must(all == 1, "%d messages in queue a, not 1", all)
}

func formerLife(s *stage) {
	var late *held
	s.once(s.home, command.KindConnOpen, func(h *held) bool {
		s.say("n%d sends the opening of its first connection to n%d; the frame is held up", s.home.id, s.leader.id)
		late = h
		return true
	})
	s.stranger("client", s.home)
	s.wait(50 * ms)
	s.home.crash(false)
	epoch, _ := s.machine().Epoch(command.NodeID(s.home.id))
	s.home.start()
	s.until("n2 has a new epoch", func() bool { return s.home.epoch > epoch })
	s.say("the frame arrives")
	late.carry()
	s.wait(20 * ms)
	q := s.stranger("another", s.home)
	s.within(second, "n2 works for its clients", func() bool { return q.s.ID() != client.SessionID{} })
	s.must(q.at() == s.home, "the client that came to n2 is elsewhere")
	q.stores("a")
	for _, c := range s.machine().Connections() {
		s.must(int(c.Node) != s.home.id || c.ContainerID == q.name, "a connection of n2's former life is open")
	}
}

func nodeDownOvertaken(s *stage) {
	p := s.person("client", s.home)
	p.stores("a")
	epoch := s.home.epoch
	var late *held
	s.onFrame(func(h *held, x *frame) bool {
		if late != nil || x.note == nil || x.note.Kind != peer.NoteNodeDown || h.l.from != s.home {
			return false
		}
		s.say("n%d says to n%d that it leaves; the frame is held up", s.home.id, s.leader.id)
		late = h
		return true
	})
	s.home.step.Leave()
	s.home.kick()
	s.until("n2 has said so", func() bool { return late != nil })
	s.home.crash(false)
	s.wait(20 * ms)
	s.home.start()
	s.until("n2 has a new epoch", func() bool { return s.home.epoch > epoch })
	present := s.home.epoch
	q := s.person("another", s.home)
	s.say("the frame arrives: n%d's epoch %d is to be ended", s.home.id, epoch)
	late.carry()
	s.wait(200 * ms)
	s.must(s.home.epoch == present, "n2's epoch is %d, and was %d", s.home.epoch, present)
	s.must(q.at() == s.home, "a client of n2's new life was sent away")
	q.stores("a")
}

func nodeUpAgain(s *stage) {
	var again *held
	s.onFrame(func(h *held, x *frame) bool {
		if x.note != nil && x.note.Kind == peer.NoteNodeUp && h.l.from == s.home && again == nil {
			again = h
			s.say("n%d asks n%d for its epoch", s.home.id, s.leader.id)
		}
		return false
	})
	s.home.crash(false)
	s.home.start()
	s.until("n2 has an epoch", func() bool { return s.home.epoch > 0 && again != nil })
	epoch := s.home.epoch
	p := s.person("client", s.home)
	s.say("the same NodeUp arrives at n%d once more", s.leader.id)
	again.carry()
	s.wait(200 * ms)
	now, _ := s.machine().Epoch(command.NodeID(s.home.id))
	s.must(now == epoch, "n2's epoch is %d, and was %d", now, epoch)
	s.must(p.at() == s.home, "the client was sent away")
	s.must(len(s.machine().Connections()) == 1, "%d connections are open", len(s.machine().Connections()))
	p.stores("a")
}

func wronglyDead(s *stage) {
	p := s.person("producer", s.home)
	p.stores("a")
	idle := s.generic("jms", s.home)
	epoch := s.home.epoch
	s.home.pause()
	x := p.send("a")
	s.wait(20 * ms)
	s.until("n2's epoch is ended", func() bool {
		now, _ := s.machine().Epoch(command.NodeID(s.home.id))
		return now == 0
	})
	s.say("n%d's epoch %d is ended", s.home.id, epoch)
	s.until("it is stored", x.x.Done)
	s.must(p.at() != s.home, "the client is still at n2")
	conns := len(s.home.order)
	s.must(conns == 2 && !idle.ended, "n2 has %d connections before it goes on", conns)
	s.home.resume()
	s.until("n2 knows", func() bool { return s.home.epoch == 0 })
	s.until("n2 has a new epoch", func() bool { return s.home.epoch > epoch })
	s.must(len(s.home.order) == 0, "a connection of n2's former epoch is open in the new one")
	s.must(idle.fault != nil && idle.fault.AMQP.Condition == amqp.ErrCondConnectionForced, "jms is told %v", idle.fault)
	all, _ := s.depth("a")
	s.must(all == 2, "%d messages in queue a, not 2", all)
}

func flapping(s *stage) {
	s.person("client", s.third).stores("a")
	s.wait(5 * second)
	for i := 1; i <= 3; i++ {
		s.home.pause()
		s.until("n2's epoch is ended", func() bool {
			now, _ := s.machine().Epoch(command.NodeID(s.home.id))
			return now == 0
		})
		s.home.resume()
		back := s.now
		s.until("n2 knows", func() bool { return s.home.epoch == 0 })
		s.until("n2 has a new epoch", func() bool { return s.home.epoch > 0 })
		took := s.now - back
		s.must(i < 3 && took < second || i == 3 && took > 5*second && took < 6*second, "the new epoch number %d came after %v", i, took)
	}
}

func restartedHome(s *stage) {
	s.person("producer", s.third).stores("a")
	jms := s.generic("jms", s.home)
	jms.listen("a", 10)
	s.until("jms has the message", func() bool { return len(jms.got) == 1 })
	jms.say("gets %s", jms.got[0].m.id)
	s.home.crash(false)
	jms.say("doesn't come back")
	s.wait(100 * ms)
	s.home.start()
	s.until("n2 has an epoch", func() bool { return s.home.epoch > 0 })
	t := s.person("consumer", s.third).take("a")
	s.must(t.m == jms.got[0].m, "%s came, not %s", t.m.id, jms.got[0].m.id)
	s.must(s.now-s.began < 5*second, "it took %v for the message to come", s.now-s.began)
}

func commitJammed(s *stage) {
	d := moving(s)
	jam := d.p.a.sock.up
	jam.jammed = true
	s.say("what mover sends to n%d is jammed", s.home.id)
	d.commit()
	s.until("mover is elsewhere", func() bool { return d.p.at() != nil && d.p.at() != s.home })
	d.committed()
	next := d.p.begin()
	out := next.send("b")
	s.wait(20 * ms)
	s.say("the jam clears")
	jam.release()
	s.wait(second)
	next.commit()
	next.committed()
	all, _ := s.depth("b")
	s.must(all == 3, "%d messages in queue b, not 3 (%s is one)", all, out.id)
	for _, c := range s.machine().Connections() {
		s.must(c.ContainerID != "mover" || int(c.Node) == d.p.at().id, "mover has a connection to n%d, and is on n%d", c.Node, d.p.at().id)
	}
}

func lowerAttempt(s *stage) {
	var late *held
	s.once(s.home, command.KindConnOpen, func(h *held) bool {
		s.say("n%d sends the opening of a connection to n%d; the frame is held up", s.home.id, s.leader.id)
		late = h
		return true
	})
	hold := s.sent
	s.sent = func(l *link, stream int, b []byte) bool { // and what is sent again as well: the way is slow
		if late != nil && l == late.l && stream == 0 && b[8] == 5 {
			return true
		}
		return hold(l, stream, b)
	}
	p := s.stranger("client", s.home)
	s.until("the client is at another node", func() bool {
		return p.at() != nil && p.at() != s.home && p.s.ID() != client.SessionID{}
	})
	p.stores("a")
	at := p.at()
	s.say("the first opening arrives")
	s.sent = nil
	late.carry()
	s.wait(500 * time.Millisecond)
	s.must(p.at() == at, "the client was sent away from n%d", at.id)
	p.stores("a")
	for _, c := range s.machine().Connections() {
		s.must(int(c.Node) == at.id, "there is a connection to n%d", c.Node)
	}
}

func equalContainerIDs(s *stage) {
	x, y := s.call("pod 1", "pod", s.home, false), s.call("pod 2", "pod", s.third, false)
	s.until("both are open", func() bool { return x.opened && y.opened })
	s.wait(10 * second)
	s.must(!x.ended && !y.ended, "pod 1 ended: %v, pod 2 ended: %v", x.ended, y.ended)
	s.must(len(s.machine().Connections()) == 2, "%d connections", len(s.machine().Connections()))
}

func deadHost(s *stage) {
	old := s.call("jms", "jms", s.home, true)
	s.until("jms is open", func() bool { return old.opened })
	old.die(true)
	begun := s.now
	tries := 0
	for now := s.call("jms again", "jms", s.third, true); ; now = s.call("jms again", "jms", s.third, true) {
		tries++
		s.until("it is answered", func() bool {
			return now.ended || now.opened && now.fault == nil && len(s.conns("jms")) == 1 && s.conns("jms")[0] == s.third.id
		})
		if !now.ended {
			now.say("is open")
			break
		}
		s.must(tries < 10, "refused %d times", tries)
		if tries == 10 {
			return
		}
		s.wait(500 * ms)
	}
	s.must(tries > 1, "the newcomer wasn't refused first")
	s.must(s.now-begun < 5*second, "it took %v to get in", s.now-begun)
}

func livingOwner(s *stage) {
	old := s.call("jms", "jms", s.home, true)
	s.until("jms is open", func() bool { return old.opened })
	for range 5 {
		now := s.call("newcomer", "jms", s.third, true)
		s.until("it is refused", func() bool { return now.ended })
		s.must(now.fault != nil && now.fault.AMQP.Condition == amqp.ErrCondInvalidField, "it ended with %v", now.fault)
		s.wait(second)
	}
	s.must(!old.ended, "the owner's connection was ended")
}

// conns are the nodes of a container-id's connections, as state has them.
func (s *stage) conns(container string) (nodes []int) {
	for _, c := range s.machine().Connections() {
		if c.ContainerID == container {
			nodes = append(nodes, int(c.Node))
		}
	}
	return nodes
}

func refusalRepeated(s *stage) {
	p := s.person("producer", s.home)
	p.stores("b")
	snd := p.s.NewSender("", "")
	p.a.pump()
	s.until("the anonymous link is attached", snd.Attaching.Done)
	s.wait(5 * ms)
	p.a.sock.down.jammed = true
	s.say("what n%d sends to producer is jammed: no answer arrives", s.home.id)
	var all []*sending
	for _, to := range []string{"b", "$oncemq.nonsense", "b"} {
		m := s.newMessage("b")
		s.say("producer sends %s to %s", m.id, to)
		all = append(all, p.hand(snd, m, append(amqp.AppendProperties(nil, &amqp.Properties{To: to}), m.payload()...)))
	}
	s.wait(20 * ms)
	s.home.crash(false)
	s.until("all are answered", func() bool { return all[0].x.Done() && all[1].x.Done() && all[2].x.Done() })
	s.must(all[0].m.sent == done && all[1].m.sent == undone && all[2].m.sent == done,
		"the answers are %v, %v, %v", all[0].m.sent, all[1].m.sent, all[2].m.sent)
	n, _ := s.depth("b")
	s.must(n == 3, "%d messages in queue b, not 3", n)
}
