package failover

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come.
	patience = 60 * time.Second
	// quiet is how long a consumer waits, in milliseconds, where nothing may come: its drain is what shows that.
	quiet = 200
)

// remote is a JMS program with one connection, which does what it is told. One goroutine may use each of its sessions.
type remote struct {
	t    *testing.T
	m    *machine
	name string

	mu     sync.Mutex
	events []string
	change chan struct{} // closed and made anew at each event
}

// call is a call of the program that is under way, or has ended.
type call struct {
	r    *remote
	line string
	done chan struct{}
	// words are its result behind "ok", or nil; class and message are those of its exception, or empty.
	words          []string
	class, message string
}

// newRemote is a program that has no connection before connect.
func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{t: t, m: theJVM(t), change: make(chan struct{})}
	r.m.program(r)
	t.Cleanup(func() {
		if t.Failed() {
			r.start("main", "close") // or what the test had it do goes on, to no end
			t.Logf("events of the JMS program: %q", r.events)
		}
	})
	return r
}

// connected is a program with a connection.
func connected(t *testing.T, uri string) *remote {
	t.Helper()
	r := newRemote(t)
	r.do("main", "connect", uri)
	return r
}

// event notes what happened to the connection.
func (r *remote) event(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, what)
	close(r.change)
	r.change = make(chan struct{})
}

// start begins a call on a session and doesn't wait for it.
func (r *remote) start(session string, words ...any) *call {
	r.t.Helper()
	c := &call{r: r, line: strings.TrimSpace(session + " " + fmt.Sprintln(words...)), done: make(chan struct{})}
	if err := r.m.start(c); err != nil {
		r.t.Fatalf("%s: %v", c.line, err)
	}
	return c
}

// end takes the answer.
func (c *call) end(answer string) {
	if words := strings.Fields(answer); words[0] == "ok" {
		c.words = words[1:]
	} else {
		c.class, c.message = words[1], answer
	}
	close(c.done)
}

// wait waits for the end of a call, whatever it is.
func (c *call) wait() *call {
	c.r.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.r.t.Fatalf("%s: no answer within %v", c.line, patience)
	}
	return c
}

// ok waits for the result of a call that has to work.
func (c *call) ok() []string {
	c.r.t.Helper()
	if c.wait(); c.class != "" {
		c.r.t.Fatalf("%s: %s", c.line, c.message)
	}
	return c.words
}

// rolledBack waits for a call's TransactionRolledBackException.
func (c *call) rolledBack() {
	c.r.t.Helper()
	if c.wait(); c.class != "TransactionRolledBackException" {
		c.r.t.Fatalf("%s: got %q %q, want TransactionRolledBackException", c.line, c.class, c.message)
	}
}

// under reports that a call hasn't ended.
func (c *call) under() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// do is a call that has to work, from start to end.
func (r *remote) do(session string, words ...any) []string {
	r.t.Helper()
	return r.start(session, words...).ok()
}

// receives wants the next message of a queue, and what its count is: 1 at its first delivery, 2 and more where it was
// delivered before.
func (r *remote) receives(session, queue, text string, redelivered bool) {
	r.t.Helper()
	words := r.do(session, "receive", queue, patience.Milliseconds()/2)
	if len(words) != 2 || words[0] != text || (words[1] != "1") != redelivered {
		r.t.Fatalf("%s got %q of %s, want %s, redelivered %v", session, words, queue, text, redelivered)
	}
}

// receivesNothing wants a queue to have nothing for a session.
func (r *remote) receivesNothing(session, queue string) {
	r.t.Helper()
	if words := r.do(session, "receive", queue, quiet); len(words) > 0 {
		r.t.Fatalf("%s got %q of %s, want nothing", session, words, queue)
	}
}

// happened counts the events that begin with a word.
func (r *remote) happened(word string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count(word)
}

func (r *remote) count(word string) (n int) {
	for _, e := range r.events {
		if strings.HasPrefix(e, word) {
			n++
		}
	}
	return n
}

// await waits until events of a kind have come n times since the start.
func (r *remote) await(word string, n int) {
	r.t.Helper()
	late := time.After(patience)
	for {
		r.mu.Lock()
		change, got := r.change, r.count(word)
		r.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-change:
		case <-late:
			r.t.Fatalf("the event %q came %d times within %v, want %d", word, got, patience, n)
		}
	}
}

// leaves wants that no link or session was closed from outside and the connection never given up, and closes it, so that its
// consumers take nothing any more. The ExceptionListener is no measure: it hears of each transacted send whose answer is lost
// with a connection, for those are asynchronous.
func (r *remote) leaves() {
	r.t.Helper()
	for _, word := range []string{"closed", "failed"} {
		if r.happened(word) > 0 {
			r.t.Errorf("the program heard of %q", word)
		}
	}
	r.do("main", "close")
}
