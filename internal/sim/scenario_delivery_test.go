package sim

import (
	"bytes"
	"errors"
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// deliveryScenarios are those of section 3: what was computed, written and seen.
func deliveryScenarios() []scenario {
	return append([]scenario{
		{name: "3.1-written-or-not", play: writtenOrNot, breaks: []mutant.Mutant{mutant.ReturnedLast}, about: `
State has handed 30 messages out to a consumer whose socket took only some of them. The client dies, its home lives: it says what it
never wrote. Those go back untouched, to their place before what is new; the others count as a failed attempt.`},
		{name: "3.1-home-lost", play: homeLost, about: `
The same, and the home dies with its client. Nobody can say what was written: state counts everything that it had computed, so that
nothing that may have been seen comes as if it were new.`},
		{name: "3.2-poison", play: poison, about: `
A message crashes its consumer, again and again; four innocent ones are prefetched behind it each time. The loss of a connection
counts for the oldest delivery of a link alone: after ten failures the poison is a dead letter, and its neighbours are not.`},
		{name: "3.3-absent-is-not-accepted", play: absentIsNotAccepted, breaks: []mutant.Mutant{mutant.AbsentAccepted, mutant.AnyAttempt}, about: `
A consumer's connection breaks while it works on a message; its grace period ends, and the message goes to another. Then it resumes
and accepts. The broker has that delivery no more: AMQP's "the sender settled it" would make Accept succeed, for work that is done
twice. The answer is: lost.`},
		{name: "3.3-accept-answer-lost", play: acceptAnswerLost, about: `
A consumer has accepted a message; it is applied, and the home dies before it says so. The consumer is away for longer than its grace
period. To tell it "lost" then would make it undo what it has finished: results outlive the grace period, and it is told: accepted.`},
		{name: "3.4-stuck-consumer", play: stuckConsumer, breaks: []mutant.Mutant{mutant.WithdrawPartly}, about: `
A consumer gives credit for 1,000 messages and reads nothing; its socket is full. After 2 s its home takes the allowance back, and
with it what was not written. Messages that state hands out while that is on its way go back as well: others get them.`},
		{name: "3.5-lagging-home", play: laggingHome, about: `
A home's disk hangs: it applies nothing, while state hands messages out to its consumers. When it is 2 s behind it gives all
allowances back, so that others get the messages; after 10 s it closes its connections, so that its clients move.`},
		{name: "3.6-presettled", play: presettled, about: `
A link without acknowledgements has credit for 1,000 messages; its socket is stuck, and the client dies. A message is gone when it
was written, not when it was handed out: what was not written comes to the next consumer.`},
		{name: "3.7-killed-consumer", play: killedConsumer, breaks: []mutant.Mutant{mutant.GraceForever}, about: `
A consumer is killed with a message in its hands; its machine resets the connection. The message is reserved for it for 5 s, not for
the 60 s of a silent line, and then goes to another.`},
		{name: "3.7-restarted-consumer", play: restartedConsumer, about: `
The same consumer is started again, under its client id: a new process, which holds nothing. It gets at once what was reserved for
the former one.`},
		{name: "3.9-undeliverable-here", play: undeliverableHere, about: `
A consumer can't do anything with a message: modified, undeliverable-here. It isn't given to that link again, but to another; when
every link there is has said so it doesn't go round for ever: it waits, in its place, for a link that has not.`},
	}, leaseScenarios()...)
}

func undeliverableHere(s *stage) {
	s.person("producer", s.third).stores("a")
	one, two := s.generic("one", s.home), s.generic("two", s.third)
	one.listen("a", 5)
	s.until("one has it", func() bool { return len(one.got) == 1 })
	two.listen("a", 5)
	refuse := func(g *generic) {
		g.say("gets %s, and can't use it here", g.got[0].m.id)
		g.got[0].d.Dispose(&amqp.Modified{DeliveryFailed: true, UndeliverableHere: true}, true)
		g.a.pump()
	}
	refuse(one)
	s.until("two has it", func() bool { return len(two.got) == 1 })
	s.wait(100 * ms)
	refuse(two)
	s.wait(100 * ms)
	s.must(len(one.got) == 1 && len(two.got) == 1, "it came %d times to one, %d times to two", len(one.got), len(two.got))
	all, inFlight := s.depth("a")
	s.must(all == 1 && inFlight == 0, "queue a has %d messages, %d of them with consumers", all, inFlight)
	s.say("it waits")
	three := s.rest("three", s.home)
	s.must(len(three.got) == 1, "three got %d messages", len(three.got))
}

// backlog stores large messages.
func backlog(s *stage, count int) (all []*message) {
	p := s.person("producer", s.third)
	last := (*sending)(nil)
	s.on = false
	for range count {
		last = p.sendOf("a", 10<<10)
		all = append(all, last.m)
	}
	s.until("all are stored", last.x.Done)
	s.on = true
	s.say("producer has stored %s to %s in queue a, of 10 KiB each", all[0].id, all[count-1].id)
	return all
}

// stuck is a generic consumer that takes nothing out of its socket, and what its home has written.
func stuck(s *stage, mode amqp.SenderSettleMode) *generic {
	g := s.generic("slow", s.home)
	g.attach("b", 1, mode)
	g.a.sock.down.jammed = true
	g.say("reads nothing any more")
	a := *amqp.NewAttach("from a", amqp.RoleReceiver)
	a.SenderSettleMode = mode
	a.Source = &amqp.Source{Address: amqp.Some("a"), Outcomes: outcomes}
	a.Target = &amqp.Target{}
	l, _ := g.session.Attach(a)
	g.queues[l] = "a"
	g.credit(l, 1000, false)
	s.wait(500 * ms)
	return g
}

// wrote counts those messages that stand in a consumer's socket.
func (g *generic) wrote(all []*message) (n int) {
	bytesThere := bytes.Join(g.a.sock.down.pieces, nil)
	for _, m := range all {
		if bytes.Contains(bytesThere, append([]byte{0xa0, byte(len(m.id))}, m.id...)) {
			n++
		}
	}
	return n
}

// rest has a new generic consumer take what comes within a while.
func (s *stage) rest(name string, at *node) *generic {
	g := s.generic(name, at)
	g.listen("a", 1000)
	s.wait(second)
	if n := len(g.got); n > 0 {
		g.say("gets %d messages, %s to %s", n, g.got[0].m.id, g.got[n-1].m.id)
	}
	return g
}

func writtenOrNot(s *stage) {
	all := backlog(s, 30)
	slow := stuck(s, amqp.SenderSettleMixed)
	wrote := slow.wrote(all)
	s.say("n%d has all 30 for slow, and has written %d of them", s.home.id, wrote)
	_, inFlight := s.depth("a")
	s.must(inFlight == 30 && wrote > 0 && wrote < 30, "%d are handed out, %d written", inFlight, wrote)
	slow.die(false)
	s.wait(100 * ms)
	all = append(all, s.people[0].stores("a"))
	next := s.rest("next", s.third)
	s.must(len(next.got) == len(all), "next got %d messages, not %d", len(next.got), len(all))
	for i, x := range next.got {
		want := uint32(0)
		if i < wrote {
			want = 1
		}
		s.must(x.m == all[i], "number %d is %s, not %s", i, x.m.id, all[i].id)
		s.must(x.count == want && x.first == (want == 0), "%s comes with count %d, first-acquirer %v", x.m.id, x.count, x.first)
	}
	next.say("sees count 1 at the first %d and count 0, untouched, at the others", wrote)
}

func homeLost(s *stage) {
	all := backlog(s, 30)
	slow := stuck(s, amqp.SenderSettleMixed)
	s.say("n%d has all 30 for slow, and has written %d of them", s.home.id, slow.wrote(all))
	s.home.crash(false)
	next := s.rest("next", s.third)
	s.must(len(next.got) == len(all), "next got %d messages, not %d", len(next.got), len(all))
	for i, x := range next.got {
		s.must(x.m == all[i] && x.count == 1 && !x.first, "number %d is %s with count %d, first-acquirer %v", i, x.m.id, x.count, x.first)
	}
	next.say("sees count 1 at all of them")
}

func poison(s *stage) {
	p := s.person("producer", s.third)
	for range 5 {
		p.stores("a")
	}
	for i := range 10 {
		s.on = false
		g := s.generic("fragile", s.home)
		g.listen("a", 5)
		s.until("it has all five", func() bool { return len(g.got) == 5 })
		s.on = true
		g.say("gets five, and crashes over %s, which comes with count %d", g.got[0].m.id, g.got[0].count)
		s.must(g.got[0].m == s.history.list[0] && int(g.got[0].count) == i, "%s comes with count %d", g.got[0].m.id, g.got[0].count)
		s.on = false
		g.die(false)
		s.wait(50 * ms)
		s.on = true
	}
	left, _ := s.depth("a")
	dead, _ := s.depth("DLQ.a")
	s.say("queue a has %d messages, its dead-letter queue %d", left, dead)
	s.must(left == 4 && dead == 1, "queue a has %d messages, its dead-letter queue %d", left, dead)
	for i, x := range s.rest("next", s.third).got {
		s.must(x.m == s.history.list[i+1], "number %d is %s", i, x.m.id)
	}
}

// away breaks a consumer's connection and makes it stand still for longer than its grace period.
func away(s *stage, p *person) {
	p.a.sock.cut()
	s.say("%s's connection breaks", p.name)
	p.a.pause(7 * second)
}

func absentIsNotAccepted(s *stage) {
	m := s.person("producer", s.third).stores("a")
	slow := s.person("slow", s.home)
	t := slow.take("a")
	away(s, slow)
	other := s.person("other", s.third).take("a")
	s.must(other.m == m, "other got %s", other.m.id)
	s.until("slow goes on", func() bool { return !slow.a.paused })
	slow.accept(t)
	s.until("slow is answered", func() bool { return t.told })
	s.must(errors.Is(t.err, client.ErrDeliveryLost), "Accept of a delivery that is gone says %v", t.err)
	other.d.Settle(&amqp.Accepted{})
	h := &holding{m: m, took: done}
	m.settles = append(m.settles, h)
	s.people[2].a.pump()
	s.wait(100 * ms)
	all, _ := s.depth("a")
	s.must(all == 0, "%d messages are left", all)
}

func acceptAnswerLost(s *stage) {
	s.person("producer", s.third).stores("a")
	p := s.person("consumer", s.home)
	t := p.take("a")
	s.onEffect(s.home, command.EffectSettled, func() {
		s.say("n%d applies it", s.home.id)
		s.soon(func() {
			s.home.crash(false)
			p.a.pause(70 * second)
		})
	})
	p.accept(t)
	s.within(100*second, "it is answered", func() bool { return t.told })
	s.must(t.err == nil, "an accept that was applied ends with %v", t.err)
}

func stuckConsumer(s *stage) {
	all := backlog(s, 30)
	slow := stuck(s, amqp.SenderSettleMixed)
	wrote := slow.wrote(all)
	s.say("n%d has all 30 for slow, and has written %d of them", s.home.id, wrote)
	var late *held
	s.once(s.home, command.KindWithdraw, func(h *held) bool {
		s.say("n%d takes slow's allowance back; the frame is held up", s.home.id)
		late = h
		return true
	})
	s.until("n2 takes the allowance back", func() bool { return late != nil })
	for range 3 {
		all = append(all, s.people[0].stores("a"))
	}
	_, inFlight := s.depth("a")
	s.must(inFlight == 33, "%d messages are with slow, not 33", inFlight)
	s.say("state has handed them out to slow as well; the frame arrives")
	late.carry()
	s.wait(100 * ms)
	next := s.rest("next", s.third)
	s.must(len(next.got) == len(all)-wrote, "next got %d messages, not %d", len(next.got), len(all)-wrote)
	for i, x := range next.got {
		s.must(x.m == all[wrote+i], "number %d is %s, not %s", i, x.m.id, all[wrote+i].id)
	}
}

func laggingHome(s *stage) {
	p := s.person("producer", s.home)
	p.stores("b")
	lagging := s.generic("lagging", s.third)
	lagging.listen("a", 10)
	s.third.slow = 60 * second
	s.say("n%d's disk hangs", s.third.id)
	other := s.generic("other", s.home)
	other.listen("a", 10)
	begun := s.now
	for range 6 {
		p.stores("a")
	}
	s.wait(200 * ms)
	_, inFlight := s.depth("a")
	other.say("has %d of them, the others are handed out to n%d's client", len(other.got), s.third.id)
	s.must(inFlight == 6 && len(other.got) == 3, "%d are handed out, other has %d", inFlight, len(other.got))
	s.until("other has all six", func() bool { return len(other.got) == 6 })
	other.say("has all six")
	s.must(s.now-begun < 4*second, "after %v only other had all", s.now-begun)
	s.must(len(lagging.got) == 0, "lagging got %d", len(lagging.got))
	s.until("n3 closes its connections", func() bool { return lagging.ended })
	s.must(s.now-begun > 9*second && s.now-begun < 13*second, "n3 closed its connections after %v", s.now-begun)
	s.must(lagging.fault != nil && lagging.fault.AMQP.Condition == amqp.ErrCondConnectionForced, "with %v", lagging.fault)
}

func presettled(s *stage) {
	all := backlog(s, 30)
	slow := stuck(s, amqp.SenderSettleSettled)
	wrote := slow.wrote(all)
	s.say("n%d has all 30 for slow, and has written %d of them", s.home.id, wrote)
	s.must(wrote > 0 && wrote < 30, "%d are written", wrote)
	slow.die(false)
	s.wait(100 * ms)
	for _, m := range all[:wrote] {
		m.settles = append(m.settles, &holding{m: m, took: done}) // at most once: it was written
	}
	next := s.rest("next", s.third)
	s.must(len(next.got) == len(all)-wrote, "next got %d messages, not %d", len(next.got), len(all)-wrote)
	for i, x := range next.got {
		s.must(x.m == all[wrote+i] && x.count == 0, "number %d is %s with count %d", i, x.m.id, x.count)
	}
}

func killedConsumer(s *stage) {
	m := s.person("producer", s.third).stores("a")
	p := s.person("consumer", s.home)
	p.take("a")
	p.a.die(false)
	begun := s.now
	got := s.person("other", s.third).take("a")
	s.must(got.m == m, "%s came", got.m.id)
	took := s.now - begun
	s.must(took > 4500*ms && took < 6*second, "it came after %v", took)
}

func restartedConsumer(s *stage) {
	m := s.person("producer", s.third).stores("a")
	p := s.person("consumer", s.home)
	p.take("a")
	p.a.die(false)
	begun := s.now
	s.say("consumer is started again")
	got := s.person("consumer", s.third).take("a")
	s.must(got.m == m && s.now-begun < second, "%s came after %v", got.m.id, s.now-begun)
}

// leaseScenarios are those of 3.8: who may write when the cluster has gone on without him.
func leaseScenarios() []scenario {
	return []scenario{
		{name: "3.8-commit-home-cut-off", play: commitHomeCutOff, about: `
A client commits at a home that is cut off from the others. The home can't say anything; the client goes to another node and has the
answer there. The home gives its connections up after 5 s without a lease.`},
		{name: "3.8-commit-leader-stands-still", play: commitLeaderStandsStill, about: `
The leader stands still with a commit in its hands; another leads, and the commit is applied there. When the former leader goes on it
must find out before it says anything: its epoch is over.`},
		{name: "3.8-cut-off-home", play: cutOffHome, breaks: []mutant.Mutant{mutant.AlwaysLease}, about: `
A home has applied a hand-out and is stopped (SIGSTOP) before it has written the message. The cluster takes it for dead, and another
consumer consumes the message. When it goes on the message is in its hands still. It writes only under its lease, and that is over.`},
		{
			name: "3.8-cut-off-leader", play: cutOffLeader,
			breaks: []mutant.Mutant{mutant.EarlyApply, mutant.EarlyAnswer, mutant.EarlySent}, about: `
The home is the leader, and is cut off from both others. It takes a commit and a send from its clients and must answer neither: the
others elect a leader of their own, and what the former one had in its log is dropped. The clients move and are told the truth.`,
		},
	}
}

func commitHomeCutOff(s *stage) {
	d := moving(s)
	s.person("bystander", s.home).stores("b")
	s.cut(s.home)
	d.commit()
	d.committed()
	s.must(d.p.at() != s.home, "the answer came from a home that is cut off")
	s.until("n2 gives up", func() bool { return s.home.epoch == 0 })
	s.until("n2 has closed its connections", func() bool { return len(s.home.order) == 0 })
	s.join(s.home)
	s.until("n2 has a new epoch", func() bool { return s.home.epoch > 0 })
}

func commitLeaderStandsStill(s *stage) {
	d := moving(s)
	s.once(s.home, command.KindCommit, func(h *held) bool {
		s.say("n%d sends the commit to n%d, the leader", h.l.from.id, h.l.to.id)
		s.soon(func() { s.pauseNode(h.l.to, 5*second) })
		return false
	})
	d.commit()
	d.committed()
	epoch := s.leader.epoch
	s.must(s.leader.paused, "the answer came late")
	s.until("n1 goes on", func() bool { return !s.leader.paused })
	s.until("n1 has a new epoch", func() bool { return s.leader.epoch > epoch })
}

func cutOffHome(s *stage) {
	g := s.generic("stopped", s.home)
	g.listen("a", 1)
	s.wait(500 * ms)
	s.onEffect(s.home, command.EffectDeliver, func() {
		s.say("n%d applies the hand-out to its client, and has written nothing", s.home.id)
		s.home.pause()
	})
	m := s.person("producer", s.third).stores("a")
	got := s.person("other", s.third).consumes("a")
	s.must(got == m, "%s came", got.id)
	s.wait(second)
	s.home.resume()
	s.until("n2's connections are closed", func() bool { return len(s.home.order) == 0 })
	s.wait(second)
	s.must(len(g.got) == 0, "the client of the stopped home got a message that was consumed")
}

func cutOffLeader(s *stage) {
	home := s.home
	s.home = s.leader // where the clients are
	d := moving(s)
	p := s.person("sender", s.leader)
	p.stores("b")
	s.cut(s.leader)
	d.commit()
	x := p.send("b")
	s.wait(500 * ms)
	s.must(!d.tx.Done() && !x.x.Done(), "a leader that is cut off has answered")
	s.until("another leads", func() bool { return home.leads || s.third.leads })
	d.committed()
	s.until("the send is answered", x.x.Done)
	s.must(d.p.at() != s.leader && p.at() != s.leader, "clients are still there")
	s.join(s.leader)
	s.wait(second)
	var ids []string
	for _, m := range s.history.list[1:] {
		ids = append(ids, m.id)
	}
	slices.Sort(ids)
	all, _ := s.depth("b")
	s.must(all == len(ids), "%d messages in queue b, not %v", all, ids)
}
