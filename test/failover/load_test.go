package failover

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncemq/oncemq/test/cluster"
)

// load is steady work of two JMS programs: one sends numbers to "in", each in a transaction of its own, and the other moves
// them to "out"; one sends numbers to "plain" without a transaction, and the other takes them.
type load struct {
	t        *testing.T
	from, to *remote
	stop     atomic.Bool
	wg       sync.WaitGroup

	sent, moved, said, heard atomic.Int64 // how often each of the four went on
	rolledBack               atomic.Int64 // transactions
}

// startLoad starts it, with the programs at two nodes.
func startLoad(t *testing.T, w *world, first, second *cluster.Node) *load {
	t.Helper()
	l := &load{t: t, from: connected(t, w.uri(first)), to: connected(t, w.uri(second))}
	for _, r := range []*remote{l.from, l.to} {
		r.do("tx", "session", "transacted")
		r.do("plain", "session", "auto")
	}
	l.wg.Go(func() { l.loop(&l.sent, l.send) })
	l.wg.Go(func() { l.loop(&l.said, l.say) })
	l.wg.Go(func() { l.loop(&l.moved, l.move) })
	l.wg.Go(func() { l.loop(&l.heard, l.hear) })
	t.Cleanup(func() {
		l.stop.Store(true)
		l.wg.Wait()
	})
	return l
}

// loop does something until the load is stopped; went: it counts, ok: it can go on.
func (l *load) loop(count *atomic.Int64, do func() (went, ok bool)) {
	for !l.stop.Load() {
		went, ok := do()
		if !ok {
			l.stop.Store(true)
			return
		}
		if went {
			count.Add(1)
		}
	}
}

// call carries a call out; false: it ended with an exception, which none may do.
func (l *load) call(r *remote, session string, words ...any) ([]string, bool) {
	c := r.start(session, words...)
	if <-c.done; c.class != "" {
		l.t.Errorf("%s: %s", c.line, c.message)
	}
	return c.words, c.class == ""
}

// commit commits what was begun, under a name. It may be rolled back, and then it was: the nodes answer before they go.
func (l *load) commit(r *remote, operations int) (committed, ok bool) {
	name, ok := l.call(r, "tx", "next")
	if !ok {
		return false, false
	}
	if _, ok := l.call(r, "tx", "send", "$oncemq.tx", fmt.Sprintf("%s/%d", name[0], operations)); !ok {
		return false, false
	}
	c := r.start("tx", "commit")
	if <-c.done; c.class == "" {
		return true, true
	}
	if c.class != "TransactionRolledBackException" {
		l.t.Errorf("%s: %s", c.line, c.message)
		return false, false
	}
	l.rolledBack.Add(1)
	outcome, ok := l.call(r, "tx", "outcome", name[0])
	if ok && outcome[0] != "rolled-back" {
		l.t.Errorf("a commit was %s, and the program heard %s", outcome[0], c.message)
	}
	return false, ok
}

func (l *load) send() (went, ok bool) {
	if _, ok := l.call(l.from, "tx", "send", "in", l.sent.Load()); !ok {
		return false, false
	}
	return l.commit(l.from, 1)
}

func (l *load) move() (went, ok bool) {
	m, ok := l.call(l.to, "tx", "receive", "in", 1000)
	if !ok || len(m) == 0 {
		return false, ok
	}
	if _, ok := l.call(l.to, "tx", "send", "out", m[0]); !ok {
		return false, false
	}
	return l.commit(l.to, 2)
}

func (l *load) say() (went, ok bool) {
	_, ok = l.call(l.from, "plain", "send", "plain", l.said.Load())
	return ok, ok
}

func (l *load) hear() (went, ok bool) {
	m, ok := l.call(l.to, "plain", "receive", "plain", 1000)
	return len(m) > 0, ok
}

// goesOn waits until each of the four has gone on so many times more.
func (l *load) goesOn(w *world, times int64) {
	l.t.Helper()
	for _, n := range []*atomic.Int64{&l.sent, &l.moved, &l.said, &l.heard} {
		want := n.Load() + times
		w.until("the load goes on", func() bool { return n.Load() >= want || l.stop.Load() })
	}
	if l.stop.Load() {
		l.t.FailNow() // it has said why
	}
}

// check stops the load and wants each number that was committed once in "out", in its order, and the programs unharmed.
func (l *load) check() {
	l.t.Helper()
	l.stop.Store(true)
	l.wg.Wait()
	sent, moved := l.sent.Load(), l.moved.Load()
	for number := range sent {
		from, text := "out", strconv.FormatInt(number, 10)
		if number >= moved {
			from = "in"
		}
		if m := l.to.do("tx", "receive", from, patience.Milliseconds()/2); len(m) == 0 || m[0] != text {
			l.t.Fatalf("got %q of %s, want %s; %d were committed, %d moved", m, from, text, sent, moved)
		}
	}
	for _, queue := range []string{"in", "out"} {
		l.to.receivesNothing("tx", queue)
	}
	l.t.Logf("%d committed, %d moved, %d said, %d heard, %d rolled back", sent, moved, l.said.Load(), l.heard.Load(), l.rolledBack.Load())
	l.from.leaves()
	l.to.leaves()
}
