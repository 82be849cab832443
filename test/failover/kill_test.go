package failover

import (
	"testing"

	"github.com/oncemq/oncemq/test/cluster"
)

// opened is a program at a node with a transacted session "tx" and a plain one "plain", and two messages in "in".
func opened(t *testing.T, w *world, home *cluster.Node) *remote {
	t.Helper()
	r := connected(t, w.uri(home))
	r.do("plain", "session", "auto")
	r.do("tx", "session", "transacted")
	for _, text := range []string{"m1", "m2"} {
		r.do("plain", "send", "in", text)
	}
	return r
}

// transfers takes the next message from "in" and sends its answer to "out", uncommitted.
func transfers(r *remote, text string, redelivered bool) {
	r.t.Helper()
	r.receives("tx", "in", text, redelivered)
	r.do("tx", "send", "out", "re-"+text)
}

// TestRow102HomeKilled: with the node of the connection gone, an open transaction with work in it is rolled back. What was
// sent is never visible; what was received comes again with redelivered set, in its order; and the session goes on (S1 to S3).
func TestRow102HomeKilled(t *testing.T) {
	roles(t, func(t *testing.T, w *world, home *cluster.Node) {
		r := opened(t, w, home)
		transfers(r, "m1", false)
		home.Kill()
		r.start("tx", "commit").rolledBack()
		r.receivesNothing("plain", "out")
		transfers(r, "m1", true)
		r.do("tx", "commit")
		r.receives("plain", "out", "re-m1", false)
		r.receivesNothing("plain", "out")
		transfers(r, "m2", true) // it was on its way to the home, or may have been
		r.do("tx", "commit")
		r.receives("plain", "out", "re-m2", false)
		w.empty(home)
		r.leaves()
	})
}

// TestRow102RolledBackByHand: the same, where the program rolls back itself, which succeeds (S2). What has come to its consumer
// meanwhile Qpid JMS drops from its own queue without a word to the broker (JmsMessageConsumer.suspendForRollback goes by the
// transaction before the failover), so it comes again when that consumer is gone.
func TestRow102RolledBackByHand(t *testing.T) {
	roles(t, func(t *testing.T, w *world, home *cluster.Node) {
		r := opened(t, w, home)
		transfers(r, "m1", false)
		home.Kill()
		r.await("restored", 1)
		r.do("tx", "rollback")
		r.receivesNothing("plain", "out")
		r.do("tx", "send", "out", "next")
		r.do("tx", "commit")
		r.receives("plain", "out", "next", false)
		r.leaves()

		r = connected(t, w.uri(w.other(home)))
		r.do("plain", "session", "auto")
		r.receives("plain", "in", "m1", true)
		r.receives("plain", "in", "m2", true)
		r.receivesNothing("plain", "out")
		w.empty(home)
		r.leaves()
	})
}

// TestRow102LeaderKilled (102b): a leader that isn't the home is killed: the transaction goes on, and its commit succeeds.
func TestRow102LeaderKilled(t *testing.T) {
	w := newWorld(t)
	leader := w.Leader()
	r := opened(t, w, w.other(leader))
	transfers(r, "m1", false)
	leader.Kill()
	r.do("tx", "commit")
	transfers(r, "m2", false)
	r.do("tx", "commit")
	if r.happened("interrupted") > 0 {
		t.Error("the connection was lost with a node that isn't its home")
	}
	r.receives("plain", "out", "re-m1", false)
	r.receives("plain", "out", "re-m2", false)
	r.receivesNothing("plain", "out")
	r.leaves()
}

// TestRow103EmptyTransaction: the home is killed while the open transaction has no work: its commit succeeds, and the session goes on.
func TestRow103EmptyTransaction(t *testing.T) {
	roles(t, func(t *testing.T, w *world, home *cluster.Node) {
		r := opened(t, w, home)
		transfers(r, "m1", false)
		r.do("tx", "commit")
		home.Kill()
		r.await("restored", 1)
		r.do("tx", "commit")
		transfers(r, "m2", true)
		r.do("tx", "commit")
		r.receives("plain", "out", "re-m1", false)
		r.receives("plain", "out", "re-m2", false)
		w.empty(home)
		r.leaves()
	})
}

