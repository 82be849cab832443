package frontend

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// fill stores messages and gives a connection with a session to receive them on.
func (r *rig) fill(queue string, texts ...string) (*pair, *engine.Session) {
	r.t.Helper()
	p := r.open("filler")
	p.sendText(p.sender(p.begin(), queue), texts...)
	c := r.open("consumer")
	return c, c.begin()
}

// Checklist 66, 67, 70: each outcome does what it says, and counts as C8 says.
func TestOutcomes(t *testing.T) {
	modified := &amqp.Modified{DeliveryFailed: true, MessageAnnotations: amqp.Map{{Key: amqp.Symbol("x-opt-a"), Value: "b"}}}
	for _, tc := range []struct {
		name         string
		state        amqp.DeliveryState
		depth, dead  string
		count        uint32
		first, again bool
	}{
		{"accepted", &amqp.Accepted{}, "0/0", "none", 0, false, false},
		{"released", &amqp.Released{}, "1/0", "none", 0, true, true},
		{"rejected", &amqp.Rejected{Error: &amqp.Error{Condition: "x:y", Description: "why"}}, "0/0", "1/0", 0, false, false},
		{"modified failed", modified, "1/0", "none", 1, false, true},
		{"modified here", &amqp.Modified{UndeliverableHere: true}, "1/0", "none", 0, false, true}, // for another link
		{"default", nil, "1/0", "none", 0, true, true},                                            // released, where the source names none
	} {
		for _, settled := range []bool{true, false} {
			if tc.state == nil && !settled {
				continue
			}
			t.Run(tc.name, func(t *testing.T) {
				r := newRig(t)
				c, s := r.fill("q", "m")
				c.receiver(s, "q", 1)
				m := c.want("m")[0]
				m.d.Dispose(tc.state, settled)
				r.wantDepth("q", tc.depth)
				if d := r.depth("DLQ.q"); d != tc.dead {
					t.Fatalf("dead letters %s, want %s", d, tc.dead)
				}
				if !m.d.Settled {
					t.Fatal("we didn't settle after the receiver's outcome (checklist 68)")
				}
				if !tc.again {
					return
				}
				other := r.open("other")
				other.receiver(other.begin(), "q", 1)
				g := other.want("m")[0]
				// Whether what was released counts as seen is the state's business.
				if g.head.DeliveryCount != tc.count || g.head.FirstAcquirer && !tc.first {
					t.Fatalf("header %+v, want count %d first %v", g.head, tc.count, tc.first)
				}
				if tc.state == modified {
					sec, _ := amqp.ParseSections(g.d.Payload, amqp.Limits{})
					notes, err := amqp.DecodeMessageAnnotations(sec.MessageAnnotations, amqp.Limits{})
					if v, _ := notes.Lookup("x-opt-a"); v != "b" || err != nil {
						t.Fatalf("annotations %v %v", notes, err)
					}
				}
			})
		}
	}
}

// Checklist 70: a settlement without a state means the source's default outcome.
func TestDefaultOutcomeOfTheSource(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "m")
	c.receiver(s, "q", 1, func(a *amqp.Attach) { a.Source.DefaultOutcome = &amqp.Modified{DeliveryFailed: true} })
	c.want("m")[0].d.Dispose(nil, true)
	other := r.open("other")
	other.receiver(other.begin(), "q", 1)
	if g := other.want("m")[0]; g.head.DeliveryCount != 1 {
		t.Fatalf("header %+v", g.head)
	}
}

// Checklist 65: one disposition for a range is one command; ids that are settled are ignored.
func TestBatchDisposition(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3", "4")
	l := c.receiver(s, "q", 10)
	all := c.want("1 2 3 4")
	all[1].d.Dispose(&amqp.Accepted{}, true)
	r.pump()
	all[3].d.DisposeThrough(&amqp.Accepted{}, true)
	r.wantDepth("q", "0/0")
	if l.Unsettled() != 0 {
		t.Fatal("unsettled", l.Unsettled())
	}
}

// Checklist 68: the receiver settles second, and may say accepted and settled in two dispositions before our answer.
func TestReceiverSettlesSecond(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2")
	c.receiver(s, "q", 10, func(a *amqp.Attach) { a.ReceiverSettleMode = amqp.ReceiverSettleSecond })
	all := c.want("1 2")
	all[0].d.Dispose(&amqp.Accepted{}, false)
	all[1].d.Dispose(&amqp.Accepted{}, false)
	all[1].d.Dispose(&amqp.Accepted{}, true)
	r.log.held = true
	r.pump()
	if all[0].d.Settled {
		t.Fatal("settled before it is applied")
	}
	r.log.held = false
	r.wantDepth("q", "0/0")
	wantState[*amqp.Accepted](t, all[0].d, true)
}

