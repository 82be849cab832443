package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// logScenarios are those of sections 4 to 6: work inside Apply, times, large commands, storage.
func logScenarios() []scenario {
	return append([]scenario{
		{name: "4.3-many-ends", play: manyEnds, breaks: []mutant.Mutant{mutant.MapOrder}, about: `
A home dies with eight connections, each of which has a message. All of them end in one step on each node; were it in the order of a
Go map, the nodes' states would differ from then on. After each entry all nodes have the same digest.`},
		{name: "4.5a-clock-jumps", play: clockJumps, about: `
The leader's wall clock jumps four seconds ahead, and then ten years. If the log took that time, every outcome would be forgotten at
once, and log time would then stand still for ten years. Civil time stays within a second of the median of the clocks, and a leader
whose clock is far off gives up its place.`},
		{name: "4.5b-idle-cluster", play: idleCluster, about: `
A consumer's host loses power; nothing else happens in the cluster, so that there are no entries that could carry time on. The leader
proposes a tick when something is due: idle time-out and grace period end, and the waiting consumer gets the message.`},
		{name: "4.5c-downtime", play: downtime, about: `
A consumer has lost its connection and has a few seconds left to come back, when the cluster loses its quorum for ten minutes. Running
time stands while there is no leader: when the nodes see each other again the consumer still has its seconds, and its message.`},
		{name: "4.6-drain", play: drainsAtALaggard, breaks: []mutant.Mutant{mutant.LocalBarrier}, about: `
A message was accepted through one home while another is behind. A consumer there asks for what there is (drain, as each receive with
a time-out does). Answered from what its home knows it would be told "nothing". A read barrier makes the home wait until it has
applied what was committed before the question.`},
		{name: "5.2-parts", play: largeInParts, breaks: []mutant.Mutant{mutant.NoRewind}, about: `
A message of 700 KB travels to the log in parts. Another client's message goes between them; the same client's next message must
not. The leader dies after the second part. The home sends them again to the next one, and the message is whole and stored once.`},
		{name: "5.2-parts-end-with-the-epoch", play: partsEnd, knobs: func(k *knobs) { k.flush = 1 }, about: `
A home dies, and its client too, when one of three parts of a large message is in the log. Parts belong to the node's epoch and end
with it: nothing of them stays in the state, in memory or on disk.`},
		{name: "8.6-backpressure", play: backpressure, about: `
A home is cut off while its client sends 30 MB. Above 8 MiB that aren't applied it gives no more credit; what comes for credit that
was given before it reads up to twice that, and then it reads no more. So its memory is bounded, and what it sends when it reaches
the others again. All messages are stored, in order.`},
	}, storageScenarios()...)
}

func partsEnd(s *stage) {
	p := s.person("large", s.home)
	p.stores("a")
	parts := 0
	s.onFrame(func(h *held, x *frame) bool {
		if h.l.from == s.home && x.has(command.KindPart) {
			parts++
			s.say("n%d sends part %d to n%d", s.home.id, parts, h.l.to.id)
			return parts > 1
		}
		return false
	})
	p.sendOf("a", 700<<10)
	s.wait(20 * ms)
	s.say("n%d's state on disk has %d parts", s.leader.id, s.leader.partsOnDisk())
	s.must(s.leader.partsOnDisk() == 1, "n1's state on disk has %d parts", s.leader.partsOnDisk())
	p.a.die(false)
	s.home.crash(false)
	s.home.start()
	s.until("n2 has an epoch", func() bool { return s.home.epoch > 0 })
	s.wait(20 * ms)
	s.say("n%d's state on disk has %d parts", s.leader.id, s.leader.partsOnDisk())
	s.must(s.leader.partsOnDisk() == 0, "n1's state on disk has %d parts", s.leader.partsOnDisk())
	s.sent = nil
	y := s.person("another", s.home).sendOf("a", 700<<10)
	s.until("it is stored", y.x.Done)
	all, _ := s.depth("a")
	s.must(all == 2, "%d messages in queue a, not 2", all)
}

// partsOnDisk counts what is large in a node's state as it is on disk.
func (n *node) partsOnDisk() (count int) {
	for _, v := range n.disk.state.values {
		if len(v) > 100_000 {
			count++
		}
	}
	return count
}

