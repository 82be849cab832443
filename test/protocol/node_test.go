package protocol

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// address is the AMQP address of the one node that all tests share.
var address string

func TestMain(m *testing.M) { os.Exit(withNode(m.Run)) }

// withNode runs the tests beside a lone node.
func withNode(run func() int) int {
	dir, err := os.MkdirTemp("", "oncemq-protocol")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := cluster.Build()
	if err != nil {
		return failed(err)
	}
	c, err := localcluster.Start(localcluster.Config{Binary: binary, Dir: dir, Nodes: 1})
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cluster.ReadyBound)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		_ = c.Close()
		return failed(err)
	}
	address = c.Nodes()[0].AMQP
	code := run()
	select {
	case e := <-c.Unexpected():
		code = failed(e.Err)
	default:
	}
	if err := c.Close(); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "the node of the tests:", err)
	return 1
}

var names atomic.Uint64

// queueName is the name of a queue that nobody else uses.
func queueName(t *testing.T) string {
	return fmt.Sprintf("%s.%d", strings.ReplaceAll(t.Name(), "/", "."), names.Add(1))
}

// filled is the name of a new queue that holds texts.
func filled(t *testing.T, texts ...string) string {
	t.Helper()
	name := queueName(t)
	put(t, name, texts...)
	return name
}

// put stores texts in a queue, over a connection of its own.
func put(t *testing.T, queue string, texts ...string) {
	t.Helper()
	p := open(t)
	l := p.begin().sender(queue)
	for _, s := range texts {
		l.want(l.send(text(s)), &amqp.Accepted{})
	}
	p.close()
}

// wantQueue takes all that a queue has for somebody new, and compares the texts.
func wantQueue(t *testing.T, queue string, want ...string) {
	t.Helper()
	if got := texts(takeAll(t, queue)); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Fatalf("queue %s holds %q, want %q", queue, got, want)
	}
}

// takeAll takes and accepts all that a queue has now, up to 1,000 messages.
func takeAll(t *testing.T, queue string) (all []message) {
	t.Helper()
	p := open(t)
	l := p.begin().receiver(queue)
	l.flow(1000, func(f *amqp.Flow) { f.Drain = true })
	for {
		_, body, payload := p.next()
		switch x := body.(type) {
		case *amqp.Transfer:
			m := l.collect(x, payload)
			l.s.settle(m.id, &amqp.Accepted{})
			all = append(all, m)
		case *amqp.Flow:
			if x.Handle.Set && x.Drain {
				p.close()
				return all
			}
		default:
			t.Fatalf("an unexpected %s", amqp.NameOf(body))
		}
	}
}

// eventually takes all until the queue gives want: for what comes back a moment later than it was let go.
func eventually(t *testing.T, queue string, want ...string) (all []message) {
	t.Helper()
	p := open(t)
	l := p.begin().receiver(queue)
	l.flow(uint32(len(want)))
	for range want {
		m := l.receive()
		l.s.settle(m.id, &amqp.Accepted{})
		all = append(all, m)
	}
	p.close()
	if got := texts(all); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Fatalf("queue %s gave %q, want %q", queue, got, want)
	}
	return all
}

func texts(all []message) (list []string) {
	for _, m := range all {
		list = append(list, m.text())
	}
	return list
}

// text is a message with a text as its body.
func text(s string) []byte { return amqp.AppendAMQPValue(nil, s) }

// addressed is a message for the anonymous relay.
func addressed(to, s string) []byte {
	return amqp.AppendAMQPValue(amqp.AppendProperties(nil, &amqp.Properties{To: to}), s)
}
