package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// model is a queue as a page of the contract says it, and nothing else: a list that is
// searched from the front, every time.
type model struct {
	messages []*modelMessage // the higher priorities first, of each in the order sent
	links    []*modelLink    // in the order attached
	turn     int             // place in links of the last one that got something, -1: none has
	dead     []string
	consumed map[string]bool
}

type modelMessage struct {
	body            string
	colour          int
	priority        uint8
	ref             command.DeliveryRef
	count, failures int
	seen            bool
	holder          *modelLink
	not             []*modelLink
	told            uint64 // its place among the link's hand-outs
}

type modelLink struct {
	conn      *peer
	number    uint32
	allowance int
	gone      bool
	colour    int // what its selector asks for, 0: all
	told      uint64
	holds     []*modelMessage // in the order handed out
}

// handOut gives the first message that fits to the next link that wants one, until
// nothing fits.
func (m *model) handOut() (told []string) {
	for misses, at := 0, m.turn; misses < len(m.links); {
		at = (at + 1) % len(m.links)
		l := m.links[at]
		i := slices.IndexFunc(m.messages, func(x *modelMessage) bool {
			return x.holder == nil && !slices.Contains(x.not, l) && (l.colour == 0 || l.colour == x.colour)
		})
		if l.gone || l.allowance == 0 || i < 0 {
			misses++
			continue
		}
		misses = 0
		x := m.messages[i]
		l.allowance--
		m.turn = at
		x.holder = l
		l.told++
		x.told = l.told
		x.ref.Attempt++
		l.holds = append(l.holds, x)
		told = append(told, fmt.Sprintf("%x/%d %s %+v %d %v", l.conn.id, l.number, x.body, x.ref, x.count, !x.seen))
	}
	return told
}

func (m *model) remove(x *modelMessage) {
	m.messages = slices.DeleteFunc(m.messages, func(y *modelMessage) bool { return x == y })
	m.unhold(x)
}

func (m *model) unhold(x *modelMessage) {
	if x.holder != nil {
		x.holder.holds = slices.DeleteFunc(x.holder.holds, func(y *modelMessage) bool { return x == y })
		x.holder = nil
	}
}

func (m *model) kill(x *modelMessage) {
	m.remove(x)
	m.dead = append(m.dead, x.body)
}

// giveBack returns x as a failed attempt, a seen one or untouched.
func (m *model) giveBack(x *modelMessage, counted, failed, seen bool) {
	m.unhold(x)
	if counted {
		x.count++
	}
	if failed {
		x.failures++
	}
	x.seen = x.seen || seen
	if x.failures >= redeliveryLimit {
		m.kill(x)
	}
}

func (m *model) settle(x *modelMessage, d command.Disposition) {
	switch d.Outcome {
	case command.Accepted:
		m.remove(x)
		m.consumed[x.body] = true
	case command.Rejected:
		m.kill(x)
	case command.Released:
		m.giveBack(x, false, false, true)
	case command.Modified:
		if d.UndeliverableHere && !slices.Contains(x.not, x.holder) {
			x.not = append(x.not, x.holder)
		}
		m.giveBack(x, d.Failed, d.Failed, true)
	}
}

// end ends a link: what is in unwritten returns untouched, the rest by cause.
func (m *model) end(l *modelLink, unwritten []*modelMessage, cause command.EndCause) {
	for _, x := range unwritten {
		m.giveBack(x, false, false, false)
	}
	l.gone, l.allowance = true, 0
	for _, x := range slices.Clone(m.messages) {
		x.not = slices.DeleteFunc(x.not, func(y *modelLink) bool { return y == l })
	}
	for i, x := range slices.Clone(l.holds) {
		lost := cause != command.EndClosed
		m.giveBack(x, lost, lost && i == 0 && cause != command.EndForced, true)
	}
}

