package sim

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
)

var update = flag.Bool("update", false, "write the transcripts of testdata anew")

// The kinds of frames between nodes, as package peer has them on the wire, behind length and checksum.
const (
	kindAt      = 8
	kindRecords = 5
)

// scenario is a world of three nodes in which nothing is left to chance, with a client that moves one message from queue a to
// queue b in a transaction.
type scenario struct {
	*world
	t            *testing.T
	g            *goClient
	r            *client.Receiver
	snd          *client.Sender
	tx           *client.Tx
	txn          *txn
	leader, home *node
	third        *node
	acted        bool
}

// act does something once.
func (s *scenario) act(f func()) {
	if !s.acted {
		s.acted = true
		f()
	}
}

func newScenario(t *testing.T, out *bytes.Buffer) *scenario {
	w := newWorld(Config{Seed: 1, Nodes: 3, MaxSteps: 300_000, Trace: out})
	ms := time.Millisecond
	even := [2]time.Duration{ms / 2, ms / 2}
	w.knobs = knobs{
		clientDelay: even, nodeDelay: even, disk: [2]time.Duration{ms, ms}, apply: even, restart: even, think: ms, idle: 5 * time.Second,
	}
	w.found()
	s := &scenario{world: w, t: t}
	for _, n := range w.nodes {
		switch {
		case n.leads:
			s.leader = n
		case s.home == nil:
			s.home = n
		default:
			s.third = n
		}
	}
	w.home = s.home.id
	w.jobs = append(w.jobs, w.newProducer("producer", "a", 1))
	s.until("the producer is done", func() bool { return w.jobs[0].over() && len(w.history.list) == 1 && w.history.list[0].sent == done })
	s.g = w.newGoClient("mover", false, func() {
		s.r, s.snd = s.g.s.NewReceiver("a", "", 1), s.g.s.NewSender("b", "")
		s.g.k.available[s.r] = func() {}
		s.r.Take()
	})
	s.until("the message is there", func() bool { return s.r != nil && s.take() })
	s.runUntil(s.now+50*time.Millisecond, nil) // the operations are at the home
	return s
}

// until runs the world until something holds.
func (s *scenario) until(what string, holds func() bool) {
	s.t.Helper()
	held := false
	s.runUntil(s.now+30*time.Second, func() bool { held = held || holds(); return held })
	if !held {
		s.t.Fatalf("30 s, and it does not hold that %s", what)
	}
}

// take begins the transaction with the message and another.
func (s *scenario) take() bool {
	d := s.r.Take()
	if d == nil {
		s.g.a.pump()
		return false
	}
	m := s.delivered("mover", "a", d.Payload)
	var err error
	if s.tx, err = s.g.s.Begin(); err != nil {
		s.t.Fatal(err)
	}
	s.txn = s.newTx("mover/1")
	s.txn.id, s.txn.named = s.tx.ID(), true
	h := &holding{m: m, tx: s.txn}
	m.settles, s.txn.settles = append(m.settles, h), append(s.txn.settles, h)
	out := s.newMessage("b")
	out.tx, s.txn.sends = s.txn, append(s.txn.sends, out)
	if err := s.tx.Settle(d, &amqp.Accepted{}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.tx.Send(s.snd, out.payload()); err != nil {
		s.t.Fatal(err)
	}
	s.g.a.pump()
	return true
}

// commit asks for the commit, and runs until the client is told.
func (s *scenario) commit() {
	s.t.Helper()
	s.say("mover: commit")
	s.txn.asked = true
	for _, m := range s.txn.sends {
		m.begun = true
	}
	s.tx.Commit()
	s.g.a.pump()
	s.until("the client knows the outcome", s.tx.Done)
	outcome, reason := s.tx.Result()
	s.say("mover: the outcome is %s (%v)", map[client.TxOutcome]string{
		client.TxCommitted: "committed", client.TxRolledBack: "rolled back", client.TxUnknown: "unknown",
	}[outcome], reason)
	if outcome != client.TxCommitted {
		s.t.Errorf("outcome %v, %v", outcome, reason)
	}
	s.txn.decide(s.world, done, "mover")
}

// scenarios are interleavings of the design, each with what breaks in it. Every one ends in a commit: the client waits as long
// as it takes.
var scenarios = map[string]func(s *scenario){
	// The home has sent the commit to the leader, which dies with it.
	"commit-leader-lost": func(s *scenario) {
		s.sent = func(l *link, frame []byte) {
			if l.from == s.home && frame[kindAt] == kindRecords && s.txn.asked {
				s.act(func() {
					s.say("n%d sends the commit to n%d, the leader", l.from.id, l.to.id)
					s.after(0, func() { l.to.crash(false) })
				})
			}
		}
	},
	// The entry is applied, the home dies before its answer leaves: the client asks again at another node [2.1].
	"commit-answer-lost": func(s *scenario) {
		s.handed = func(n *node, effects []command.Effect) {
			for _, e := range effects {
				if e.Kind == command.EffectDecided && n == s.home {
					s.act(func() {
						s.say("n%d applies the commit", n.id)
						s.after(0, func() { n.crash(false) })
					})
				}
			}
		}
	},
	// The discharge is stuck in the socket; the client resumes elsewhere, and then the socket comes free [1.4].
	"commit-jammed": func(s *scenario) {
		for _, x := range s.living() {
			if x.node == s.home {
				x.up.jammed = true
				s.after(6*time.Second, func() { s.say("the jam is over"); x.up.release() })
			}
		}
		s.say("what the client sends to n%d is jammed", s.home.id)
	},
	// The leader stands still with the commit in its hands, and goes on when another leads [3.8].
	"commit-leader-stands-still": func(s *scenario) {
		s.sent = func(l *link, frame []byte) {
			if l.from == s.home && frame[kindAt] == kindRecords && s.txn.asked {
				s.act(func() {
					s.after(0, func() { s.pauseNode(l.to, 5*time.Second) })
				})
			}
		}
	},
	// The home is cut off from both others: it accepts nothing, and the client moves (C12).
	"commit-home-cut-off": func(s *scenario) {
		s.home.eachLink(func(l *link, _ bool) { l.block() })
		s.say("n%d is cut off from the others", s.home.id)
		s.after(8*time.Second, func() { s.say("n%d is back", s.home.id); s.mend(s.home) })
	},
	// All nodes die with the commit under way, and come back.
	"commit-all-lost": func(s *scenario) {
		s.sent = func(l *link, frame []byte) {
			if l.from == s.home && frame[kindAt] == kindRecords && s.txn.asked {
				s.act(func() {
					for i, n := range s.nodes {
						s.after(3*time.Millisecond, func() { n.crash(true) })
						s.after(time.Duration(i+1)*time.Second, n.start)
					}
				})
			}
		}
	},
}

// TestScenarios plays interleavings, and compares their transcripts with those of testdata (go test -update writes them).
func TestScenarios(t *testing.T) {
	for _, name := range sortedKeys(scenarios) {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := newScenario(t, &out)
			s.say("n%d leads; the client's home is n%d", s.leader.id, s.home.id)
			scenarios[name](s)
			s.commit()
			s.runUntil(s.now+10*time.Second, nil)
			s.sent, s.handed = nil, nil
			s.heal()
			s.finish()
			s.g.leave()
			for _, v := range s.verdict().Violations {
				t.Error(v)
			}
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(want, out.Bytes()) {
				t.Errorf("%s: %v: another transcript: %s", file, err, firstDifference(want, out.Bytes()))
			}
		})
	}
}