// Checklist 69 and amqp.md 0.7: after Detach without closed a disposition still counts, after Detach with closed it doesn't.
func TestDispositionAfterDetach(t *testing.T) {
	for _, closed := range []bool{false, true} {
		r := newRig(t)
		c, s := r.fill("q", "1", "2")
		l := c.receiver(s, "q", 10)
		all := c.want("1 2")
		if err := l.Detach(closed, nil); err != nil {
			t.Fatal(err)
		}
		r.pump()
		if closed {
			r.wantDepth("q", "2/0")
		} else {
			r.wantDepth("q", "2/2")
		}
		all[0].d.Dispose(&amqp.Accepted{}, true)
		if closed {
			r.wantDepth("q", "2/0")
			continue
		}
		r.wantDepth("q", "1/1")
		// The session's end returns the rest, with the count left (checklist 24).
		if err := s.End(nil); err != nil {
			t.Fatal(err)
		}
		r.wantDepth("q", "1/0")
		other := r.open("other")
		other.receiver(other.begin(), "q", 1)
		if g := other.want("2")[0]; g.head.DeliveryCount != 0 || g.head.FirstAcquirer {
			t.Fatalf("header %+v", g.head)
		}
	}
}

// C8, checklist 24 and 50: how a connection ends decides what counts; what was not written goes back untouched.
func TestConnectionEndCounts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		end   func(p *pair)
		count uint32
	}{
		{"close", func(p *pair) { _ = p.cl.Close(nil) }, 0},
		{"reset", func(p *pair) { p.lose(command.EndReset) }, 1},
		{"silent", func(p *pair) { p.lose(command.EndSilent) }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			c, s := r.fill("q", "1", "2", "3")
			c.receiver(s, "q", 10)
			c.stuck = true
			r.pump()
			c.stuck = false
			r.log.lease = 0 // handed out, but not to be written now
			r.pump()
			r.log.lease = time.Second
			c.want("1 2 3")
			extra := r.open("x")
			c.stuck = true
			extra.sendText(extra.sender(extra.begin(), "q"), "4")
			r.wantDepth("q", "4/4")
			tc.end(c)
			r.wantDepth("q", "4/0")
			other := r.open("other")
			other.receiver(other.begin(), "q", 10)
			all := other.want("1 2 3 4")
			for i, g := range all {
				count, first := tc.count, false
				if i == 3 {
					count, first = 0, true
				}
				if g.head.DeliveryCount != count || g.head.FirstAcquirer != first {
					t.Errorf("message %d: header %+v, want count %d, first %v", i+1, g.head, count, first)
				}
			}
		})
	}
}

// Checklist 41 and 44: never beyond the credit; credit taken back stops deliveries, and what was handed out for it goes back
// after a second [3.4].
func TestCredit(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3", "4", "5")
	l := c.receiver(s, "q", 2)
	c.want("1 2")
	r.wantDepth("q", "5/2")
	_ = l.SetCredit(1, false)
	c.want("3")
	r.log.lease = 0
	_ = l.SetCredit(1, false)
	r.pump()
	r.wantDepth("q", "5/4")
	_ = l.SetCredit(0, false)
	r.log.lease = time.Second
	c.want("")
	r.wait(1200 * time.Millisecond)
	r.wantDepth("q", "5/3")
	other := r.open("other")
	other.receiver(other.begin(), "q", 10)
	if all := other.want("4 5"); !all[0].head.FirstAcquirer {
		t.Fatal("what was never written came back touched")
	}
	_ = l.SetCredit(5, false)
	c.want("")
}

// Checklist 42, 43, 45 and [4.6]: every drain is answered, with what there is, and never too early.
func TestDrain(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		r := newRig(t)
		c := r.open("c")
		l := c.receiver(c.begin(), "q", 0)
		_ = l.SetCredit(5, true)
		c.find(engine.Drained)
		_ = l.SetCredit(5, true) // the allowance is known to be applied by now: a barrier is enough
		bodies := r.log.bodies
		c.find(engine.Drained)
		if r.log.bodies != bodies {
			t.Fatal("the second drain went through the log")
		}
	})
	t.Run("some", func(t *testing.T) {
		r := newRig(t)
		c, s := r.fill("q", "1", "2")
		l := c.receiver(s, "q", 0)
		_ = l.SetCredit(5, true)
		c.want("1 2")
		c.find(engine.Drained)
	})
	t.Run("one and drain", func(t *testing.T) {
		r := newRig(t)
		c, s := r.fill("q", "1", "2")
		l := c.receiver(s, "q", 0)
		for _, want := range []string{"1", "2", ""} {
			_ = l.SetCredit(1, true)
			c.want(want)
			if l.Credit() != 0 {
				t.Fatal("credit left after a drain")
			}
		}
	})
	t.Run("no credit", func(t *testing.T) {
		r := newRig(t)
		c, s := r.fill("q", "1")
		l := c.receiver(s, "q", 0)
		_ = l.SetCredit(0, true)
		c.want("")
		shadow := len(c.shadow)
		_ = l.SetCredit(0, true)
		r.pump()
		if len(c.shadow) == shadow {
			t.Fatal("a drain without credit got no answer")
		}
	})
	t.Run("more than an allowance", func(t *testing.T) {
		r := newRig(t)
		var many []string
		for range maxAllowed + 200 {
			many = append(many, "m")
		}
		c, s := r.fill("q", many...)
		l := c.receiver(s, "q", 0)
		_ = l.SetCredit(5000, true)
		if n := len(c.received()); n != maxAllowed+200 {
			t.Fatalf("a drain gave %d messages", n)
		}
		c.find(engine.Drained)
	})
	t.Run("nobody is there to confirm", func(t *testing.T) {
		r := newRig(t)
		c := r.open("c")
		l := c.receiver(c.begin(), "q", 5)
		r.pump()
		r.log.held = true
		_ = l.SetCredit(5, true)
		r.pump()
		c.none(engine.Drained)
		r.log.held = false
		c.find(engine.Drained)
	})
}

