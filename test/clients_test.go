// Package test runs other people's clients and process-level faults against nodes of
// the real binary. It has a module of its own, so that what only tests need doesn't
// weigh on users of oncemq.
package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/oncemq/oncemq/test/cluster"
)

// run runs somebody else's program and fails with its output.
func run(t *testing.T, limit time.Duration, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
	t.Logf("%s", out)
}

// need skips where `make setup` has not been run; CI sets ONCEMQ_SETUP, so that
// nothing is skipped there.
func need(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("ONCEMQ_SETUP") != "" {
			t.Fatalf("%s is missing after make setup: %v", path, err)
		}
		t.Skipf("run make setup first: %v", err)
	}
}

const jmsLib = "jms/target/lib"

func java(t *testing.T, limit time.Duration, class string, args ...string) {
	t.Helper()
	run(t, limit, "java", append([]string{"-Xmx256m", "-cp", "jms/target/classes:" + jmsLib + "/*", "oncemq." + class}, args...)...)
}

func failoverURI(c *cluster.Cluster) string {
	uri := "failover:("
	for i, n := range c.Nodes {
		if i > 0 {
			uri += ","
		}
		uri += "amqp://" + n.AMQP
	}
	return uri + ")"
}

func TestQpidJMS(t *testing.T) {
	need(t, jmsLib)
	c := cluster.Start(t, 3)
	java(t, 3*time.Minute, "Check", "--urls", failoverURI(c))
}

// TestTopicsOfQpidJMS runs a JMS program's topics: every kind of subscription, from all three nodes.
//
// Rows 28, 34, 58, 73, 74, 75, 76, 77, 78 and 79.
func TestTopicsOfQpidJMS(t *testing.T) {
	need(t, jmsLib)
	c := cluster.Start(t, 3)
	java(t, 4*time.Minute, "Topics", "--urls", failoverURI(c))
}

// TestProtonTransactions runs transactions of python-proton.
//
// Rows 116.
func TestProtonTransactions(t *testing.T) {
	python := "../.cache/proton/bin/python"
	need(t, python)
	c := cluster.Start(t, 3)
	run(t, 2*time.Minute, python, "proton/transactions.py", c.Nodes[1].AMQP)
}

// TestProtonSubscription runs a durable subscription of python-proton over two nodes.
//
// Rows 73 and 74.
func TestProtonSubscription(t *testing.T) {
	python := "../.cache/proton/bin/python"
	need(t, python)
	c := cluster.Start(t, 3)
	run(t, 2*time.Minute, python, "proton/subscriptions.py", c.Nodes[1].AMQP, c.Nodes[2].AMQP)
}

// TestGoAMQPSubscription has a durable subscription taken over by another connection of its container, at another node, which gets what
// was not settled; another container has its own. go-amqp knows no detach but a closing one, which ends the subscription.
//
// Rows 74, 76 and 79.
func TestGoAMQPSubscription(t *testing.T) {
	c := cluster.Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	subscribe := func(node int, container string) *amqp.Receiver {
		t.Helper()
		return subscribeGoAMQP(ctx, t, c.Nodes[node].AMQP, container)
	}
	receive := func(r *amqp.Receiver, want string) *amqp.Message {
		t.Helper()
		m, err := r.Receive(ctx, nil)
		if err != nil || string(m.GetData()) != want {
			t.Fatalf("instead of %s: %v, %v", want, m, err)
		}
		return m
	}
	takes := func(r *amqp.Receiver, want ...string) {
		t.Helper()
		for _, text := range want {
			if err := r.AcceptMessage(ctx, receive(r, text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	old, other := subscribe(0, "a"), subscribe(1, "b")
	out, err := openGoAMQP(ctx, t, c.Nodes[2].AMQP, nil).NewSender(ctx, "prices", &amqp.SenderOptions{TargetCapabilities: []string{"topic"}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		if err := out.Send(ctx, amqp.NewMessage([]byte(text)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"1", "2", "3"} {
		send(text)
	}
	takes(old, "1")
	receive(old, "2")
	taken := subscribe(1, "a")
	takes(taken, "2", "3")
	takes(other, "1", "2", "3")
	for err = nil; err == nil; { // what had come before is still there to read
		_, err = old.Receive(ctx, nil)
	}
	var gone *amqp.LinkError
	if !errors.As(err, &gone) || gone.RemoteErr == nil || gone.RemoteErr.Condition != "amqp:link:stolen" {
		t.Errorf("the old receiver ended with %v", err)
	}
	if err := taken.Close(ctx); err != nil {
		t.Fatal(err)
	}
	send("4")
	again := subscribe(2, "a")
	send("5")
	takes(again, "5")
	takes(other, "4", "5")
}

// TestGoAMQP sends on one node and receives on the others, with and without SASL.
//
// Rows 114.
func TestGoAMQP(t *testing.T) {
	c := cluster.Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, n := range c.Nodes {
		opts := &amqp.ConnOptions{}
		if i == 1 {
			opts.SASLType = amqp.SASLTypeAnonymous()
		}
		queue := fmt.Sprintf("goamqp.%d", i)
		sendGoAMQP(ctx, t, n.AMQP, queue, opts)
		receiveGoAMQP(ctx, t, c.Nodes[(i+1)%3].AMQP, queue, opts)
	}
}

// openGoAMQP opens a connection and a session on it; both end with the test.
func openGoAMQP(ctx context.Context, t *testing.T, addr string, opts *amqp.ConnOptions) *amqp.Session {
	t.Helper()
	conn, err := amqp.Dial(ctx, "amqp://"+addr, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// subscribeGoAMQP opens a container's durable subscription "sub" to the topic "prices".
func subscribeGoAMQP(ctx context.Context, t *testing.T, addr, container string) *amqp.Receiver {
	t.Helper()
	s := openGoAMQP(ctx, t, addr, &amqp.ConnOptions{ContainerID: container})
	r, err := s.NewReceiver(ctx, "prices", &amqp.ReceiverOptions{
		Name: "sub", Credit: 10, SourceCapabilities: []string{"topic"},
		SourceDurability: amqp.DurabilityUnsettledState, SourceExpiryPolicy: amqp.ExpiryPolicyNever,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sendGoAMQP(ctx context.Context, t *testing.T, addr, queue string, opts *amqp.ConnOptions) {
	t.Helper()
	session := openGoAMQP(ctx, t, addr, opts)
	sender, err := session.NewSender(ctx, queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := sender.Send(ctx, amqp.NewMessage(fmt.Appendf(nil, "m%d", i)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func receiveGoAMQP(ctx context.Context, t *testing.T, addr, queue string, opts *amqp.ConnOptions) {
	t.Helper()
	session := openGoAMQP(ctx, t, addr, opts)
	receiver, err := session.NewReceiver(ctx, queue, &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		m, err := receiver.Receive(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(m.GetData()), fmt.Sprintf("m%d", i); got != want {
			t.Fatalf("message %d: got %s", i, got)
		}
		if err := receiver.AcceptMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}
