package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/test/cluster"
)

// lostReply is one run of the story "the reply of a commit is lost": a client behind
// proxies whose transactions take a message from in and put one with the same number
// into out.
type lostReply struct {
	t       *testing.T
	cluster *cluster.Cluster
	proxies []*cluster.Proxy
	client  *oncemq.Client
	session *oncemq.Session
	in      *oncemq.Receiver
	out     *oncemq.Sender
	feed    *oncemq.Sender

	number               int
	committed, rolled    map[string]bool
	largestTo, largestBy int // bytes of a whole commit to the server and back
}

func newLostReply(t *testing.T) *lostReply {
	t.Helper()
	s := &lostReply{t: t, cluster: cluster.Start(t, 3), committed: make(map[string]bool), rolled: make(map[string]bool)}
	var urls []string
	for _, n := range s.cluster.Nodes {
		p := cluster.NewProxy(t, n.AMQP)
		s.proxies = append(s.proxies, p)
		urls = append(urls, "amqp://"+p.Addr)
	}
	ctx := t.Context()
	s.client = s.dial(strings.Join(urls, ","))
	s.session = must(s.client.OpenSession(ctx, nil))(t)
	s.in = must(s.session.NewReceiver(ctx, "lost.in", nil))(t)
	s.out = must(s.session.NewSender(ctx, "lost.out", nil))(t)

	direct := s.dial(s.cluster.URLs())
	feeding := must(direct.OpenSession(ctx, nil))(t)
	s.feed = must(feeding.NewSender(ctx, "lost.in", nil))(t)
	return s
}

func (s *lostReply) dial(urls string) *oncemq.Client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	c := must(oncemq.Dial(ctx, urls, &oncemq.Config{Failover: oncemq.Failover{IgnoreServerList: true}}))(s.t)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// commit runs one transaction; before its commit every proxy is armed to pass n bytes
// in one direction, then to call act(node) and cut. It reports whether the cut came.
func (s *lostReply) commit(toServer bool, n int, act func(node *cluster.Node)) (cut bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	s.number++
	body := fmt.Sprintf("%d", s.number)
	if err := s.feed.Send(ctx, oncemq.NewMessage([]byte(body))); err != nil {
		s.t.Fatalf("feeding %s: %v", body, err)
	}
	tx := must(s.session.Begin(ctx))(s.t)
	d := must(s.in.Receive(ctx))(s.t)
	if err := tx.Send(ctx, s.out, oncemq.NewMessage(d.Message.Data)); err != nil {
		s.t.Fatalf("tx.Send: %v", err)
	}
	if err := tx.Accept(d); err != nil {
		s.t.Fatalf("tx.Accept: %v", err)
	}
	var once sync.Once // the next home is only cut off: two dead nodes are no majority
	for i, p := range s.proxies {
		node := s.cluster.Nodes[i]
		p.Arm(toServer, n, func() {
			if act != nil {
				once.Do(func() { act(node) })
			}
		})
	}
	start := time.Now()
	err := tx.Commit(ctx)
	took := time.Since(start)
	for _, p := range s.proxies {
		armed, to, by := p.Disarm()
		cut = cut || !armed
		s.largestTo, s.largestBy = max(s.largestTo, to), max(s.largestBy, by)
	}
	switch key := string(d.Message.Data); {
	case s.committed[key]:
		s.t.Fatalf("message %s was handed out again although its transaction was committed", key)
	case err == nil:
		s.committed[key] = true
	case errors.Is(err, oncemq.ErrRolledBack):
		s.rolled[key] = true
	default:
		s.t.Fatalf("cut after %d bytes (to server %v): commit %s ended with %v after %v: a majority was there all the time", n, toServer, tx.ID(), err, took)
	}
	return cut
}

// verify compares what a reader finds in out with what the commits said.
func (s *lostReply) verify() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	reader := s.dial(s.cluster.URLs())
	session := must(reader.OpenSession(ctx, nil))(s.t)
	out := must(session.NewReceiver(ctx, "lost.out", nil))(s.t)
	found := make(map[string]int)
	for range len(s.committed) {
		d, err := out.Receive(ctx)
		if err != nil {
			s.t.Fatalf("reading lost.out: %d of %d committed ones are there: %v", len(found), len(s.committed), err)
		}
		found[string(d.Message.Data)]++
		if err := d.Accept(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
	queue, _, err := s.cluster.Leader().Queue(ctx, "lost.out")
	if err != nil {
		s.t.Fatal(err)
	}
	if queue.Depth != 0 {
		s.t.Errorf("lost.out holds %d messages more than were committed", queue.Depth)
	}
	for key, n := range found {
		if n != 1 || !s.committed[key] {
			s.t.Errorf("message %s was found %d times, committed %v, rolled back %v", key, n, s.committed[key], s.rolled[key])
		}
	}
	for key := range s.committed {
		if found[key] != 1 {
			s.t.Errorf("message %s was committed and found %d times", key, found[key])
		}
	}
	s.t.Logf("%d committed, %d rolled back; a commit takes up to %d bytes to the server and %d back", len(s.committed), len(s.rolled), s.largestTo, s.largestBy)
}

// TestLostReplyAtEachByte cuts the connection after each byte of the commit's
// exchange, in both directions (C4): the client ends with the truth every time.
func TestLostReplyAtEachByte(t *testing.T) {
	for _, toServer := range []bool{true, false} {
		t.Run(fmt.Sprintf("toServer=%v", toServer), func(t *testing.T) {
			s := newLostReply(t)
			s.commit(toServer, 1<<30, nil) // measures
			for n, whole := 0, 0; whole < 3; n++ {
				if n > 4000 {
					t.Fatal("the exchange of one commit doesn't end")
				}
				if s.commit(toServer, n, nil) {
					whole = 0
				} else {
					whole++ // this many bytes are more than the exchange has
				}
			}
			s.verify()
		})
	}
}

// TestHomeKilledDuringCommit is the same with kill -9 of the home instead of a cut, at
// bytes spread over the exchange: 10 times, or 200 with ONCEMQ_LONG set.
//
// Rows 87.
func TestHomeKilledDuringCommit(t *testing.T) {
	kills := 10
	if os.Getenv("ONCEMQ_LONG") != "" {
		kills = 200
	}
	s := newLostReply(t)
	s.commit(true, 1<<30, nil)
	spanTo, spanBy := max(s.largestTo, 20), max(s.largestBy, 20)
	killed := 0
	for i := 0; killed < kills && i < 3*kills; i++ {
		toServer := i%2 == 0
		span := spanBy
		if toServer {
			span = spanTo
		}
		var victim *cluster.Node
		s.commit(toServer, (i*37)%span, func(node *cluster.Node) {
			victim = node
			node.Kill()
		})
		if victim != nil {
			killed++
			victim.Start()
			victim.WaitReady()
		}
	}
	if killed < kills {
		t.Errorf("only %d of %d kills came", killed, kills)
	}
	s.verify()
}