// A message that comes while a drained link has no credit waits unwritten, and reaches the next credit (checklist 45).
func TestMessageBehindDrain(t *testing.T) {
	r := newRig(t)
	c := r.open("c")
	l := c.receiver(c.begin(), "q", 0)
	_ = l.SetCredit(1, true)
	c.find(engine.Drained)
	p := r.open("p")
	p.sendText(p.sender(p.begin(), "q"), "1")
	c.want("")
	_ = l.SetCredit(1, true)
	c.want("1")
}

// Checklist 71: two consumers never have one message.
func TestCompetingConsumers(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2", "3", "4")
	d := r.open("d")
	d.receiver(d.begin(), "q", 10)
	d.want("1 2 3 4")
	c.receiver(s, "q", 10)
	c.want("")
}

// C13 and [3.6]: on a pre-settled link a message leaves when it is reported written; unwritten ones go back.
func TestPresettledLink(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1", "2")
	c.receiver(s, "q", 1, func(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleSettled })
	if m := c.want("1")[0]; !m.d.Settled {
		t.Fatal("sent unsettled")
	}
	r.wantDepth("q", "1/0")
	r.log.lease = 0
	d := r.open("d")
	d.receiver(d.begin(), "q", 5, func(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleSettled })
	r.wantDepth("q", "1/1")
	d.lose(command.EndReset)
	r.wantDepth("q", "1/0")
}

// [3.8]: without the lease nothing is written, and nothing is lost by it.
func TestLease(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1")
	r.log.lease = 0
	c.receiver(s, "q", 5)
	c.want("")
	r.wantDepth("q", "1/1")
	r.log.lease = time.Second
	r.wait(100 * time.Millisecond)
	c.want("1")
	r.log.lease = 0
	r.wait(6 * time.Second)
	if ev := c.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("closed with %v", ev.Err)
	}
}

// [3.8]: with the end of the node's epoch no connection writes a hand-out any more, even if it hasn't been told yet and the
// node has a lease again: it may have stood still, and others have what it had.
func TestLeaseOfAnEndedEpoch(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1")
	r.log.lease = 0
	c.receiver(s, "q", 5)
	c.want("")
	r.node.EpochEnded()
	r.log.lease = time.Hour
	r.wait(time.Second)
	c.want("")
	r.wantDepth("q", "1/1")
}

// [3.4]: a socket that takes nothing for 2 s loses its allowance to others.
func TestStuckWrite(t *testing.T) {
	r := newRig(t)
	c := r.open("c")
	c.receiver(c.begin(), "q", 10)
	r.pump()
	c.stuck = true
	c.fe.WriteStuck(r.now)
	p := r.open("p")
	p.sendText(p.sender(p.begin(), "q"), "1", "2")
	r.wantDepth("q", "2/2")
	r.wait(2500 * time.Millisecond)
	r.wantDepth("q", "2/0")
	p.sendText(p.sender(p.begin(), "q"), "3")
	r.wantDepth("q", "3/0")
	c.stuck = false
	c.fe.WriteStuck(time.Time{})
	r.wait(1200 * time.Millisecond)
	if all := c.want("1 2 3"); !all[0].head.FirstAcquirer {
		t.Fatal("touched although never written")
	}
}

// [3.5]: a home that lags gives back what it hoards, and in the end its connections.
func TestLag(t *testing.T) {
	r := newRig(t)
	c := r.open("c")
	c.receiver(c.begin(), "q", 10)
	p := r.open("p")
	s := p.sender(p.begin(), "q")
	r.log.lag = 3 * time.Second
	r.wait(1500 * time.Millisecond)
	p.sendText(s, "1")
	r.wantDepth("q", "1/0")
	r.log.lag = 11 * time.Second
	r.wait(1500 * time.Millisecond)
	if ev := c.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("closed with %v", ev.Err)
	}
}

