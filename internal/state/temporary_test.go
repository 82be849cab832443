package state

import (
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// temporaryReceiver makes a temporary queue by a consumer, and gives it an allowance.
func (p *peer) temporaryReceiver(number uint32, session command.SessionID, allowance uint32) string {
	p.Helper()
	return p.attach(&command.LinkOpen{Link: number, Session: session, Name: "temp", Dynamic: command.DynamicQueue}, allowance).Address
}

// temporarySender makes one by a producer.
func (p *peer) temporarySender(number uint32) string {
	p.Helper()
	return p.sender(&command.SenderOpen{Link: number, Name: "creator", Dynamic: command.DynamicQueue}).Address
}

func (p *peer) sender(c *command.SenderOpen) *command.SenderOpened {
	p.Helper()
	c.Conn, c.Request = p.id, p.next()
	p.do(p.node, c)
	e := p.one(command.EffectSenderOpened)
	if e.Refusal != nil {
		p.Fatalf("link refused: %+v", *e.Refusal)
	}
	return e.Detail.(*command.SenderOpened)
}

// wantRefused wants the answer to a command to be a refusal.
func (p *peer) wantRefused(c command.Command, kind command.EffectKind, condition string) {
	p.Helper()
	p.do(p.node, c)
	if e := p.one(kind); e.Refusal == nil || e.Refusal.Condition != condition {
		p.Fatalf("%+v: want %s, got %+v", c, condition, e.Refusal)
	}
}

// wantGone wants a temporary queue to have gone with all that it had, and its name to lead nowhere.
func (b *bundle) wantGone(name string) {
	b.Helper()
	if _, ok := b.m.Queue(name); ok {
		b.Fatalf("%s is still there", name)
	}
	b.tick(1)
	for k := range b.disk.kv {
		if k[2] == keyQueue || k[2] == keyPlace || k[2] >= keyMessage && k[2] <= keyBody {
			b.Fatalf("key %x is left", k)
		}
	}
	p := b.connect(3, "later")
	p.wantRefused(&command.LinkOpen{Conn: p.id, Request: 1, Link: 1, Name: "r", Address: name, Create: true}, command.EffectLinkOpened, condNotFound)
	p.wantRefused(&command.SenderOpen{Conn: p.id, Request: 1, Link: 1, Name: "s", Address: name, Create: true}, command.EffectSenderOpened, condNotFound)
	p.wantRefused(&command.Send{Conn: p.id, Request: 1, Link: 1, Address: name, Message: []byte("x")}, command.EffectSent, condNotFound)
	p.wantRefused(&command.QueueCreate{Conn: p.id, Request: 1, Name: name}, command.EffectQueue, condNotAllowed)
	b.do(3, &command.ConnEnd{Conn: p.id, Cause: command.EndClosed})
}

// ended are the links that the last entry has told their end, with the condition.
func (b *bundle) ended() (all []string) {
	for _, e := range b.kind(command.EffectLinkEnded) {
		all = append(all, strings.Join([]string{b.containerOf(e.Local), string(rune('0' + e.Link)), e.Refusal.Condition}, " "))
	}
	return all
}

func (b *bundle) containerOf(local uint64) string {
	for _, c := range b.m.conns {
		if c.local == local {
			return c.client.key.container
		}
	}
	return "?"
}

func (b *bundle) wantEnded(want ...string) {
	b.Helper()
	if got := b.ended(); strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.Fatalf("ended %q, want %q", got, want)
	}
}

