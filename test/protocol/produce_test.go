package protocol

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// roundTrip sends a message and gives it back as it came.
func roundTrip(t *testing.T, payload []byte) message {
	t.Helper()
	q := queueName(t)
	p := open(t)
	s := p.begin()
	out, in := s.sender(q), s.receiver(q)
	out.want(out.send(payload), &amqp.Accepted{})
	in.flow(1)
	m := in.receive()
	s.settle(m.id, &amqp.Accepted{})
	p.quiet()
	return m
}

// The bare message comes back bit by bit, however it was encoded, with its footer; annotations that nobody knows are kept, and those
// for the next hop alone are not.
func TestRow047BareMessage(t *testing.T) {
	annotations := amqp.Map{{Key: amqp.Symbol("x-opt-unknown"), Value: int32(7)}, {Key: amqp.Symbol("x-other"), Value: "kept"}}
	head := amqp.AppendHeader(nil, &amqp.Header{Durable: true, Priority: 4})
	head = amqp.AppendDeliveryAnnotations(head, amqp.Map{{Key: amqp.Symbol("x-hop"), Value: "mine"}})
	notes := amqp.AppendMessageAnnotations(nil, annotations)
	// A list32 where a list8 would do, a str32, an ulong of 8 bytes in the descriptor, a map32, a uint of 4 bytes, a vbin32.
	bare := []byte{
		0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x73, 0xd0, 0, 0, 0, 12, 0, 0, 0, 1, 0xb1, 0, 0, 0, 3, 'a', 'b', 'c',
		0x00, 0x53, 0x74, 0xd1, 0, 0, 0, 15, 0, 0, 0, 2, 0xb1, 0, 0, 0, 1, 'k', 0x70, 0, 0, 0, 5,
		0x00, 0x53, 0x75, 0xb0, 0, 0, 0, 2, 0xff, 0x00,
	}
	footer := amqp.AppendFooter(nil, amqp.Map{{Key: amqp.Symbol("x-sum"), Value: uint64(9)}})
	m := roundTrip(t, bytes.Join([][]byte{head, notes, bare, footer}, nil))
	s := m.sections()
	if !bytes.Equal(s.Bare, bare) {
		t.Errorf("the bare message came as\n% x, sent\n% x", s.Bare, bare)
	}
	if !bytes.Equal(s.MessageAnnotations, notes) || !bytes.Equal(s.Footer, footer) || s.DeliveryAnnotations != nil {
		t.Errorf("annotations % x, footer % x, delivery annotations % x", s.MessageAnnotations, s.Footer, s.DeliveryAnnotations)
	}
	if h := m.header(); !h.Durable {
		t.Errorf("the header came as %+v", h)
	}
}

// All forms of a body are accepted and come back as they were.
func TestRow048Bodies(t *testing.T) {
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, payload := range map[string][]byte{
		"none, only properties": amqp.AppendProperties(nil, &amqp.Properties{Subject: "s"}),
		"none, only a header":   amqp.AppendHeader(nil, &amqp.Header{Durable: true, Priority: 4}),
		"null":                  amqp.AppendAMQPValue(nil, nil),
		"map":                   amqp.AppendAMQPValue(nil, amqp.Map{{Key: "k", Value: amqp.List{int8(1)}}}),
		"empty data":            amqp.AppendData(nil, nil),
		"two data":              join(amqp.AppendData(nil, []byte("1")), amqp.AppendData(nil, []byte("2"))),
		"two sequences":         join(amqp.AppendSequence(nil, amqp.List{"1"}), amqp.AppendSequence(nil, nil)),
		"described":             amqp.AppendAMQPValue(nil, &amqp.Described{Descriptor: amqp.Symbol("x:y"), Value: "z"}),
	} {
		t.Run(name, func(t *testing.T) {
			m := roundTrip(t, payload)
			if s, want := m.sections(), payload; name != "none, only a header" && !bytes.Equal(s.Bare, want) {
				t.Errorf("came as % x, sent % x", s.Bare, want)
			}
		})
	}
}

