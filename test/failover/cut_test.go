package failover

import (
	"context"
	"errors"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/oncemq/oncemq/test/cluster"
)

// TestRow105KilledBeforeReplication: the home is killed when it has said the commit to the leader, which hasn't heard it. The
// transaction is rolled back, and stays so when what the home had said arrives behind its end (C12), and when it runs again.
func TestRow105KilledBeforeReplication(t *testing.T) {
	const size = 20_000 // of what is sent, to tell the commit from signs of life
	w := newWorldOfLinks(t)
	leader := w.Leader()
	home := w.follower()
	r := opened(t, w, home)
	name := r.do("plain", "next")[0]
	r.receives("tx", "in", "m1", false)
	r.do("tx", "send", "out", "re-m1", size)
	r.do("tx", "send", "$oncemq.tx", name+"/2")

	front, link := w.front(home), w.peers[[2]int{home.ID, leader.ID}]
	front.Set(true, cluster.Conditions{Jam: true})
	commit := r.start("tx", "commit")
	w.until("the program has sent something", func() bool { return front.Waiting(true) > 0 })
	link.Set(true, cluster.Conditions{Jam: true})
	front.Set(true, cluster.Conditions{})
	w.until("the home has said the commit", func() bool { return link.Waiting(true) > size })
	home.Kill()
	commit.rolledBack()
	r.receives("tx", "in", "m1", true) // so the home's end is applied
	if got := r.do("plain", "outcome", name); got[0] != "rolled-back" {
		t.Fatalf("the outcome is %q", got)
	}
	if link.Waiting(true) <= size {
		t.Fatal("what the home had said is lost, and can't arrive late")
	}
	link.Set(true, cluster.Conditions{})
	w.until("it has arrived", func() bool { return link.Waiting(true) == 0 })
	w.revive(home)
	if got := r.do("plain", "outcome", name); got[0] != "rolled-back" {
		t.Fatalf("the outcome is %q", got)
	}
	r.receivesNothing("plain", "out")
	r.do("tx", "send", "out", "re-m1")
	r.do("tx", "commit")
	r.receives("plain", "out", "re-m1", false)
	transfers(r, "m2", true)
	r.do("tx", "commit")
	r.receives("plain", "out", "re-m2", false)
	w.empty(home)
	r.leaves()
}

// isolate jams everything between a node and the others, both ways, without a word to either; the clients still reach it.
// What was said meanwhile arrives when rejoin is called.
func (w *world) isolate(n *cluster.Node) (rejoin func()) {
	set := func(c cluster.Conditions) {
		for pair, p := range w.peers {
			if pair[0] == n.ID || pair[1] == n.ID {
				p.Set(true, c)
				p.Set(false, c)
			}
		}
	}
	set(cluster.Conditions{Jam: true})
	return func() { set(cluster.Conditions{}) }
}

// leader is the node that leads, as a node knows; 0: it knows none.
func (w *world) leader(asked *cluster.Node) uint64 {
	st, err := asked.Status(w.t.Context())
	if err != nil {
		return 0
	}
	return st.Leader
}

// plainClient is go-amqp at a node: what it has said and not heard of is unknown to it, and it doesn't move by itself.
type plainClient struct {
	t        *testing.T
	sender   *amqp.Sender
	receiver *amqp.Receiver
	message  *amqp.Message // received, unsettled
}

// newPlainClient sends to "late", and has received the message of "acks".
func newPlainClient(t *testing.T, addr string) *plainClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := amqp.Dial(ctx, "amqp://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &plainClient{t: t}
	if c.sender, err = session.NewSender(ctx, "late", nil); err != nil {
		t.Fatal(err)
	}
	if c.receiver, err = session.NewReceiver(ctx, "acks", nil); err != nil {
		t.Fatal(err)
	}
	if c.message, err = c.receiver.Receive(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// speaks sends and acknowledges, and wants no other answer than the connection's end by Close(amqp:connection:forced).
func (c *plainClient) speaks() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.receiver.AcceptMessage(ctx, c.message); err != nil {
		c.t.Fatalf("acknowledging: %v", err)
	}
	err := c.sender.Send(ctx, amqp.NewMessage([]byte("late")), nil)
	if e := (*amqp.ConnError)(nil); !errors.As(err, &e) || e.RemoteErr == nil || e.RemoteErr.Condition != amqp.ErrCondConnectionForced {
		c.t.Fatalf("a send to a leader that is cut off ended with %v, want Close(%s)", err, amqp.ErrCondConnectionForced)
	}
}

// TestRow110OldLeader: a leader that is cut off from the others, not from its clients, accepts no send, settles nothing and
// commits nothing; it ends its connections, not links of them, so that the clients move. What it had been told changes nothing when
// it is reached again: others have what it had handed out.
func TestRow110OldLeader(t *testing.T) {
	w := newWorldOfLinks(t)
	old := w.Leader()
	r := opened(t, w, old)
	r.do("plain", "send", "acks", "a1")
	plain := newPlainClient(t, w.front(old).Addr)
	r.do("sync", "session", "auto")
	transfers(r, "m1", false)
	rejoin := w.isolate(old)
	commit, send := r.start("tx", "commit"), r.start("sync", "send", "sync", "s1")
	plain.speaks()
	w.until("another leads", func() bool { l := w.leader(w.other(old)); return l != 0 && l != uint64(old.ID) })
	commit.rolledBack()
	send.ok() // it was sent again, to another node
	r.do("client", "session", "client")
	r.receives("client", "acks", "a1", true) // so the end of the old one's connections is applied
	transfers(r, "m1", true)
	rejoin()
	w.until("the old leader follows", func() bool { l := w.leader(old); return l != 0 && l != uint64(old.ID) })
	old.WaitReady()
	w.holds(old, "sync", 1)
	w.holds(old, "acks", 1)
	for _, queue := range []string{"late", "out"} {
		r.receivesNothing("plain", queue)
	}
	r.do("client", "acknowledge")
	r.do("tx", "commit")
	r.receives("plain", "sync", "s1", false)
	r.receivesNothing("plain", "sync")
	r.receives("plain", "out", "re-m1", false)
	transfers(r, "m2", true)
	r.do("tx", "commit")
	r.receives("plain", "out", "re-m2", false)
	w.holds(old, "acks", 0)
	w.holds(old, "late", 0)
	w.empty(old)
	r.leaves()
}
