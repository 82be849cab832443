package demo

import (
	"fmt"
	"sync"
)

// OrderID names an order for ever: the producer and the producer's own number.
type OrderID struct {
	Producer int // 0 and up
	Number   int // 1 and up, unbroken
}

// String is what reports call the order.
func (id OrderID) String() string { return fmt.Sprintf("order %d/%d", id.Producer+1, id.Number) }

// Outcome is what a program was told about a send or a commit.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota // told nothing, or that nobody knows
	Done                   // accepted, committed
	NotDone                // refused, rolled back
)

// Side is one of the two ledger queues.
type Side uint8

// The sides: Debit gets +x, Credit gets -x.
const (
	Debit Side = iota
	Credit
)

// fate is what the programs saw of one order. Counters stop at 255.
type fate struct {
	sent     Outcome
	dead     bool
	received uint8 // receipts consumed
	ledger   [2]uint8
	commits  uint8 // transactions over it that were reported committed
	unknowns uint8 // transactions over it whose outcome nobody learned
}

// Checker collects what the programs saw and judges it. It is safe for concurrent
// use; its memory is a few bytes for each order.
type Checker struct {
	mu         sync.Mutex
	orders     [][]fate      // by producer, by number-1
	receipts   []int         // last receipt number seen of each worker
	first      [][]int       // [worker][producer]: highest number seen with attempt 1
	ledgerSum  int64         // over both sides
	violations []string      // of order
	phantoms   []string      // effects of orders that nobody sent
	dead       []string      // dead letters
	counts     CheckerCounts // running
}

// CheckerCounts are the running totals.
type CheckerCounts struct {
	Sent       int // sends reported accepted
	Committed  int // transactions reported committed
	RolledBack int // transactions reported rolled back
	Unknown    int // outcomes that a call could not report, even if they were learned later
	Duplicated int // effects too many, so far
	Violations int // of order, so far
}

// NewChecker returns a checker for numbered producers and workers.
func NewChecker(producers, workers int) *Checker {
	c := &Checker{orders: make([][]fate, producers), receipts: make([]int, workers), first: make([][]int, workers)}
	for w := range c.first {
		c.first[w] = make([]int, producers)
	}
	return c
}

// Sending is called before an order is sent for the first time: it may be stored
// from now on.
func (c *Checker) Sending(id OrderID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders[id.Producer] = append(c.orders[id.Producer], fate{})
	if len(c.orders[id.Producer]) != id.Number {
		panic(fmt.Sprintf("demo: producer %d sends number %d after %d", id.Producer, id.Number, len(c.orders[id.Producer])-1))
	}
}

// Sent is called with what the producer was told in the end.
func (c *Checker) Sent(id OrderID, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders[id.Producer][id.Number-1].sent = o
	if o == Done {
		c.counts.Sent++
	}
}

// SawUnknown counts a call that ended without being able to tell the outcome.
func (c *Checker) SawUnknown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Unknown++
}

// Received is called for each order handed to a worker, with the delivery's attempt
// (1 the first time that it is handed to anybody).
func (c *Checker) Received(worker int, id OrderID, attempt uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(id) == nil {
		c.phantom("worker %d received %v, which was never sent", worker+1, id)
		return
	}
	if attempt != 1 {
		return
	}
	if last := c.first[worker][id.Producer]; id.Number <= last {
		c.violate("worker %d received %v for the first time after order %d/%d", worker+1, id, id.Producer+1, last)
		return
	}
	c.first[worker][id.Producer] = id.Number
}

// Decided is called with what a worker learned about its transaction over id.
func (c *Checker) Decided(id OrderID, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.find(id)
	switch o {
	case Done:
		c.counts.Committed++
		if f != nil {
			bump(&f.commits)
			c.counts.Duplicated += over(f.commits)
		}
	case NotDone:
		c.counts.RolledBack++
	case Unknown:
		if f != nil {
			bump(&f.unknowns)
		}
	}
}

// Receipt is called for each receipt whose consumption was reported committed, in
// the order received.
func (c *Checker) Receipt(worker, number int, id OrderID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.receipts[worker]; number != last+1 {
		c.violate("receipt %d of worker %d came after receipt %d", number, worker+1, last)
	}
	c.receipts[worker] = max(c.receipts[worker], number)
	f := c.find(id)
	if f == nil {
		c.phantom("receipt %d of worker %d for %v, which was never sent", number, worker+1, id)
		return
	}
	bump(&f.received)
	c.counts.Duplicated += over(f.received)
}

// Ledger is called for each ledger entry whose consumption was reported committed.
func (c *Checker) Ledger(side Side, id OrderID, amount int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledgerSum += amount
	f := c.find(id)
	if f == nil {
		c.phantom("ledger entry of %+d for %v, which was never sent", amount, id)
		return
	}
	bump(&f.ledger[side])
}

// DeadLetter is called for each message found in a dead-letter queue. id is the
// order that it is about; ok is false where that can't be read.
func (c *Checker) DeadLetter(queue string, id OrderID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.find(id); ok && f != nil {
		f.dead = true
	}
	c.dead = append(c.dead, fmt.Sprintf("%v in %s", id, queue))
}

// Counts returns the running totals.
func (c *Checker) Counts() CheckerCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

func (c *Checker) find(id OrderID) *fate {
	if id.Producer < 0 || id.Producer >= len(c.orders) || id.Number < 1 || id.Number > len(c.orders[id.Producer]) {
		return nil
	}
	return &c.orders[id.Producer][id.Number-1]
}

func (c *Checker) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
	c.counts.Violations++
}

func (c *Checker) phantom(format string, args ...any) {
	c.phantoms = append(c.phantoms, fmt.Sprintf(format, args...))
	c.counts.Duplicated++
}

// bump counts without going round.
func bump(n *uint8) {
	if *n < 255 {
		*n++
	}
}

// over is 1 for a count just raised beyond the one that is right.
func over(n uint8) int {
	if n > 1 {
		return 1
	}
	return 0
}