// A message that isn't one is rejected with decode-error, and hurts nobody.
func TestRow048BrokenMessages(t *testing.T) {
	p := open(t)
	l := p.begin().sender(queueName(t))
	for name, payload := range map[string][]byte{
		"nothing":              {},
		"no section":           {0xa1, 1, 'x'},
		"a value in between":   append(amqp.AppendHeader(nil, &amqp.Header{Durable: true}), append([]byte{0xa1, 1, 'x'}, text("x")...)...),
		"cut":                  text("xyz")[:6],
		"two bodies":           append(text("x"), amqp.AppendData(nil, []byte("y"))...),
		"header behind":        append(text("x"), amqp.AppendHeader(nil, &amqp.Header{Durable: true})...),
		"properties no list":   {0x00, 0x53, 0x73, 0xa1, 1, 'x'},
		"a key that is no key": amqp.AppendApplicationProperties(nil, amqp.Map{{Key: int32(1), Value: "x"}}),
	} {
		l.wantRejected(l.send(payload), amqp.ErrCondDecodeError)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	l.wantRejected(l.send(text("x"), func(x *amqp.Transfer) { x.MessageFormat = amqp.Some(uint32(1)) }), amqp.ErrCondNotImplemented)
	l.want(l.send(text("x")), &amqp.Accepted{})
	p.quiet()
}

// message-id and correlation-id keep their types.
func TestRow049Ids(t *testing.T) {
	for name, id := range map[string]any{
		"string": "ID:1", "ulong": uint64(1<<40 + 1), "uuid": amqp.UUID{1, 2, 3, 15: 9}, "binary": []byte{0, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			sent := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, CorrelationID: id, UserID: []byte("u")})
			m := roundTrip(t, append(sent, text("x")...))
			if !bytes.Equal(m.sections().Properties, sent) {
				t.Errorf("came as % x, sent % x", m.sections().Properties, sent)
			}
		})
	}
}

// Annotations of JMS pass as they are, byte values included.
func TestRow055JMSAnnotations(t *testing.T) {
	notes := amqp.AppendMessageAnnotations(nil, amqp.Map{
		{Key: amqp.Symbol("x-opt-jms-msg-type"), Value: int8(5)},
		{Key: amqp.Symbol("x-opt-jms-dest"), Value: int8(0)},
		{Key: amqp.Symbol("x-opt-jms-reply-to"), Value: int8(2)},
	})
	m := roundTrip(t, append(notes, text("x")...))
	if !bytes.Equal(m.sections().MessageAnnotations, notes) {
		t.Errorf("came as % x, sent % x", m.sections().MessageAnnotations, notes)
	}
}

// The anonymous relay sends to the address in properties.to; a message without one is rejected, and the error names the delivery.
func TestRow058AnonymousRelay(t *testing.T) {
	q := queueName(t)
	p := open(t)
	found := false
	for _, c := range p.open.OfferedCapabilities {
		found = found || c == amqp.CapAnonymousRelay
	}
	if !found {
		t.Fatalf("offered: %v", p.open.OfferedCapabilities)
	}
	s := p.begin()
	l := s.sender("")
	l.want(l.send(addressed(q, "1")), &amqp.Accepted{})
	l.send(addressed(q, "2"), func(x *amqp.Transfer) { x.Settled = amqp.Some(true) })
	for payload, condition := range map[string]amqp.Symbol{
		string(text("x")): amqp.ErrCondInvalidField, string(addressed("$nobody", "x")): amqp.ErrCondNotFound,
	} {
		tag := []byte{9, 9}
		e := l.wantRejected(l.send([]byte(payload), func(x *amqp.Transfer) { x.DeliveryTag = tag }), condition)
		wantTag(t, e, tag)
	}
	p.quiet()
	wantQueue(t, q, "1", "2")
}

