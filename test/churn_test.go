package test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// churn changes a cluster's members while it harms them, as its seed says.
type churn struct {
	*grown
	rng   *rand.Rand
	alive map[int]*machine // the members
	next  int              // the id of the next one that joins
}

// TestMembersUnderFaults: members are replaced, for they have lost their directory or are to leave, and in between killed, damaged, drained; leadership
// moves. Each happens once before any happens again. Every message that was accepted is there once, in order. ONCEMQ_SOAK_MINUTES is how long, ONCEMQ_SEED which.
func TestMembersUnderFaults(t *testing.T) {
	if os.Getenv("ONCEMQ_LONG") == "" {
		t.Skip("takes long: set ONCEMQ_LONG=1")
	}
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 32); err == nil {
			return n
		}
		return otherwise
	}
	minutes, seed := number("ONCEMQ_SOAK_MINUTES", 1), number("ONCEMQ_SEED", 1)
	g := newGrown(t)
	x := &churn{grown: g, rng: rand.New(rand.NewPCG(seed, 0x6d656d)), alive: map[int]*machine{}, next: 4}
	x.alive[1] = g.first()
	for id := 2; id < x.next; id++ {
		x.alive[id] = g.join(x.alive[1], id)
	}
	x.whole("three voters")
	l := g.load()
	deck := []struct {
		name string
		do   func(m *machine)
	}{
		{"kill", x.kill},
		{"kill all", x.killAll},
		{"bit", x.bit},
		{"directory lost", x.lost},
		{"replaced", x.replaced},
		{"transfer", func(m *machine) { x.other(m).ok("transfer", strconv.Itoa(m.number)) }},
		{"drain", func(m *machine) { m.ok("drain", "--over", "200ms"); m.ok("revive") }},
	}
	played := 0
	for end := time.Now().Add(time.Duration(minutes) * time.Minute); played < len(deck) || time.Now().Before(end); {
		for _, i := range x.rng.Perm(len(deck)) {
			m := x.alive[x.pick()]
			t.Logf("%s node %d", deck[i].name, m.number)
			x.other(m).ok("await-quorum", "--timeout", "60s") // the others can do without it
			m.ok("await-quorum", "--timeout", "60s")
			deck[i].do(m)
			x.whole(deck[i].name)
			l.goesOn(t, deck[i].name)
			played++
		}
	}
	l.check(g)
	t.Logf("seed %d: %d faults and changes, members %v, %d messages", seed, played, x.ids(), l.sent.Load())
}

func (x *churn) ids() []int { return slices.Sorted(maps.Keys(x.alive)) }

// pick draws a member.
func (x *churn) pick() int { return x.ids()[x.rng.IntN(len(x.alive))] }

// other is a member, not m.
func (x *churn) other(m *machine) *machine {
	for _, id := range x.ids() {
		if id != m.number {
			return x.alive[id]
		}
	}
	return nil
}

// whole waits until all members are voters that are up, and nobody else is one.
func (x *churn) whole(after string) {
	x.t.Helper()
	var want []uint64
	for _, id := range x.ids() {
		want = append(want, uint64(id))
	}
	x.alive[x.ids()[0]].await(after, voters(want...))
}

func (x *churn) kill(m *machine) {
	m.stop(syscall.SIGKILL)
	<-time.After(time.Duration(x.rng.IntN(2000)) * time.Millisecond)
	m.serve()
}

func (x *churn) killAll(*machine) {
	for _, id := range x.ids() {
		x.alive[id].stop(syscall.SIGKILL)
	}
	for _, id := range x.ids() {
		x.alive[id].serve()
	}
}

// bit has a bit of a node's stamp or of its log be another one while it is down.
func (x *churn) bit(m *machine) {
	x.t.Helper()
	m.stop([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[x.rng.IntN(2)])
	path, at := filepath.Join(m.data(), "STAMP"), 30
	if x.rng.IntN(2) == 0 {
		for _, pattern := range []string{"log", "gen-*/log"} {
			if list, err := filepath.Glob(filepath.Join(m.data(), pattern, "*.seg")); err == nil && len(list) > 0 {
				path, at = slices.Min(list), 4096+100
			}
		}
	}
	flip(x.t, path, at)
	m.serve()
}

// lost has a node lose all that it had: another one joins in its place.
func (x *churn) lost(m *machine) {
	x.t.Helper()
	m.stop(syscall.SIGKILL)
	if err := os.RemoveAll(m.data()); err != nil {
		x.t.Fatal(err)
	}
	x.joins(m)
}

// replaced lets another node join in the place of one that runs, which ends by itself when it has left.
func (x *churn) replaced(m *machine) {
	x.t.Helper()
	x.joins(m)
	x.whole(fmt.Sprintf("node %d in the place of node %d", x.next-1, m.number))
	if code := m.ended(); code != 1 {
		x.t.Errorf("node %d, which has left, ends with status %d", m.number, code)
	}
}

func (x *churn) joins(old *machine) {
	x.t.Helper()
	m := x.place(x.next)
	x.next++
	x.replace(x.other(old), m, old.number)
	delete(x.alive, old.number)
	x.alive[m.number] = m
}
