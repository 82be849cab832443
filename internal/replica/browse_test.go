package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// shelves is a machine of which only queues are asked for: how many messages each has, and what a look at it costs.
type shelves struct {
	machine
	has   map[string]uint64
	cost  int
	looks int
	short bool // each slice ends before the queue does, and gets one place on
}

func (m *shelves) Slice(b *state.Browser) (s command.BrowseSlice, steps int) {
	m.looks++
	s = command.BrowseSlice{Link: b.Link, Turn: b.Turn, Next: b.After}
	n, ok := m.has[b.Queue]
	if !ok {
		return s, m.cost
	}
	s.Incarnation = 1
	for s.Next[0] < n && len(s.Messages) < b.Most {
		s.Next[0]++
		s.Messages = append(s.Messages, command.Browsed{Position: s.Next[0]})
	}
	if m.short && s.Next[0] >= n {
		s.Next[0]++
	}
	s.More = s.Next[0] < n || m.short
	return s, m.cost
}

// passing is browsers with a machine, and what was answered.
type passing struct {
	browsers
	m   shelves
	got []string
}

func (a *passing) put(t *testing.T, link uint32, q command.Browse) {
	t.Helper()
	q.Local, q.Link, q.Queue = 7, link, "q"
	of, err := state.NewBrowser(q)
	if err != nil {
		t.Fatal(err)
	}
	a.ask(&browsing{of: of, done: func(s *command.BrowseSlice) {
		a.got = append(a.got, fmt.Sprintf("%d/%d:%d", s.Link, s.Turn, len(s.Messages)))
	}})
}

func (a *passing) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(a.got, want) {
		t.Fatalf("answered %q, want %q", a.got, want)
	}
	a.got = nil
}

// What browsers cost between two steps is bounded, and nobody is passed over.
func TestBrowsersAreBounded(t *testing.T) {
	a := &passing{m: shelves{has: map[string]uint64{"q": 1}, cost: browseSteps / 2}}
	for link := range uint32(5) {
		a.put(t, link, command.Browse{Most: 1})
	}
	for _, want := range [][]string{{"0/0:1", "1/0:1"}, {"2/0:1", "3/0:1"}, {"4/0:1"}} {
		if more := a.pass(&a.m, 1); more != (want[0] != "4/0:1") {
			t.Fatal("more:", more)
		}
		a.want(t, want...)
	}
	if a.pass(&a.m, 2); len(a.by)+len(a.asked)+len(a.waiting) != 0 {
		t.Fatal("something is left")
	}
}

// Who waits is looked at after something was applied, a few at a time, and answered when there is a message, or no queue any more.
func TestBrowsersWait(t *testing.T) {
	const waiters = 3 * lookSteps / 2
	a := &passing{m: shelves{has: map[string]uint64{"q": 5}, cost: 1}}
	for link := range uint32(waiters) {
		a.put(t, link, command.Browse{Most: 1, After: command.BrowsePlace{5}, Wait: true, Turn: 1})
	}
	first, second := a.pass(&a.m, 1), a.pass(&a.m, 1)
	if first || second || a.m.looks != waiters {
		t.Fatalf("%d looks at what hasn't changed", a.m.looks)
	}
	if !a.pass(&a.m, 2) || a.m.looks != waiters+lookSteps {
		t.Fatalf("%d looks after an entry", a.m.looks-waiters)
	}
	if a.pass(&a.m, 2) || a.m.looks != 2*waiters {
		t.Fatalf("%d looks after an entry", a.m.looks-waiters)
	}
	a.want(t)
	a.put(t, 3, command.Browse{Most: 1, After: command.BrowsePlace{5}, Turn: 2}) // takes the place of one that waits, and doesn't
	a.put(t, 4, command.Browse{})                                                // takes it back
	a.pass(&a.m, 2)
	a.want(t, "3/2:0")
	a.m.has["q"] = 6
	for a.pass(&a.m, 3) {
	}
	if len(a.got) != waiters-2 || a.got[3] != "5/1:1" {
		t.Fatalf("%d answers, %q", len(a.got), a.got[:4])
	}
	a.got = nil
	a.put(t, 9, command.Browse{Most: 1, After: command.BrowsePlace{6}, Wait: true})
	a.pass(&a.m, 3)
	a.want(t)
	delete(a.m.has, "q")
	a.pass(&a.m, 4)
	a.want(t, "9/0:0")
	if len(a.by)+len(a.asked)+len(a.waiting) != 0 {
		t.Fatal("something is left")
	}
}

// One that waits and has not come to the end goes on, behind the others.
func TestBrowsersGoOn(t *testing.T) {
	a := &passing{m: shelves{has: map[string]uint64{"q": 0}, cost: browseSteps, short: true}}
	a.put(t, 1, command.Browse{Most: 1, Wait: true})
	a.put(t, 2, command.Browse{Most: 1, Wait: true})
	for range 4 {
		if !a.pass(&a.m, 1) {
			t.Fatal("nobody goes on")
		}
	}
	for _, x := range a.by {
		if x.of.After[0] != 2 {
			t.Fatalf("after two looks it stands at %d", x.of.After[0])
		}
	}
	a.m.has["q"] = 3
	a.pass(&a.m, 1)
	a.pass(&a.m, 1)
	a.want(t, "1/0:1", "2/0:1")
}

// On an idle node, where nobody looks, what was replaced doesn't pile up.
func TestBrowsersForget(t *testing.T) {
	a := &passing{m: shelves{has: map[string]uint64{"q": 0}, cost: 1}}
	for range 1000 {
		a.put(t, 1, command.Browse{Most: 1, Wait: true})
		a.pass(&a.m, 1)
		a.put(t, 2, command.Browse{Most: 1, Wait: true})
		a.pass(&a.m, 1)
		if n := len(a.asked) + len(a.waiting); n > 5 {
			t.Fatalf("%d questions of two browsers are kept", n)
		}
	}
	a.put(t, 1, command.Browse{})
	a.put(t, 2, command.Browse{})
	if len(a.by)+len(a.asked)+len(a.waiting) != 0 {
		t.Fatal("something is left")
	}
}