// wantTag checks that an error of the relay names its delivery.
func wantTag(t *testing.T, e *amqp.Error, tag []byte) {
	t.Helper()
	v, _ := e.Info.Lookup("delivery-tag")
	if b, ok := v.([]byte); !ok || !bytes.Equal(b, tag) {
		t.Errorf("the error's info is %+v, want delivery-tag %x", e.Info, tag)
	}
}

// Where the sender can't hear of a rejection the relay detaches, with the same error.
func TestRow058RelayDetaches(t *testing.T) {
	tag := []byte{7}
	bad := addressed("$nobody", "x")
	p := open(t)
	s := p.begin()
	l := s.sender("")
	l.send(bad, func(x *amqp.Transfer) { x.DeliveryTag, x.Settled = tag, amqp.Some(true) })
	wantTag(t, l.wantDetach(amqp.ErrCondNotFound), tag)
	l = s.sender("", func(a *amqp.Attach) { a.Source.Outcomes = []amqp.Symbol{amqp.OutcomeAccepted} })
	l.send(bad, func(x *amqp.Transfer) { x.DeliveryTag = tag })
	wantTag(t, l.wantDetach(amqp.ErrCondNotFound), tag)
	p.quiet()
}

// Pre-settled transfers are stored and not answered, with an empty tag too and with none.
func TestRow060PreSettled(t *testing.T) {
	q := queueName(t)
	p := open(t)
	l := p.begin().sender(q)
	for i, tag := range [][]byte{{1}, {}, {}, nil} {
		l.send(text(string(rune('1'+i))), func(x *amqp.Transfer) { x.DeliveryTag, x.Settled = tag, amqp.Some(true) })
	}
	l.want(l.send(text("5")), &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q, "1", "2", "3", "4", "5")
}

// A tag is free again once its delivery is settled; before, a second delivery of it is an error of its link alone. Two links may
// use the same.
func TestRow061Tags(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	l, other := s.sender(q), s.sender(q)
	same := func(x *amqp.Transfer) { x.DeliveryTag = []byte{1} }
	l.want(l.send(text("1"), same), &amqp.Accepted{})
	l.want(l.send(text("2"), same), &amqp.Accepted{})
	other.want(other.send(text("3"), same), &amqp.Accepted{})
	second := s.sender(q, func(a *amqp.Attach) { a.ReceiverSettleMode = amqp.ReceiverSettleSecond })
	first := second.send(text("4"), same)
	if d := expect[*amqp.Disposition](p); d.First != first || d.Settled {
		t.Fatalf("got %+v, want the unsettled answer", d)
	}
	second.send(text("never"), same)
	second.wantDetach(amqp.ErrCondNotAllowed, amqp.ErrCondIllegalState, amqp.ErrCondInvalidField)
	other.want(other.send(text("5")), &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q, "1", "2", "3", "4", "5")
}

// A transfer without its delivery-id or tag, a tag that is too long, frames of one delivery that disagree: an error of the
// link, at most of the session.
func TestRow061TransferFields(t *testing.T) {
	for name, change := range map[string]func(*amqp.Transfer){
		"no delivery-id":  func(x *amqp.Transfer) { x.DeliveryID = amqp.Opt[uint32]{} },
		"no delivery-tag": func(x *amqp.Transfer) { x.DeliveryTag = nil },
		"long tag":        func(x *amqp.Transfer) { x.DeliveryTag = make([]byte, 33) },
	} {
		t.Run(name, func(t *testing.T) {
			q := queueName(t)
			p := open(t)
			l, other := p.begin().sender(q), p.begin().sender(q)
			l.send(text("never"), change)
			l.wantDetach(amqp.ErrCondInvalidField)
			other.want(other.send(text("x")), &amqp.Accepted{})
			p.quiet()
			wantQueue(t, q, "x")
		})
	}
}