// A temporary queue goes with the link that made it, whichever it is, however it is detached, and with its session and its connection,
// however that ends: with its messages, those that somebody holds too. Who is attached hears of it.
func TestTemporaryQueueGoes(t *testing.T) {
	makers := map[string]func(p *peer) (name string, detach command.Command){
		"receiver": func(p *peer) (string, command.Command) {
			return p.temporaryReceiver(1, command.SessionID{}, 1), &command.LinkEnd{Conn: p.id, Link: 1, Closed: true}
		},
		"receiver, not closed": func(p *peer) (string, command.Command) {
			return p.temporaryReceiver(1, command.SessionID{}, 1), &command.LinkEnd{Conn: p.id, Link: 1}
		},
		"sender": func(p *peer) (string, command.Command) {
			name := p.temporarySender(1)
			p.attach(&command.LinkOpen{Link: 3, Name: "r", Address: name}, 1)
			return name, &command.SenderEnd{Conn: p.id, Link: 1}
		},
		"connection closed": func(p *peer) (string, command.Command) {
			return p.temporaryReceiver(1, command.SessionID{}, 1), &command.ConnEnd{Conn: p.id, Cause: command.EndClosed}
		},
		"connection lost": func(p *peer) (string, command.Command) {
			return p.temporarySender(1), &command.ConnEnd{Conn: p.id, Cause: command.EndSilent}
		},
		"connection lost that could resume": func(p *peer) (string, command.Command) {
			s := p.session(command.SessionOpen{Nonce: [16]byte{1}})
			return p.temporaryReceiver(1, s, 1), &command.ConnEnd{Conn: p.id, Cause: command.EndSilent}
		},
		"session": func(p *peer) (string, command.Command) {
			s := p.session(command.SessionOpen{Nonce: [16]byte{1}})
			return p.temporaryReceiver(1, s, 1), &command.SessionEnd{Conn: p.id, Session: s}
		},
		"home lost": func(p *peer) (string, command.Command) {
			return p.temporaryReceiver(1, command.SessionID{}, 1), &command.NodeDown{Node: 1, Epoch: p.epochs[1]}
		},
		"deleted": func(p *peer) (string, command.Command) {
			name := p.temporaryReceiver(1, command.SessionID{}, 1)
			return name, &command.QueueDelete{Request: 5, Name: name}
		},
	}
	for how, make := range makers {
		t.Run(how, func(t *testing.T) {
			b := newBundle(t)
			p := b.connectGo(1, "owner", 1, 1)
			name, end := make(p)
			other := b.connect(2, "other")
			if to := other.sender(&command.SenderOpen{Link: 2, Name: "s", Address: name, Create: true}); to.Address != name {
				t.Fatalf("attached to %q", to.Address)
			}
			other.send(name, "a", "b", "c")
			if strings.Contains(how, "receiver") || how == "sender" {
				b.wantDelivered("a/0")
			}
			want := []string{"other 2 " + condDeleted}
			switch c := end.(type) {
			case *command.NodeDown:
				b.system(c)
			case *command.QueueDelete:
				want = append(want, "owner 1 "+condDeleted)
				b.do(1, c)
			case *command.SenderEnd:
				want = append(want, "owner 3 "+condDeleted)
				b.do(1, c)
			default:
				b.do(1, c)
			}
			b.wantEnded(want...)
			b.wantGone(name)
			other.do(2, &command.SenderEnd{Conn: other.id, Link: 2}) // which its home sends when it is told
			b.do(2, &command.ConnEnd{Conn: other.id, Cause: command.EndClosed})
			for k := range b.disk.kv {
				if k[2] == keySender || k[2] == keyLink || k[2] == keyAllowance {
					t.Fatalf("key %x is left", k)
				}
			}
		})
	}
}

// The owner's connection alone consumes, over any of its links; anybody sends.
func TestTemporaryQueueHasAnOwner(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "owner")
	name := p.temporarySender(1)
	other := b.connect(1, "other")
	other.wantRefused(&command.LinkOpen{Conn: other.id, Request: 1, Link: 1, Name: "r", Address: name}, command.EffectLinkOpened, condLocked)
	same := b.connect(1, "owner") // another connection of the same client
	same.wantRefused(&command.LinkOpen{Conn: same.id, Request: 1, Link: 1, Name: "r", Address: name}, command.EffectLinkOpened, condLocked)
	other.send(name, "a")
	p.attach(&command.LinkOpen{Link: 2, Name: "r", Address: name}, 1)
	b.wantDelivered("a/0")
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 2, Closed: true})
	if _, ok := b.m.Queue(name); !ok {
		t.Fatal("it went with a link that hasn't made it")
	}
	other.sender(&command.SenderOpen{Link: 2, Name: "s", Address: name})
	other.do(1, &command.SenderEnd{Conn: other.id, Link: 2})
	p.do(1, &command.SenderEnd{Conn: p.id, Link: 1})
	b.wantEnded() // whose link has ended already isn't told
	b.wantGone(name)
}

// No two temporary queues have one name: those of a restored cluster's other history neither, and the names don't tell of each other.
func TestTemporaryNames(t *testing.T) {
	seen := make(map[string]bool)
	m := New(testGroup)
	for history := range uint16(3) {
		m.history = history
		for inc := range command.Incarnation(100) {
			name := m.temporaryName(inc)
			if seen[name] || !reservedName(name) || validName(name) || len(name) != len(command.TemporaryQueuePrefix)+33 {
				t.Fatalf("%q", name)
			}
			seen[name] = true
		}
	}
	before := m.temporaryName(1)
	m.userSeed[0]++
	if after := m.temporaryName(1); after == before {
		t.Fatal("the seed is no part of it")
	}
}

func TestTemporaryRefusals(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	open := func(c command.LinkOpen) *command.LinkOpen { c.Conn, c.Request, c.Link = p.id, 1, 5; return &c }
	p.wantRefused(open(command.LinkOpen{Dynamic: 7}), command.EffectLinkOpened, condNotImplemented)
	p.wantRefused(open(command.LinkOpen{Dynamic: command.DynamicQueue, Address: "q"}), command.EffectLinkOpened, condInvalid)
	p.wantRefused(open(command.LinkOpen{Address: "temp-topic:x", Create: true}), command.EffectLinkOpened, condNotFound)
	p.wantRefused(&command.SenderOpen{Conn: p.id, Request: 1, Link: 5, Dynamic: 7}, command.EffectSenderOpened, condNotImplemented)
	p.wantRefused(&command.QueueCreate{Request: 1, Name: "temp-topic:x"}, command.EffectQueue, condNotAllowed)
	b.single = true
	for n := range uint32(maxTemporary) {
		p.temporarySender(n + 10)
	}
	p.wantRefused(open(command.LinkOpen{Dynamic: command.DynamicQueue}), command.EffectLinkOpened, condLimit)
	p.do(1, &command.SenderEnd{Conn: p.id, Link: 10})
	p.temporarySender(10)
	p.do(1, &command.ConnEnd{Conn: p.id, Cause: command.EndSilent})
	if n := len(b.m.byInc); n != 0 {
		t.Fatalf("%d queues are left", n)
	}
}