func backpressure(s *stage) {
	p := s.person("producer", s.home)
	p.stores("a")
	s.cut(s.home)
	s.say("producer sends 60 messages of 500 KB")
	s.on = false
	var all []*sending
	for range 60 {
		all = append(all, p.sendOf("a", 500_000))
	}
	s.wait(1500 * ms)
	s.on = true
	taken := s.home.step.Backlog()
	s.say("n%d has taken %d KB of them", s.home.id, taken/1000)
	s.must(taken > 8<<20 && taken < 17<<20+1_000_000, "n2 has %d bytes that aren't applied", taken)
	s.join(s.home)
	s.on = false
	s.until("all are stored", func() bool { return all[59].x.Done() })
	s.on = true
	s.say("all are stored")
	c := s.generic("consumer", s.third)
	c.listen("a", 100)
	s.until("all have come", func() bool { return len(c.got) == 61 })
	for i, x := range c.got[1:] {
		s.must(x.m == all[i].m, "number %d is %s", i, x.m.id)
	}
}

func manyEnds(s *stage) {
	p := s.person("producer", s.third)
	var all []*message
	s.on = false
	for range 8 {
		g := s.generic("consumer", s.home)
		g.listen("a", 1)
		all = append(all, p.stores("a"))
		s.until("it has its message", func() bool { return len(g.got) == 1 })
	}
	s.on = true
	s.say("eight consumers at n%d have %s to %s", s.home.id, all[0].id, all[7].id)
	s.home.crash(true)
	next := s.generic("next", s.third)
	next.listen("a", 10)
	s.until("next has all", func() bool { return len(next.got) == 8 })
	for i, x := range next.got {
		s.must(x.m == all[i], "number %d is %s, not %s", i, x.m.id, all[i].id)
	}
	next.say("gets %s to %s in their order", all[0].id, all[7].id)
	s.wait(second)
	s.must(len(s.violations) == 0, "%v", s.violations)
	s.say("after each entry n%d and n%d had the same digest", s.leader.id, s.third.id)
}

// civilOff is how far the log's civil time is from the true one.
func (s *stage) civilOff() time.Duration {
	civil, _ := s.machine().Times()
	return time.Duration(civil-began.Add(s.now).UnixMilli()) * ms
}

func clockJumps(s *stage) {
	d := moving(s)
	d.commit()
	d.committed()
	p := s.person("producer", s.third)
	recovery := s.person("recovery", s.third)
	s.leader.civil = 4 * second
	s.say("n%d's wall clock jumps four seconds ahead", s.leader.id)
	s.wait(2 * second)
	p.stores("a")
	s.must(s.leader.leads && s.civilOff() < 1500*ms, "n1 leads: %v; the log's time is %v ahead", s.leader.leads, s.civilOff())
	s.say("it leads; the log's time is %v ahead", s.civilOff())
	d.p.a.die(false)
	s.leader.civil = 10 * 365 * 24 * time.Hour
	s.say("n%d's wall clock jumps ten years ahead", s.leader.id)
	for range 20 {
		p.stores("a")
		off := s.civilOff()
		s.must(off < 1500*ms, "the log's time is %v ahead", off)
		s.on = false
		s.wait(200 * ms)
	}
	s.on = true
	state := recovery.ask(d.t.id, d.t.name, true)
	s.must(state == "committed", "the outcome of %s is %q", d.t.name, state)
	s.must(!s.leader.leads, "n1 leads, with a clock that is ten years off")
	s.say("n%d's wall clock is set right", s.leader.id)
	s.leader.civil = 0
	s.wait(2 * second)
	p.stores("a")
	off := s.civilOff()
	s.must(off < 500*ms && off > -500*ms, "the log's time is %v off", off)
}

func idleCluster(s *stage) {
	m := s.person("producer", s.third).stores("a")
	s.person("lost", s.home).take("a")
	waiting := s.person("waiting", s.third)
	waiting.listen("a", 1)
	s.people[0].leave()
	s.wait(second)
	s.people[1].a.die(true)
	begun := s.now
	got := waiting.take("a")
	s.must(got.m == m, "%s came", got.m.id)
	took := s.now - begun
	s.must(took > 60*second && took < 75*second, "it came after %v", took)
}