// Deliveries in several frames: what is optional in later frames may be there or not, those of two links may come in turn, those
// of one may not.
func TestRow062SeveralFrames(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	a, b := s.sender(q), s.sender(q)
	one, two := text("one"), text("two")
	first, second := a.transfer(), b.transfer()
	first.More, second.More = true, true
	a.put(first, one[:3])
	b.put(second, two[:4])
	a.put(&amqp.Transfer{Handle: a.handle, DeliveryID: first.DeliveryID, More: true}, one[3:4])
	a.put(&amqp.Transfer{Handle: a.handle, DeliveryTag: first.DeliveryTag, More: true}, nil)
	a.put(&amqp.Transfer{Handle: a.handle}, one[4:])
	a.want(first.DeliveryID.V, &amqp.Accepted{})
	b.put(&amqp.Transfer{Handle: b.handle, MessageFormat: amqp.Some(uint32(0))}, two[4:])
	b.want(second.DeliveryID.V, &amqp.Accepted{})
	x := a.transfer()
	x.More = true
	a.put(x, one[:3])
	y := a.transfer()
	a.put(y, two)
	a.wantDetach(amqp.ErrCondInvalidField)
	p.quiet()
	wantQueue(t, q, "one", "two")
}

// An aborted delivery leaves nothing behind, gives no answer and frees its tag; its payload counts for nothing.
func TestRow062Aborted(t *testing.T) {
	q := queueName(t)
	p := open(t)
	l := p.begin().sender(q)
	x := l.transfer()
	x.More, x.DeliveryTag = true, []byte{1}
	l.put(x, text("never")[:4])
	l.put(&amqp.Transfer{Handle: l.handle, Aborted: true}, text("never")[4:])
	y := l.transfer()
	y.Aborted, y.DeliveryTag = true, []byte{1}
	l.put(y, text("never"))
	l.want(l.send(text("x"), func(x *amqp.Transfer) { x.DeliveryTag = []byte{1} }), &amqp.Accepted{})
	p.quiet()
	wantQueue(t, q, "x")
}

// Half a delivery when the link, the session or the connection ends: nothing of it is stored.
func TestRow062HalfADelivery(t *testing.T) {
	q := queueName(t)
	half := func(l *link) {
		x := l.transfer()
		x.More = true
		l.put(x, text("never")[:4])
	}
	p := open(t)
	s := p.begin()
	l := s.sender(q)
	half(l)
	l.detach(true)
	l = s.sender(q)
	half(l)
	s.end()
	half(p.begin().sender(q))
	p.close()
	wantQueue(t, q)
}

// urgent is a message of a priority.
func urgent(priority uint8, s string) []byte {
	return append(amqp.AppendHeader(nil, &amqp.Header{Priority: priority}), text(s)...)
}

// Among what waits the higher priority goes first, and of one the older; one without a header has 4. What comes back has its place again.
func TestRow051Priorities(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	l := s.sender(q)
	for i, priority := range []uint8{4, 0, 9, 5, 4, 9, 200, 1} {
		l.want(l.send(urgent(priority, fmt.Sprint(priority, " ", i))), &amqp.Accepted{})
	}
	l.want(l.send(text("none")), &amqp.Accepted{})
	r := s.receiver(q)
	r.flow(3)
	for _, want := range []string{"9 2", "9 5", "200 6"} {
		m := r.receive().wantText(want)
		if h := m.header(); want == "200 6" && h.Priority != 200 || want != "200 6" && h.Priority != 9 {
			t.Errorf("%s: priority %d", want, h.Priority)
		}
		if want == "9 5" {
			s.settle(m.id, &amqp.Released{})
		} else {
			s.settle(m.id, &amqp.Accepted{})
		}
	}
	r.flow(3)
	for _, want := range []string{"9 5", "5 3", "4 0"} {
		s.settle(r.receive().wantText(want).id, &amqp.Accepted{})
	}
	// What overtakes does so from here on.
	l.want(l.send(urgent(7, "7")), &amqp.Accepted{})
	r.flow(9)
	for _, want := range []string{"7", "4 4", "none", "1 7", "0 1"} {
		s.settle(r.receive().wantText(want).id, &amqp.Accepted{})
	}
	p.quiet()
}