// received is how many of its hand-outs a link's home has had, and those held that it
// hasn't.
func (g *rig) received(l *modelLink) (n uint64, unseen []*modelMessage) {
	if l.told == 0 {
		return noneReceived, nil
	}
	n = l.told - min(l.told, uint64(g.r.IntN(4)))
	for _, x := range l.holds {
		if x.told > n {
			unseen = append(unseen, x)
		}
	}
	if n == 0 {
		n = noneReceived
	}
	return n, unseen
}

// rig drives both.
type rig struct {
	*bundle
	model
	r *rand.Rand
	// colours is how many there are; of 0 no link has a selector. priorities likewise; of 0 no message says one.
	colours, priorities int
	numbers             map[uint8]uint64 // the last of each priority
	conns               []*peer
	sent                int
}

func (g *rig) living() (all []*modelLink) {
	for _, l := range g.links {
		if !l.gone {
			all = append(all, l)
		}
	}
	return all
}

func (g *rig) pick(from []*modelMessage, percent int) (some []*modelMessage) {
	for _, x := range from {
		if g.r.IntN(100) < percent {
			some = append(some, x)
		}
	}
	return some
}

func refsOf(some []*modelMessage) (refs []command.DeliveryRef) {
	for _, x := range some {
		refs = append(refs, x.ref)
	}
	return refs
}

func (g *rig) step() {
	living := g.living()
	k := g.r.IntN(100)
	if len(living) == 0 || k < 4 && len(living) < 5 {
		p := g.conns[g.r.IntN(len(g.conns))]
		l := &modelLink{conn: p, number: uint32(len(g.links) + 1)}
		if g.colours > 0 {
			l.colour = g.r.IntN(g.colours + 1)
		}
		g.links = append(g.links, l)
		p.do(p.node, &command.LinkOpen{Conn: p.id, Link: l.number, Address: "q", Create: true, Filter: colours(g, l.colour)})
		return
	}
	l := living[g.r.IntN(len(living))]
	p := l.conn
	switch {
	case k < 35:
		g.sent++
		x := &modelMessage{body: fmt.Sprint(g.sent), priority: usualPriority}
		if g.colours > 0 {
			x.colour = 1 + g.r.IntN(g.colours)
			x.body = string(coloured(x.body, x.colour))
		}
		if g.priorities > 0 {
			x.priority = uint8(g.r.IntN(g.priorities))
			x.body = string(urgent([]byte(x.body), x.priority))
			x.priority = min(x.priority, 9)
		}
		g.numbers[x.priority]++
		// Where a lane begins is drawn in docs/format/state.md.
		lane := []uint64{4, 3, 2, 1, 0, 15, 14, 13, 12, 11}[x.priority]
		x.ref.Message = lane<<60 | g.numbers[x.priority]
		at := slices.IndexFunc(g.messages, func(y *modelMessage) bool { return y.priority < x.priority })
		if at < 0 {
			at = len(g.messages)
		}
		g.messages = slices.Insert(g.messages, at, x)
		p.do(p.node, &command.Send{Conn: p.id, Link: 1000, Address: "q", Message: []byte(x.body)})
	case k < 55:
		n := g.r.IntN(4)
		l.allowance += n
		p.do(p.node, &command.Allow{Conn: p.id, Link: l.number, Messages: uint32(n), Bytes: 1 << 20})
	case k < 90:
		d := command.Disposition{Outcome: command.Disposed(1 + g.r.IntN(4))}
		if d.Outcome == command.Rejected && g.r.IntN(3) > 0 {
			d.Outcome = command.Modified
		}
		if d.Outcome == command.Modified {
			d.Failed, d.UndeliverableHere = g.r.IntN(2) == 0, g.r.IntN(3) == 0
		}
		some := g.pick(l.holds, 60)
		refs := refsOf(some)
		for _, x := range some {
			g.model.settle(x, d)
		}
		p.do(p.node, &command.Settle{Conn: p.id, Link: l.number, Request: 1, Disposition: d, Refs: refs})
		if e := g.one(command.EffectSettled); len(e.Refs) != 0 {
			g.Fatalf("lost %v", e.Refs)
		}
	case k < 93:
		n, unseen := g.received(l)
		some := g.pick(l.holds, 30)
		refs := refsOf(some)
		l.allowance = 0
		for _, x := range append(unseen, some...) {
			g.giveBack(x, false, false, false)
		}
		p.do(p.node, &command.Withdraw{Conn: p.id, Link: l.number, Received: n, Unwritten: refs})
	case k < 97:
		n, unseen := g.received(l)
		some := g.pick(l.holds, 30)
		refs := refsOf(some)
		g.end(l, append(unseen, some...), command.EndClosed)
		p.do(p.node, &command.LinkEnd{Conn: p.id, Link: l.number, Closed: true, Received: n, Unwritten: refs})
	default:
		g.endConn(p)
	}
}