// A numbered link that sends to one that goes keeps its numbers: what was sent too late has its refusal for whoever asks again.
func TestTemporaryQueueAndNumbers(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "owner")
	name := p.temporaryReceiver(1, command.SessionID{}, 0)
	other := b.connectGo(2, "other", 1, 1)
	s := other.session(command.SessionOpen{Nonce: [16]byte{1}})
	to := other.sender(&command.SenderOpen{Link: 2, Session: s, Name: "s", Address: name, Numbered: true})
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	b.wantEnded("other 2 " + condDeleted)
	other.wantRefused(&command.Send{Conn: other.id, Link: 2, Request: 1, Number: 1, Target: to.Incarnation, Message: []byte("x")}, command.EffectSent, condDeleted)
	again := other.sender(&command.SenderOpen{Link: 3, Session: s, Name: "s", Address: "", Numbered: true, Held: []uint64{1}})
	if o := again.Held[0]; o.Stored || o.Refusal == nil || o.Refusal.Condition != condDeleted {
		t.Fatalf("%+v", o)
	}
	b.wantGone(name)
}

// Nothing is attached to a queue in the place of the link that made it, with which it would go.
func TestTemporaryMakerIsNotReplaced(t *testing.T) {
	b := newBundle(t)
	p := b.connectGo(1, "p", 1, 1)
	s := p.session(command.SessionOpen{Nonce: [16]byte{1}})
	name := p.temporaryReceiver(1, s, 0)
	p.wantRefused(&command.LinkOpen{Conn: p.id, Request: 1, Link: 2, Session: s, Name: "temp", Address: name}, command.EffectLinkOpened, condIllegal)
	made := p.sender(&command.SenderOpen{Link: 3, Session: s, Name: "out", Numbered: true, Dynamic: command.DynamicQueue}).Address
	p.wantRefused(&command.SenderOpen{Conn: p.id, Request: 1, Link: 4, Session: s, Name: "out", Numbered: true, Address: made}, command.EffectSenderOpened, condIllegal)
	// With another address the link's name is free, and the queue that it had made goes.
	p.attach(&command.LinkOpen{Link: 2, Session: s, Name: "temp", Dynamic: command.DynamicQueue}, 0)
	b.wantEnded("p 1 " + condStolen)
	p.sender(&command.SenderOpen{Link: 4, Session: s, Name: "out", Numbered: true})
	b.wantEnded("p 3 " + condStolen)
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 2, Closed: true})
	b.wantGone(name)
	b.wantGone(made)
}

// The dead letters of all temporary queues are in one queue, which stays.
func TestTemporaryDeadLetters(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	for range 2 {
		name := p.temporaryReceiver(1, command.SessionID{}, 1)
		p.send(name, "bad")
		p.settle(1, command.Rejected, b.refs()[0])
		p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true})
	}
	b.wantDepth("DLQ.temp-queue", 2, 0)
	if n := len(b.m.byInc); n != 1 {
		t.Fatalf("%d queues", n)
	}
}

// A transaction that a temporary queue is part of, which has gone, rolls back.
func TestTemporaryQueueAndTransactions(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "owner")
	name := p.temporaryReceiver(1, command.SessionID{}, 1)
	other := b.connect(2, "other")
	to := other.sender(&command.SenderOpen{Link: 2, Name: "s", Address: name})
	other.send(name, "a")
	ref := b.refs()[0]
	p.do(1, &command.LinkEnd{Conn: p.id, Link: 1, Closed: true, Enlisted: []command.DeliveryRef{ref}})
	p.do(1, &command.Commit{
		Conn: p.id, Request: 1, Operations: -1, Counted: 1,
		Settles: []command.TxSettle{{Link: 1, Ref: ref, Settled: true, Disposition: command.Disposition{Outcome: command.Accepted}}},
	})
	wantOutcome(t, b.one(command.EffectDecided), command.TxRolledBack, command.ReasonDeliveryLost)
	other.do(2, &command.Commit{Conn: other.id, Request: 1, Operations: -1, Counted: 1, Sends: []command.TxSend{{Target: to.Incarnation, Message: []byte("x")}}})
	if e := b.one(command.EffectDecided); e.Outcome != command.TxRolledBack {
		t.Fatalf("%+v", e)
	}
	b.wantGone(name)
}
