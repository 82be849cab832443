package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// refuses says whether the listener hangs up on a new connection at once.
func (n *node) refuses() bool {
	n.t.Helper()
	nc := n.dial()
	defer nc.Close()
	_ = nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := nc.Read(make([]byte, 1))
	return err != nil && !isTimeout(err)
}

// TestDrain: all connections end by amqp:connection:forced, spread over the time, nobody is let in until Revive.
func TestDrain(t *testing.T) {
	const count, over = 4, 80 * time.Millisecond
	n := start(t)
	var all []*client
	for i := range count {
		all = append(all, n.connect(fmt.Sprint("c", i)))
	}
	n.dial() // in its SASL layer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.waiting(1)
	began := time.Now()
	drained := make(chan error, 1)
	go func() { drained <- n.s.Drain(ctx, over) }()
	for _, c := range all {
		if ev := c.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
			t.Fatalf("closed with %v", ev.Err)
		}
		_ = c.nc.Close()
	}
	if err := <-drained; err != nil || n.s.Stats().Connections != 0 || !n.s.Drained() {
		t.Fatalf("%v; %d connections are left", err, n.s.Stats().Connections)
	}
	if took := time.Since(began); took < over/2 {
		t.Errorf("all at once, within %v", took)
	}
	if !n.refuses() {
		t.Error("a drained node lets a client in")
	}
	n.s.Revive()
	n.connect("again")
}

// TestShed: so many connections end, as many that come back are turned away, and the rest goes on.
func TestShed(t *testing.T) {
	n := start(t)
	for i := range 5 {
		n.connect(fmt.Sprint("c", i))
	}
	if err := n.s.Shed(t.Context(), 2, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	told := 0
	n.s.mu.Lock()
	for c := range n.s.all {
		if c.told {
			told++
		}
	}
	n.s.mu.Unlock()
	if told != 2 {
		t.Errorf("%d were told to end, want 2", told)
	}
	for range 2 {
		if !n.refuses() {
			t.Error("a connection that was shed may come back at once")
		}
	}
	n.connect("another")
	if err := n.s.Shed(t.Context(), 0, time.Second); err != nil {
		t.Error(err)
	}
}

// TestDrainOfNobody ends at once.
func TestDrainOfNobody(t *testing.T) {
	n := start(t)
	if err := n.s.Drain(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

// TestRow019Redirect: a client that is known to follow a redirect is told a node to go to, the others that they have to go; a node that
// stops names nobody, for it may be that all do.
func TestRow019Redirect(t *testing.T) {
	n := start(t, withServers)
	product := func(name string) *client {
		c := &client{t: t, nc: n.dial(), eng: engine.New(engine.Config{})}
		o := amqp.NewOpen(name)
		o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: name}}
		if err := c.eng.Open(*o); err != nil {
			t.Fatal(err)
		}
		c.await(engine.Opened)
		return c
	}
	jms, other := product("QpidJMS"), product("go-amqp")
	drained := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { drained <- n.s.Drain(ctx, 0) }()
	ev := jms.await(engine.Closed)
	if ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionRedirect {
		t.Fatalf("closed with %v", ev.Err)
	}
	host, _ := ev.Err.AMQP.Info.Lookup(string(amqp.InfoNetworkHost))
	port, _ := ev.Err.AMQP.Info.Lookup(string(amqp.InfoPort))
	if at := fmt.Sprint(host, ":", port); at != "10.0.0.2:5672" && at != "10.0.0.3:5673" {
		t.Errorf("redirected to %s", at)
	}
	if ev := other.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Errorf("closed with %v", ev.Err)
	}
	_, _ = jms.nc.Close(), other.nc.Close()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	n.s.Revive()
	jms = product("QpidJMS")
	go n.stop()
	if ev := jms.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Errorf("a node that stops: closed with %v", ev.Err)
	}
}