func downtime(s *stage) {
	s.person("producer", s.third).stores("a")
	p := s.person("consumer", s.home)
	t := p.take("a")
	other := s.person("other", s.third)
	r := other.listen("a", 1)
	p.a.sock.cut()
	p.a.paused = true
	s.say("consumer's connection breaks; its process stands still")
	s.wait(2 * second)
	for _, n := range s.nodes {
		n.eachLink(func(l *link, _ bool) { l.block() })
	}
	s.say("no node reaches any other")
	s.on = false
	s.wait(10 * time.Minute)
	s.on = true
	s.say("ten minutes later they reach each other again")
	for _, n := range s.nodes {
		s.mend(n)
	}
	s.until("all have an epoch", func() bool { return s.leader.epoch > 0 && s.home.epoch > 0 && s.third.epoch > 0 })
	s.say("consumer goes on")
	p.a.paused = false
	queue := p.a.queue
	p.a.queue = nil
	for _, f := range queue {
		p.a.run(f)
	}
	p.a.tick()
	p.accept(t)
	s.until("it is answered", func() bool { return t.told })
	s.must(t.err == nil, "its accept ends with %v", t.err)
	s.must(other.got(r, "a") == nil, "another has got the message meanwhile")
}

func drainsAtALaggard(s *stage) {
	p := s.person("producer", s.third)
	p.stores("b")
	g := s.generic("receiver", s.home)
	l := g.listen("a", 0)
	g.say("asks for what there is (drain)")
	g.credit(l, 1, true)
	s.until("it is answered", func() bool { return g.drained })
	g.say("is told: nothing")
	g.drained = false
	var late []*held
	s.onFrame(func(h *held, x *frame) bool {
		if h.l.from == s.leader && h.l.to == s.home && h.stream == 0 && x.raft {
			late = append(late, h)
			return true
		}
		return false
	})
	s.say("entries for n%d are held up", s.home.id)
	p.stores("a")
	g.say("asks for what there is (drain)")
	g.credit(l, 1, true)
	s.wait(300 * ms)
	s.must(!g.drained, "a home that is behind has said that there is nothing")
	s.must(len(g.got) == 0, "the message is there already")
	s.say("the entries arrive at n%d", s.home.id)
	s.sent = nil
	for _, h := range late {
		h.l.carry(h.stream, h.frame)
	}
	s.until("receiver is answered", func() bool { return g.drained || len(g.got) > 0 })
	s.must(len(g.got) == 1, "it was told that there is nothing")
	if len(g.got) == 1 {
		g.say("gets %s", g.got[0].m.id)
	}
}

func largeInParts(s *stage) {
	p, q := s.person("large", s.home), s.person("small", s.home)
	p.stores("a")
	q.stores("a")
	parts := 0
	s.onFrame(func(h *held, x *frame) bool {
		if h.l.from == s.home && x.has(command.KindPart) {
			parts++
			s.say("n%d sends part %d to n%d", s.home.id, parts, h.l.to.id)
			if parts == 2 {
				s.soon(func() { h.l.to.crash(false) })
			}
		}
		return false
	})
	x := p.sendOf("a", 700<<10)
	y := p.send("a")
	z := q.send("a")
	s.until("all are answered", func() bool { return x.x.Done() && y.x.Done() && z.x.Done() })
	c := s.generic("consumer", s.third)
	c.listen("a", 10)
	s.until("all have come", func() bool { return len(c.got) == 5 })
	var order []*message
	for _, r := range c.got[2:] {
		order = append(order, r.m)
		c.say("gets %s of %d bytes", r.m.id, len(r.d.Payload))
	}
	s.must(order[0] == z.m && order[1] == x.m && order[2] == y.m, "the order is %s, %s, %s", order[0].id, order[1].id, order[2].id)
	s.must(len(c.got[3].d.Payload) > 700<<10, "it has %d bytes", len(c.got[3].d.Payload))
}