// endConn ends a connection whose client is lost, and opens another.
func (g *rig) endConn(p *peer) {
	c := &command.ConnEnd{Conn: p.id, Cause: []command.EndCause{command.EndReset, command.EndForced, command.EndClosed}[g.r.IntN(3)]}
	for _, l := range g.links {
		if l.conn == p && !l.gone {
			n, unseen := g.received(l)
			some := g.pick(l.holds, 30)
			c.Links = append(c.Links, command.LinkUnwritten{Link: l.number, Received: n, Unwritten: refsOf(some)})
			for _, x := range append(unseen, some...) {
				g.giveBack(x, false, false, false)
			}
		}
	}
	for _, l := range g.links {
		if l.conn == p && !l.gone {
			l.gone, l.allowance = true, 0
			g.end(l, nil, c.Cause)
		}
	}
	p.do(p.node, c)
	g.conns[slices.Index(g.conns, p)] = nil
}

func (g *rig) compare() {
	g.Helper()
	var told []string
	for _, e := range g.kind(command.EffectDeliver) {
		for _, p := range g.conns {
			if p != nil && p.local == e.Local {
				told = append(told, fmt.Sprintf("%x/%d %s %+v %d %v", p.id, e.Link, g.body(e), e.Ref, e.Count, e.FirstAcquirer))
			}
		}
	}
	if want := g.handOut(); !slices.Equal(told, want) {
		g.Fatalf("delivered\n%q, the model says\n%q", told, want)
	}
	held := 0
	for _, l := range g.links {
		held += len(l.holds)
	}
	g.wantDepth("q", uint64(len(g.messages)), uint64(held))
	g.wantDepth("DLQ.q", uint64(len(g.dead)), 0)
	if len(g.messages)+len(g.dead)+len(g.consumed) != g.sent {
		g.Fatalf("the model itself lost one")
	}
}

// C11, C13: the queue hands out what the naive model hands out, in its order, and each
// message is in exactly one place; with selectors and without.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &rig{bundle: newBundle(t), r: rand.New(rand.NewPCG(seed, 7)), model: model{turn: -1, consumed: make(map[string]bool)}}
			g.colours = int(seed%2) * (1 + int(seed%3))
			g.priorities = []int{0, 3, 12}[seed/2%3]
			g.numbers = make(map[uint8]uint64)
			for n := range command.NodeID(3) {
				g.conns = append(g.conns, g.connect(n+1, "c"))
			}
			g.do(1, &command.QueueCreate{Name: "q"})
			for range 250 {
				g.single = g.r.IntN(4) > 0 // the loaded twin now and then
				g.step()
				g.compare()
				for i, p := range g.conns {
					if p == nil {
						g.conns[i] = g.connect(command.NodeID(i+1), "c")
					}
				}
			}
			// All that is left comes out in the order sent.
			p := g.connect(1, "last")
			p.receiver(99, "DLQ.q", 10_000)
			if got := p.delivered(); len(got) != len(g.dead) {
				t.Fatalf("%d dead letters, want %d", len(got), len(g.dead))
			}
		})
	}
}