// TestRow104KilledBeforeTheReply: the home is killed when the commit is replicated and its answer on the way. The program
// hears "rolled back", as Qpid JMS says of every lost answer; by the transaction's name it learns the truth (C4), and what was done is
// done once. A second commit of it under that name changes nothing.
func TestRow104KilledBeforeTheReply(t *testing.T) {
	roles(t, func(t *testing.T, w *world, home *cluster.Node) {
		r := opened(t, w, home)
		name := r.do("plain", "next")[0]
		transfers(r, "m1", false)
		r.do("tx", "send", "$oncemq.tx", name+"/2")
		front, other := w.front(home), w.other(home)
		front.Set(false, cluster.Conditions{Jam: true})
		commit := r.start("tx", "commit")
		w.holds(other, "out", 1)
		if !commit.under() {
			t.Fatal("the commit was answered through a jam")
		}
		home.Kill()
		front.Cut() // and what is held with it
		front.Set(false, cluster.Conditions{})
		commit.rolledBack()
		if got := r.do("plain", "outcome", name); got[0] != "committed" {
			t.Fatalf("the outcome is %q", got)
		}
		w.holds(other, "in", 1)
		transfers(r, "m2", true)
		r.do("tx", "send", "$oncemq.tx", name+"/2")
		r.start("tx", "commit").rolledBack() // other work under a name that is taken
		r.receives("plain", "out", "re-m1", false)
		r.receivesNothing("plain", "out")
		if got := r.do("plain", "outcome", name); got[0] != "committed" {
			t.Fatalf("the outcome is %q", got)
		}
		transfers(r, "m2", true)
		r.do("tx", "commit")
		r.receives("plain", "out", "re-m2", false)
		w.empty(home)
		r.leaves()
	})
}

// TestRow107Unacknowledged: what a CLIENT_ACKNOWLEDGE session had not acknowledged when its home was killed comes again, in its
// order and with redelivered set, also where the program acknowledges it in between, which sends nothing; what it had acknowledged doesn't.
func TestRow107Unacknowledged(t *testing.T) {
	roles(t, func(t *testing.T, w *world, home *cluster.Node) {
		r := opened(t, w, home)
		r.do("client", "session", "client")
		r.do("plain", "send", "in", "m3")
		r.receives("client", "in", "m1", false)
		r.do("client", "acknowledge")
		other := w.other(home)
		w.holds(other, "in", 2)
		r.receives("client", "in", "m2", false)
		r.receives("client", "in", "m3", false)
		home.Kill()
		r.await("restored", 1)
		r.do("client", "acknowledge")
		r.receives("client", "in", "m2", true)
		r.receives("client", "in", "m3", true)
		r.receivesNothing("client", "in")
		r.do("client", "acknowledge")
		w.empty(home)
		r.leaves()
	})
}

// TestRow054Durable: persistent messages are there when the leader is killed behind the answer to their send, and when all nodes are.
func TestRow054Durable(t *testing.T) {
	w := newWorld(t)
	home := w.Leader()
	r := connected(t, w.uri(home))
	r.do("plain", "session", "auto")
	r.do("plain", "send", "in", "d1")
	r.do("plain", "send", "in", "d2")
	home.Kill()
	r.do("plain", "send", "in", "d3")
	for _, n := range w.Nodes {
		n.Kill()
	}
	for _, n := range w.Nodes {
		n.Start()
	}
	for _, text := range []string{"d1", "d2", "d3"} {
		r.receives("plain", "in", text, false)
	}
	r.receivesNothing("plain", "in")
	r.leaves()
}
