package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/test/cluster"
)

// dialAs dials with a container-id of its own.
func dialAs(t *testing.T, ctx context.Context, urls, container string) *oncemq.Session {
	t.Helper()
	c, err := oncemq.Dial(ctx, urls, &oncemq.Config{ClientID: container})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reader takes what a subscription has, one by one in transactions, until it has had the last one.
func reader(ctx context.Context, r *oncemq.Receiver, s *oncemq.Session, last int) (got []string, err error) {
	for len(got) < last {
		d, err := r.Receive(ctx)
		if err != nil {
			return got, err
		}
		err = s.InTx(ctx, func(tx *oncemq.Tx) error { return tx.Accept(d) })
		if err != nil {
			continue // rolled back: it comes again
		}
		got = append(got, string(d.Message.Data))
	}
	return got, nil
}

// A durable subscription, and one of another selector, go on at another node when their home is killed, again and again: nothing is missing or doubled, and
// the order stays. What comes while nobody reads is kept.
func TestRow108SubscriptionsGoOn(t *testing.T) {
	const messages = 600
	c := cluster.Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	subscriber := dialAs(t, ctx, c.URLs(), "subscriber")
	subscribe := func(name, selector string) *oncemq.Receiver {
		t.Helper()
		r, err := subscriber.NewReceiver(ctx, "topic://prices", &oncemq.ReceiverOptions{
			Selector: selector, Subscription: &oncemq.Subscription{Name: name, Durable: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	all, some := subscribe("all", ""), subscribe("some", "odd = TRUE")
	publisher := dialAs(t, ctx, c.URLs(), "publisher")
	out, err := publisher.NewSender(ctx, "topic://prices", nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var got, odd []string
	var failed [3]error
	wg.Go(func() { got, failed[0] = reader(ctx, all, subscriber, messages) })
	wg.Go(func() { odd, failed[1] = reader(ctx, some, subscriber, messages/2) })
	for i := range messages {
		m := oncemq.NewMessage(fmt.Appendf(nil, "%d", i))
		m.Properties = map[string]any{"odd": i%2 == 1}
		if err := out.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
		if i%150 == 75 {
			n := c.Nodes[i/150%3]
			n.Kill()
			n.Start()
		}
	}
	wg.Wait()
	for i, err := range failed {
		if err != nil {
			t.Fatalf("reader %d, behind %d and %d messages: %v", i, len(got), len(odd), err)
		}
	}
	for i, s := range got {
		if s != fmt.Sprint(i) {
			t.Fatalf("message %d of the subscription is %s", i, s)
		}
	}
	for i, s := range odd {
		if s != fmt.Sprint(2*i+1) {
			t.Fatalf("message %d of the one with a selector is %s", i, s)
		}
	}
	if err := some.Close(ctx); err != nil {
		t.Fatal(err)
	}
	m := oncemq.NewMessage([]byte("kept"))
	m.Properties = map[string]any{"odd": true}
	if err := out.Send(ctx, m); err != nil {
		t.Fatal(err)
	}
	some = subscribe("some", "odd = TRUE")
	if d, err := some.Receive(ctx); err != nil || string(d.Message.Data) != "kept" {
		t.Fatalf("what came while nobody read: %v, %v", d, err)
	}
	if err := some.Unsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	some = subscribe("some", "odd = TRUE")
	short, end := context.WithTimeout(ctx, 500*time.Millisecond)
	defer end()
	if d, err := some.Receive(short); err == nil {
		t.Fatalf("a subscription that was ended has %s", d.Message.Data)
	}
}
