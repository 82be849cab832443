// Package test runs other people's clients and process-level faults against nodes of
// the real binary. It has a module of its own, so that what only tests need doesn't
// weigh on users of oncemq.
package test

import (
	"context"
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

// TestProtonTransactions runs transactions of python-proton.
//
// Rows 116.
func TestProtonTransactions(t *testing.T) {
	python := "../.cache/proton/bin/python"
	need(t, python)
	c := cluster.Start(t, 3)
	run(t, 2*time.Minute, python, "proton/transactions.py", c.Nodes[1].AMQP)
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
