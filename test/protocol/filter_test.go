package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/amqp"
)

// coloured is a message with an application property.
func coloured(colour, s string) []byte {
	b := amqp.AppendApplicationProperties(nil, amqp.Map{{Key: "colour", Value: colour}})
	return append(b, text(s)...)
}

// selecting asks for messages that fit a selector, by a descriptor, under a key.
func selecting(key, descriptor any, selector any) func(*amqp.Attach) {
	return func(a *amqp.Attach) {
		a.Source.Filter = append(a.Source.Filter, amqp.Pair{Key: key, Value: &amqp.Described{Descriptor: descriptor, Value: selector}})
	}
}

// redAndBlue is a queue with messages of two colours, in turn.
func redAndBlue(t *testing.T) string {
	t.Helper()
	q := queueName(t)
	p := open(t)
	l := p.begin().sender(q)
	for i := range 6 {
		l.want(l.send(coloured([]string{"red", "blue"}[i%2], fmt.Sprint(i))), &amqp.Accepted{})
	}
	p.close()
	return q
}

// The selector is found by its descriptor, a number or a symbol, whatever its key; the others are left for others.
func TestRow032SelectorByDescriptor(t *testing.T) {
	for _, descriptor := range []any{amqp.FilterSelectorCode, amqp.FilterSelector} {
		for _, key := range []any{amqp.FilterKeyJMS, amqp.Symbol("selector"), amqp.FilterSelector, amqp.Symbol("anything")} {
			q := redAndBlue(t)
			p := open(t)
			s := p.begin()
			l := s.receiver(q, selecting(key, descriptor, "colour = 'blue'"))
			if got := l.attach.Source.Filter; len(got) != 1 || got[0].Key != key {
				t.Errorf("%v under %v: the answer has the filters %v", descriptor, key, got)
			}
			l.flow(10)
			for _, want := range []string{"1", "3", "5"} {
				m := l.receive().wantText(want)
				s.settle(m.id, &amqp.Accepted{})
			}
			p.quiet()
			wantQueue(t, q, "0", "2", "4")
		}
	}
}

// What comes back goes to those that it fits, in its place; one without a selector takes all.
func TestRow032SelectorAndWhatComesBack(t *testing.T) {
	q := redAndBlue(t)
	p := open(t)
	s := p.begin()
	blue := s.receiver(q, selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "colour = 'blue'"))
	blue.flow(2)
	first, second := blue.receive().wantText("1"), blue.receive().wantText("3")
	s.settle(second.id, &amqp.Released{})
	blue.flow(1)
	blue.receive().wantText("3")
	s.settle(first.id, &amqp.Modified{DeliveryFailed: true})
	all := s.receiver(q)
	all.flow(5)
	for _, want := range []string{"0", "1", "2", "4", "5"} {
		if m := all.receive().wantText(want); want == "1" && m.header().DeliveryCount != 1 {
			t.Errorf("delivery-count %d", m.header().DeliveryCount)
		}
	}
	p.quiet()
}

// The answer has the filters that are honoured, and no others.
func TestRow031HonouredFilters(t *testing.T) {
	p := open(t)
	s := p.begin()
	l := s.receiver(queueName(t), selecting(amqp.Symbol("x"), amqp.Symbol("example.org:unknown"), "1"))
	if got := l.attach.Source.Filter; len(got) != 0 {
		t.Errorf("an unknown filter came back: %v", got)
	}
	l = s.receiver(queueName(t), selecting(amqp.Symbol("x"), uint64(1<<60), "1"), selecting(amqp.Symbol("y"), amqp.FilterSelector, "a IS NULL"))
	if got := l.attach.Source.Filter; len(got) != 1 || got[0].Key != amqp.Symbol("y") {
		t.Errorf("the answer has the filters %v", got)
	}
	p.quiet()
}

// A selector that isn't one is refused with invalid-field, and the description points at what is wrong.
func TestRow033InvalidSelector(t *testing.T) {
	p := open(t)
	s := p.begin()
	for _, bad := range []any{"colour = ", "= 1", "a LIKE 1", "a BETWEEN 1", strings.Repeat("(", 10_000), "a = 'x", uint32(7), nil} {
		a := receiverAttach(queueName(t))
		selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, bad)(a)
		if e := s.refused(a, amqp.ErrCondInvalidField); !strings.Contains(e.Description, "selector") {
			t.Errorf("%v: %q", bad, e.Description)
		}
	}
	a := receiverAttach(queueName(t))
	selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "colour = 'blue' AND price >")(a)
	if e := s.refused(a, amqp.ErrCondInvalidField); !strings.Contains(e.Description, "28") && !strings.Contains(e.Description, "27") {
		t.Errorf("%q names no column", e.Description)
	}
	a = receiverAttach(queueName(t))
	selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "a = 1")(a)
	selecting(amqp.Symbol("more"), amqp.FilterSelector, "b = 1")(a)
	s.refused(a, amqp.ErrCondInvalidField)
	s.handle = 0
	s.receiver(queueName(t))
	p.quiet()
}

// The Go client's receivers take what their selector fits, also in transactions, and say where it isn't one.
func TestGoClientSelector(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := oncemq.Dial(ctx, "amqp://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := queueName(t)
	snd, err := s.NewSender(ctx, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		m := &oncemq.Message{Value: fmt.Sprint(i), Properties: map[string]any{"n": int64(i), "region": []string{"EU", "US"}[i%2]}}
		if err := snd.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.NewReceiver(ctx, q, &oncemq.ReceiverOptions{Selector: "n > 3 AND region = 'EU'"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4", "6", "8"} {
		d, err := r.Receive(ctx)
		if err != nil || d.Message.Value != want {
			t.Fatalf("%v, %v; want %s", d, err, want)
		}
		err = s.InTx(ctx, func(tx *oncemq.Tx) error { return tx.Accept(d) })
		if err != nil {
			t.Fatal(err)
		}
	}
	var refused *oncemq.Error
	if _, err := s.NewReceiver(ctx, q, &oncemq.ReceiverOptions{Selector: "n >"}); !errors.As(err, &refused) || refused.Condition != "amqp:invalid-field" {
		t.Errorf("%v", err)
	}
	wantQueue(t, q, "0", "1", "2", "3", "5", "7", "9")
}