// A message's ttl counts from its coming, its absolute-expiry-time is a moment: what waits then goes, what a consumer holds it may still accept.
func TestRow052Expiry(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin()
	l := s.sender(q)
	brief := func(s string) []byte {
		return append(amqp.AppendHeader(nil, &amqp.Header{Priority: 4, TTL: amqp.Some(uint32(300))}), text(s)...)
	}
	absolute := func(s string, at time.Time) []byte {
		return append(amqp.AppendProperties(nil, &amqp.Properties{AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(at.UnixMilli()))}), text(s)...)
	}
	for _, m := range [][]byte{
		brief("held"), brief("brief"), text("for ever"), absolute("past", time.Now().Add(-time.Hour)),
		absolute("soon", time.Now().Add(300*time.Millisecond)), absolute("late", time.Now().Add(time.Hour)),
	} {
		l.want(l.send(m), &amqp.Accepted{})
	}
	r := s.receiver(q)
	r.flow(1)
	held := r.receive().wantText("held")
	for end := time.Now().Add(patience); ; {
		all := takeBack(t, q)
		if got := strings.Join(all, ","); got == "for ever,late" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("there are still %q", all)
		}
	}
	s.settle(held.id, &amqp.Accepted{})
	p.close()
	wantQueue(t, q, "for ever", "late")
}

// takeBack takes all that a queue has for somebody new, and gives it back.
func takeBack(t *testing.T, queue string) []string {
	t.Helper()
	p := open(t)
	l := p.begin().receiver(queue)
	l.flow(1000, func(f *amqp.Flow) { f.Drain = true })
	var all []message
	for {
		switch x, payload := nextBody(p); x := x.(type) {
		case *amqp.Transfer:
			all = append(all, l.collect(x, payload))
		case *amqp.Flow:
			if x.Handle.Set && x.Drain {
				p.close() // an orderly close gives back
				return texts(all)
			}
		}
	}
}

func nextBody(p *peer) (amqp.Performative, []byte) {
	_, body, payload := p.next()
	return body, payload
}

// A message with a delivery time isn't there for anybody before it, neither for a selector; those sent behind it go on.
func TestRow053DeliveryTime(t *testing.T) {
	q := queueName(t)
	p := open(t, func(o *amqp.Open) { o.DesiredCapabilities = []amqp.Symbol{amqp.CapDelayedDelivery} })
	if !slices.Contains(p.open.OfferedCapabilities, amqp.CapDelayedDelivery) {
		t.Errorf("the node offers %v", p.open.OfferedCapabilities)
	}
	s := p.begin()
	l := s.sender(q)
	due := time.Now().Add(1500 * time.Millisecond)
	annotated := func(key string, value any, s string) []byte {
		return append(amqp.AppendMessageAnnotations(nil, amqp.Map{{Key: amqp.Symbol(key), Value: value}}), text(s)...)
	}
	l.want(l.send(annotated("x-opt-delivery-time", due.UnixMilli(), "time")), &amqp.Accepted{})
	l.want(l.send(annotated("x-opt-delivery-delay", int32(1500), "delay")), &amqp.Accepted{})
	l.want(l.send(annotated("x-opt-delivery-time", time.Now().Add(-time.Hour).UnixMilli(), "past")), &amqp.Accepted{})
	all := s.receiver(q)
	all.wantTexts("past")
	picky := s.receiver(q, selecting(amqp.FilterKeyJMS, amqp.FilterSelectorCode, "JMSPriority = 4"))
	picky.wantTexts()
	if !time.Now().Before(due) {
		t.Skip("the machine is too slow to tell")
	}
	all.flow(2)
	var came []string
	for range 2 {
		m := all.receive()
		if came = append(came, m.text()); m.text() == "time" && time.Now().Before(due) {
			t.Errorf("it came %s early", time.Until(due))
		}
		s.settle(m.id, &amqp.Accepted{})
	}
	if slices.Sort(came); !slices.Equal(came, []string{"delay", "time"}) {
		t.Errorf("%q came", came)
	}
	p.quiet()
}