// storageScenarios are those of section 6.
func storageScenarios() []scenario {
	flushed := func(k *knobs) { k.flush = 1 }
	real := func(k *knobs) { k.real = true }
	return []scenario{
		{name: "6.1-commit-all-lost", play: commitAllLost, breaks: []mutant.Mutant{mutant.NoSync}, about: `
All machines lose power with a commit on its way. Whatever of it was on a majority's disks is replayed; the client asks again and has
one answer.`},
		{name: "6.1-power-loss-between-entries", play: powerLossBetweenEntries, breaks: []mutant.Mutant{mutant.IndexApart}, about: `
The state is written to disk without a log of its own: a loss of power leaves some earlier state. Changes and their index are one
batch, so that it is the state of exactly one earlier entry, and the log is replayed from there. With the index in a batch of its own
new data would stand under an old index, or the other way round.`},
		{name: "6.1-outcome-survives", play: outcomeSurvives, knobs: flushed, breaks: []mutant.Mutant{mutant.OutcomeNotStored}, about: `
A commit was applied and flushed; before its client is told, all machines lose power. The outcome is part of the state on disk: asked
again, the answer is the same, and nothing is done twice.`},
		{name: "6.1-numbers-survive", play: numbersSurvive, knobs: flushed, breaks: []mutant.Mutant{mutant.StreamNotStored}, about: `
The same for a plain send: its number is part of the state on disk, so that what the client says again is known as said.`},
		{name: "6.2-power-loss-after-the-answer", play: powerLossAfterTheAnswer, breaks: []mutant.Mutant{mutant.NoSync}, about: `
A client is told "stored", and all machines lose power in the same moment. An answer comes only when the entry is synced on the disks
of a majority: it is there.`},
		{name: "6.2-vote-on-disk", play: voteOnDisk, breaks: []mutant.Mutant{mutant.VoteNotStored}, about: `
The leader dies, and a node votes for the next one. It says so only when its vote is on disk: after a loss of power it must not vote
for another in the same term, or two would lead.`},
		{
			name: "6.2-log-cut", play: logCut, breaks: []mutant.Mutant{mutant.MemoryCut}, about: `
The log is cut while the state on disk is behind that in memory. It is cut only below what was read back from disk: after a loss of
power the entries are there from which the state goes on.`,
			knobs: func(k *knobs) { k.limits.KeepEvery, k.limits.LogFlushBytes = 50*ms, 16<<10 },
		},
		{name: "6.3-failed-sync", play: failedSync, knobs: real, breaks: []mutant.Mutant{mutant.SyncAgain}, about: `
A sync of the leader's log fails. What it was to write may be gone from the page cache, though a second sync would say that all is
well. The process ends at the first error and answers nothing that rests on it; another leads, and the client has its answer there.`},
		{
			name: "6.3-damage-is-not-the-end", play: damageIsNotTheEnd, knobs: real,
			breaks: []mutant.Mutant{mutant.DamageIsEnd}, about: `
A bit changes in the middle of a log. Behind it stands what shows that it was synced: this is damage, not the torn end of a last
write. Were the log cut there, the node would forget what it has acknowledged. It doesn't start; the others go on.`,
		},
	}
}

func failedSync(s *stage) {
	p := s.person("producer", s.home)
	p.stores("a")
	life := s.leader.life
	s.leader.ill, s.leader.disk.tearing = true, true
	s.say("the next sync of n%d's log fails", s.leader.id)
	p.stores("a")
	s.must(s.leader.life != life, "n1 goes on after a failed sync")
	s.until("n1 is back", func() bool { return s.leader.epoch > 0 })
	s.powerFails()
	all, _ := s.depth("a")
	s.must(all == 2, "%d messages in queue a, not 2", all)
}

func damageIsNotTheEnd(s *stage) {
	p := s.person("producer", s.home)
	s.on = false
	for range 20 {
		p.stores("a")
	}
	s.on = true
	s.third.crash(false)
	rng := rand.New(rand.NewPCG(1, 1))
	name, at := s.third.disk.real.logFiles.Flip(rng, func(name string) bool { return strings.HasSuffix(name, ".seg") })
	s.say("a bit changes on n%d's disk: byte %d of %s", s.third.id, at, name)
	s.third.flipped, s.doomed = true, s.third
	s.third.start()
	s.must(s.third.gone, "n3 starts with a damaged log")
	p.stores("a")
	all, _ := s.depth("a")
	s.must(all == 21, "%d messages in queue a, not 21", all)
}

