package sim

import (
	"bytes"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// transactionScenarios are those of section 2: transactions and outcomes.
func transactionScenarios() []scenario {
	return []scenario{
		{name: "2.1-commit-answer-lost", play: commitAnswerLost, breaks: []mutant.Mutant{mutant.OutcomeLookup}, about: `
The home has applied a commit and dies before it says so. The client resumes at another node, replays its operations and commits
again. Apply looks for the outcome first: the answer is the first one, and nothing is done twice.`},
		{name: "2.1-repeated-commit", play: repeatedCommit, breaks: []mutant.Mutant{mutant.OperationCount}, about: `
A consumer has accepted a message in a transaction. Its connection breaks, and it is away for longer than its grace period: the
message goes to another, which consumes it. It resumes and commits; the new home has collected fewer operations than the commit
says. It is recorded as rolled back (incomplete); else half of it would happen.`},
		{name: "2.2-undecided-is-decided", play: undecidedIsDecided, breaks: []mutant.Mutant{mutant.OutcomeUndecided, mutant.RollbackKeeps}, about: `
Another process asks how a transaction ended that has not ended yet. It is decided by that: rolled back, and recorded. Its owner,
which commits a moment later, is told the same, and the message that it took goes to the next consumer.`},
		{name: "2.2-expired", play: expired, about: `
A session that closed in order has acknowledged its outcomes and is forgotten. Whoever asks for one of its transactions is told
"expired": not "rolled back", as for one that was never begun.`},
		{name: "2.3-unknown-is-kept", play: unknownIsKept, knobs: func(k *knobs) { k.limits.Tick = second }, about: `
A caller gives a commit up whose answer doesn't come, and is told "unknown": it notes the transaction's id. The same session goes on
with the next transactions. An hour later a recovery process asks for the noted one: the answer is still there, as nobody had
acknowledged it.`},
		{name: "2.6-rollback-after-unknown", play: rollbackAfterUnknown, breaks: []mutant.Mutant{mutant.UnknownRolledBack}, about: `
A caller gives a commit up and rolls back to be safe. But the commit was applied. Rollback resolves it first, and says "committed":
it never reports a committed transaction as rolled back.`},
		{name: "2.8-token", play: tokenAsks, breaks: []mutant.Mutant{mutant.OutcomeUndecided}, about: `
A generic client such as Qpid JMS can't know how a commit ended whose answer was lost with its node, and calls it rolled back. It has
named the transaction by a token; with that it asks on another node and is told: committed.`},
	}
}

func commitAnswerLost(s *stage) {
	d := moving(s)
	s.onEffect(s.home, command.EffectDecided, func() {
		s.say("n%d applies the commit", s.home.id)
		s.soon(func() { s.home.crash(false) })
	})
	d.commit()
	d.committed()
	s.must(d.p.at() != s.home, "the client has its answer from the node that died")
}

func repeatedCommit(s *stage) {
	d := moving(s)
	d.p.a.sock.cut()
	s.say("mover's connection breaks")
	d.p.a.pause(7 * second)
	m := s.person("consumer", s.third).consumes("a")
	s.must(m == d.t.settles[0].m, "%s came, not what mover had", m.id)
	s.until("mover is back", func() bool { return !d.p.a.paused && d.p.at() != nil })
	d.commit()
	d.rolledBack()
	all, _ := s.depth("b")
	s.must(all == 0, "%d messages in queue b of a transaction that is rolled back", all)
}

func undecidedIsDecided(s *stage) {
	d := moving(s)
	recovery := s.person("recovery", s.third)
	look := recovery.ask(d.t.id, d.t.name, false)
	s.must(look == "open", "a look at it says %q", look)
	first := recovery.ask(d.t.id, d.t.name, true)
	s.must(first == "rolled-back", "the first answer is %q", first)
	d.commit()
	d.rolledBack()
	second := recovery.ask(d.t.id, d.t.name, true)
	s.must(second == first, "the answer was %q and is %q", first, second)
	s.person("consumer", s.third).consumes("a")
}

func expired(s *stage) {
	d := moving(s)
	d.commit()
	d.committed()
	recovery := s.person("recovery", s.third)
	before := recovery.ask(d.t.id, d.t.name, true)
	s.must(before == "committed", "before the session's end the answer is %q", before)
	never := d.t.id
	never[23] += 7
	unbegun := recovery.ask(never, "the session's number 8, never begun", true)
	s.must(unbegun == "rolled-back", "a transaction that was never begun is %q", unbegun)
	s.say("mover closes in order")
	d.p.leave()
	s.wait(second)
	after := recovery.ask(d.t.id, d.t.name, true)
	s.must(after == "expired", "after the session's end the answer is %q", after)
}

// unheard commits a transaction whose answer doesn't come.
func unheard(s *stage) *deal {
	d := moving(s)
	d.p.a.sock.down.jammed = true
	s.say("what n%d sends to mover is jammed: no answer arrives", s.home.id)
	s.onEffect(s.home, command.EffectDecided, func() { s.say("n%d applies the commit", s.home.id) })
	d.commit()
	s.wait(100 * ms)
	return d
}

// unanswered is the same, until its caller gives up.
func unanswered(s *stage) *deal {
	d := unheard(s)
	outcome, reason := d.tx.Abandon()
	d.gaveUp = true
	d.told(outcome, reason)
	s.must(outcome == client.TxUnknown, "a caller that gives up is told %v", outcome)
	return d
}

func unknownIsKept(s *stage) {
	d := unanswered(s)
	d.p.a.sock.down.release()
	s.say("the jam clears")
	for range 3 {
		next := d.p.begin()
		next.send("b")
		next.commit()
		next.committed()
	}
	s.say("an hour passes")
	s.wait(time.Hour)
	state := s.person("recovery", s.third).ask(d.t.id, d.t.name, true)
	s.must(state == "committed", "an hour later it is %q", state)
	d.t.decide(s.world, done, "the log")
}

func rollbackAfterUnknown(s *stage) {
	d := unanswered(s)
	s.home.crash(false)
	s.say("mover rolls %s back, to be safe", d.t.name)
	d.tx.Rollback()
	d.p.a.pump()
	s.until("the rollback is answered", d.tx.Done)
	outcome, reason := d.tx.Result()
	d.told(outcome, reason)
	s.must(outcome == client.TxCommitted, "Rollback of a committed transaction says %v", outcome)
}

// asks sends a question to $oncemq.outcome and gives the reply.
func (g *generic) asks(properties amqp.Map) (body string, answers amqp.Map) {
	replies := "reply." + g.name
	before := len(g.replies)
	if before == 0 {
		g.listen(replies, 10)
	}
	b := amqp.AppendProperties(nil, &amqp.Properties{ReplyTo: replies})
	b = amqp.AppendApplicationProperties(b, properties)
	g.put(g.producer("$oncemq.outcome"), nil, amqp.AppendAMQPValue(b, nil))
	g.s.until("there is a reply", func() bool { return len(g.replies) > before })
	x, _ := amqp.ParseSections(g.replies[before], amqp.Limits{})
	answers, _ = amqp.DecodeApplicationProperties(x.ApplicationProperties, amqp.Limits{})
	if x.BodyKind == amqp.BodyValue {
		v, _ := x.Value(amqp.Limits{})
		body, _ = v.(string)
	}
	return body, answers
}

func tokenAsks(s *stage) {
	g := s.generic("jms", s.home)
	token, _ := g.asks(amqp.Map{{Key: "token", Value: true}})
	s.must(len(token) == 32, "the token is %q", token)
	g.say("has a token")
	a := *amqp.NewAttach("tx", amqp.RoleSender)
	a.Source = &amqp.Source{Outcomes: outcomes}
	a.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions}}
	co, _ := g.session.Attach(a)
	g.a.pump()
	s.until("the coordinator is there", func() bool { return co.Credit() > 0 })
	declared, _ := g.answer(g.put(co, nil, amqp.AppendAMQPValue(nil, &amqp.Declare{}))).(*amqp.Declared)
	if declared == nil {
		s.stop("no transaction was declared")
	}
	in := &amqp.TransactionalState{TxnID: bytes.Clone(declared.TxnID)}
	g.say("names its transaction token/1, and sends m0 in it")
	g.answer(g.put(g.producer("$oncemq.tx"), in, amqp.AppendAMQPValue(nil, token+"/1")))
	m := s.newMessage("b")
	m.begun = true
	g.answer(g.put(g.producer("b"), in, m.payload()))
	s.onEffect(s.home, command.EffectDecided, func() {
		s.say("n%d applies the commit", s.home.id)
		s.soon(func() { s.home.crash(false) })
	})
	g.say("discharges it")
	g.put(co, nil, amqp.AppendAMQPValue(nil, &amqp.Discharge{TxnID: in.TxnID}))
	s.until("its node is gone", func() bool { return g.ended })
	again := s.generic("jms again", s.third)
	_, answers := again.asks(amqp.Map{{Key: "tx", Value: token + "/1"}})
	outcome, _ := answers.Lookup("outcome")
	again.say("asks the log for token/1: %v", outcome)
	s.must(outcome == "committed", "the outcome by the token is %v", outcome)
	m.sent = done
	_, answers = again.asks(amqp.Map{{Key: "tx", Value: token + "/2"}})
	outcome, _ = answers.Lookup("outcome")
	s.must(outcome == "rolled-back", "the outcome of a number that was never used is %v", outcome)
	_, answers = again.asks(amqp.Map{{Key: "tx", Value: token + "/2"}, {Key: "decide", Value: false}})
	outcome, _ = answers.Lookup("outcome")
	s.must(outcome == "rolled-back", "asked again, without a decision, it is %v", outcome)
}