// Checklist 47 to 49: the bare message comes back bit by bit, whatever it is; our header and nothing else is written anew.
func TestBareMessage(t *testing.T) {
	bare := func(id any, body []byte) []byte {
		m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, CorrelationID: id, GroupID: "g"})
		return append(amqp.AppendApplicationProperties(m, amqp.Map{{Key: "k", Value: int32(7)}}), body...)
	}
	symbolic := append([]byte{0x00, 0xa3, 16}, "amqp:header:list"...)
	symbolic = append(symbolic, 0xc0, 2, 1, 0x41) // durable
	for _, tc := range []struct {
		name string
		head []byte
		rest []byte
	}{
		{"string id", nil, bare("ID:1", text("x"))},
		{"uuid id", nil, bare(amqp.UUID{1, 2, 3}, text("x"))},
		{"ulong id", nil, bare(uint64(1)<<63, text("x"))},
		{"binary id", nil, bare([]byte{0, 1}, text("x"))},
		{"no body", amqp.AppendHeader(nil, &amqp.Header{Durable: true, Priority: 9}), bare("a", nil)},
		{"null", nil, amqp.AppendAMQPValue(nil, nil)},
		{"two data", nil, amqp.AppendData(amqp.AppendData(nil, []byte("a")), []byte("b"))},
		{"sequences", nil, amqp.AppendSequence(amqp.AppendSequence(nil, amqp.List{int32(1)}), amqp.List{})},
		{
			"annotations and footer", amqp.AppendDeliveryAnnotations(nil, amqp.Map{{Key: amqp.Symbol("x"), Value: "drop"}}),
			amqp.AppendFooter(append(amqp.AppendMessageAnnotations(nil, amqp.Map{{Key: amqp.Symbol("x-opt-jms-dest"), Value: int8(0)}}),
				text("x")...), amqp.Map{{Key: amqp.Symbol("f"), Value: "g"}}),
		},
		{"symbolic header", symbolic, text("x")},
		{"large", nil, text(strings.Repeat("large ", 200_000))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p := r.open("p")
			s := p.sender(p.begin(), "q")
			d := p.send(s, engine.Transfer{Payload: [][]byte{tc.head, tc.rest}})
			r.pump()
			wantState[*amqp.Accepted](t, d, true)
			for range 2 { // from the store, both times
				c := r.open("c")
				c.receiver(c.begin(), "q", 1)
				g := c.received()
				if len(g) != 1 {
					t.Fatal("nothing came")
				}
				sec, _ := amqp.ParseSections(g[0].d.Payload, amqp.Limits{})
				if !bytes.Equal(sec.Rest, tc.rest) || sec.DeliveryAnnotations != nil {
					t.Fatalf("came back as % x", g[0].d.Payload)
				}
				want := amqp.NewHeader()
				if stored, err := amqp.ParseSections(append(bytes.Clone(tc.head), tc.rest...), amqp.Limits{}); err == nil {
					want, _ = amqp.DecodeHeader(stored.Header)
				}
				want.FirstAcquirer = g[0].head.FirstAcquirer
				if g[0].head != want {
					t.Fatalf("header %+v, want %+v", g[0].head, want)
				}
				c.cl.Close(nil)
				r.pump()
			}
		})
	}
}

// A link that takes only small messages doesn't get a large one; others do.
func TestMaxMessageSizeOfReceiver(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", strings.Repeat("x", 2000), "small")
	c.receiver(s, "q", 10, func(a *amqp.Attach) { a.MaxMessageSize = 1000 })
	c.want("small")
	r.wantDepth("q", "2/1") // it waits for another link
	other := r.open("other")
	other.receiver(other.begin(), "q", 10)
	if g := other.received(); len(g) != 1 || len(g[0].text) != 2000 {
		t.Fatal("another link doesn't get it")
	}
}

// [4.8] and queue deletion: the links of a deleted queue end with resource-deleted.
func TestQueueDeleted(t *testing.T) {
	r := newRig(t)
	c, s := r.fill("q", "1")
	l := c.receiver(s, "q", 10)
	c.want("1")
	r.log.queue = append(r.log.queue, command.Append(nil, &command.QueueDelete{Request: 1, Name: "q"}))
	c.wantDetached(l, amqp.ErrCondResourceDeleted)
	p := r.open("p")
	ds := p.sender(p.begin(), "q2")
	r.log.queue = append(r.log.queue, command.Append(nil, &command.QueueDelete{Request: 2, Name: "q2"}))
	d := p.sendText(ds, "late")[0]
	wantRejected(t, d, amqp.ErrCondResourceDeleted)
}