func commitAllLost(s *stage) {
	d := moving(s)
	s.once(s.home, command.KindCommit, func(h *held) bool {
		s.say("n%d sends the commit to n%d, the leader", h.l.from.id, h.l.to.id)
		for i, n := range s.nodes {
			s.after(3*ms, func() { n.crash(true) })
			s.after(time.Duration(i+1)*second, n.start)
		}
		return false
	})
	d.commit()
	d.committed()
}

func powerLossBetweenEntries(s *stage) {
	p := s.person("producer", s.home)
	var all []*message
	for range 4 {
		for range 3 {
			all = append(all, p.stores("a"))
		}
		s.on = false
		for _, n := range s.nodes {
			n.crash(true)
		}
		s.on = true
		for _, n := range s.nodes {
			s.say("n%d's state is that of entry %d, its log ends at entry %d", n.id, n.disk.state.applied, n.disk.written().last())
		}
		s.powerFails()
		s.until("producer is back", func() bool { return p.at() != nil })
	}
	c := s.generic("consumer", s.third)
	c.listen("a", 100)
	s.wait(second)
	s.must(len(c.got) == len(all), "%d messages are there, not %d", len(c.got), len(all))
	for i, x := range c.got {
		s.must(x.m == all[i], "number %d is %s, not %s", i, x.m.id, all[i].id)
	}
	c.say("gets %d messages in their order", len(c.got))
	s.must(len(s.violations) == 0, "%v", s.violations)
}

func outcomeSurvives(s *stage) {
	d := unheard(s)
	s.powerFails()
	d.committed()
	all, _ := s.depth("b")
	s.must(all == 2, "%d messages in queue b, not 2", all)
}

func numbersSurvive(s *stage) {
	p := s.person("producer", s.home)
	p.stores("a")
	p.a.sock.down.jammed = true
	s.say("what n%d sends to producer is jammed: no answer arrives", s.home.id)
	x := p.send("a")
	s.wait(100 * ms)
	s.powerFails()
	s.until("it is answered", x.x.Done)
	all, _ := s.depth("a")
	s.must(all == 2, "%d messages in queue a, not 2", all)
}

func powerLossAfterTheAnswer(s *stage) {
	p := s.person("producer", s.home)
	for i := range 3 {
		p.stores("a")
		s.powerFails()
		all, _ := s.depth("a")
		s.must(all == i+1, "%d messages in queue a, not %d", all, i+1)
		s.until("producer is back", func() bool { return p.at() != nil && p.s.ID() != client.SessionID{} })
	}
}

func voteOnDisk(s *stage) {
	s.person("producer", s.third).stores("a")
	s.leader.crash(false)
	s.until("another leads", func() bool { return s.home.leads || s.third.leads })
	leads, votes := s.home, s.third
	if s.third.leads {
		leads, votes = s.third, s.home
	}
	term := leads.step.Status().Term
	votes.crash(true)
	state := votes.disk.written().state
	s.say("on n%d's disk stands: in term %d it has voted for n%d", votes.id, state.Term, state.Vote)
	s.must(state.Term == term && int(state.Vote) == leads.id, "term %d, vote %d; n%d leads term %d", state.Term, state.Vote, leads.id, term)
}

func logCut(s *stage) {
	p := s.person("producer", s.home)
	count := 0
	for range 3 {
		s.on = false
		for range 100 {
			p.stores("a")
			count++
		}
		s.wait(200 * ms)
		s.on = true
		s.say("producer has stored %d messages", count)
		for _, n := range s.nodes {
			s.say("n%d's log begins at entry %d, its state on disk is that of entry %d", n.id, n.disk.written().base+1, n.disk.state.applied)
		}
	}
	s.powerFails()
	all, _ := s.depth("a")
	s.must(all == count, "%d messages in queue a, not %d", all, count)
}
