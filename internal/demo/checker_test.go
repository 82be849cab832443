package demo

import (
	"strings"
	"testing"
)

// story plays a faultless run over n orders of one producer into c, but for the
// steps that skip names.
func story(c *Checker, n int, skip func(number int, step string) bool) {
	receipt := 0
	for i := 1; i <= n; i++ {
		id := OrderID{Producer: 0, Number: i}
		step := func(name string, do func()) {
			if skip == nil || !skip(i, name) {
				do()
			}
		}
		c.Sending(id)
		c.Sent(id, Done)
		step("received", func() { c.Received(0, id, 1) })
		step("decided", func() { c.Decided(id, Done) })
		step("debit", func() { c.Ledger(Debit, id, 7) })
		step("credit", func() { c.Ledger(Credit, id, -7) })
		step("number", func() { receipt++ })
		step("receipt", func() { c.Receipt(0, receipt, id) })
	}
}

func TestCheckerPassesAFaultlessRun(t *testing.T) {
	c := NewChecker(1, 1)
	story(c, 100, nil)
	v := c.Verdict()
	if !v.OK() || c.Counts() != (CheckerCounts{Sent: 100, Committed: 100}) {
		t.Fatalf("%+v %+v", v, c.Counts())
	}
}

func TestCheckerPassesWhatFailuresMayDo(t *testing.T) {
	c := NewChecker(2, 2)
	story(c, 3, nil)
	// Rolled back, handed out again (attempt 2) to the other worker, committed there.
	again := OrderID{Number: 4}
	c.Sending(again)
	c.Sent(again, Done)
	c.Received(0, again, 1)
	c.Decided(again, NotDone)
	c.Received(1, again, 2)
	c.Decided(again, Done)
	c.Ledger(Debit, again, 1)
	c.Ledger(Credit, again, -1)
	c.Receipt(1, 1, again)
	// A send with an unknown outcome, not stored; another one, stored.
	lost, kept := OrderID{Producer: 1, Number: 1}, OrderID{Producer: 1, Number: 2}
	c.Sending(lost)
	c.Sending(kept)
	c.Sent(lost, Unknown)
	c.Sent(kept, Unknown)
	c.Received(1, kept, 1)
	c.Decided(kept, Unknown)
	c.Ledger(Debit, kept, 1)
	c.Ledger(Credit, kept, -1)
	c.Receipt(1, 2, kept)
	if v := c.Verdict(); !v.OK() {
		t.Fatalf("%+v", v)
	}
}

// TestCheckerFindsFaults: each fault put into a run of 10 orders must be found, named,
// and be the only one.
func TestCheckerFindsFaults(t *testing.T) {
	at := func(number int, steps ...string) func(int, string) bool {
		return func(n int, step string) bool {
			return n == number && (steps == nil || strings.Contains(strings.Join(steps, " "), step))
		}
	}
	five := OrderID{Number: 5}
	for _, tc := range []struct {
		name  string
		skip  func(int, string) bool
		extra func(*Checker)
		list  func(Verdict) []string // the only one with an entry
		says  string
		sum   int64
	}{
		{name: "order lost", skip: at(5), list: lost, says: "order 1/5: its send was reported accepted"},
		{name: "effects of a commit lost", skip: at(5, "debit", "credit", "receipt", "number"), list: lost, says: "order 1/5: its transaction was reported committed"},
		{name: "debit lost", skip: at(5, "debit"), list: lost, says: "order 1/5: its transaction took effect in part: without the debit", sum: -7},
		{name: "both ledger entries lost", skip: at(5, "debit", "credit"), list: lost, says: "without the debit and the credit"},
		{name: "credit twice", extra: func(c *Checker) { c.Ledger(Credit, five, -7) }, list: duplicated, says: "order 1/5: took effect 2 times", sum: -7},
		{name: "both entries twice", extra: func(c *Checker) { c.Ledger(Credit, five, -7); c.Ledger(Debit, five, 7) }, list: duplicated, says: "1 receipts, 2 debits, 2 credits"},
		{name: "receipt twice", extra: func(c *Checker) { c.Receipt(0, 11, five) }, list: duplicated, says: "order 1/5: took effect 2 times"},
		{name: "committed twice", extra: func(c *Checker) { c.Decided(five, Done) }, list: duplicated, says: "2 transactions"},
		{name: "rolled back, yet there", skip: at(5, "decided"), extra: func(c *Checker) { c.Decided(five, NotDone) }, list: duplicated, says: "reported rolled back"},
		{name: "refused, yet there", extra: func(c *Checker) { c.Sent(five, NotDone) }, list: duplicated, says: "reported refused"},
		{name: "receipt of nothing", extra: func(c *Checker) { c.Receipt(0, 11, OrderID{Number: 11}) }, list: duplicated, says: "never sent"},
		{name: "entry of nothing", extra: func(c *Checker) { c.Ledger(Debit, OrderID{Producer: -1}, 0) }, list: duplicated, says: "never sent"},
		{name: "order of nothing", extra: func(c *Checker) { c.Received(0, OrderID{Producer: 3, Number: 1}, 1) }, list: duplicated, says: "never sent"},
		{name: "dead letter", skip: at(5), extra: func(c *Checker) { c.DeadLetter("DLQ.orders", five, true) }, list: deadLettered, says: "order 1/5 in DLQ.orders"},
		{name: "dead letter of nothing", extra: func(c *Checker) { c.DeadLetter("DLQ.orders", OrderID{}, false) }, list: deadLettered, says: "DLQ.orders"},
		{name: "first deliveries fall", extra: func(c *Checker) { c.Received(0, five, 1) }, list: violations, says: "worker 1 received order 1/5 for the first time after order 1/10"},
		{name: "ledger off", extra: func(c *Checker) { c.Sent(five, Done); c.mu.Lock(); c.ledgerSum += 3; c.mu.Unlock() }, sum: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewChecker(1, 1)
			story(c, 10, tc.skip)
			if tc.extra != nil {
				tc.extra(c)
			}
			v := c.Verdict()
			if v.OK() {
				t.Fatal("not found")
			}
			if v.LedgerSum != tc.sum {
				t.Errorf("ledger sum %d, want %d", v.LedgerSum, tc.sum)
			}
			found := len(v.Lost) + len(v.Duplicated) + len(v.DeadLettered) + len(v.OrderViolations)
			if tc.list == nil {
				if found != 0 {
					t.Errorf("further faults: %+v", v)
				}
				return
			}
			if got := tc.list(v); found != 1 || len(got) != 1 || !strings.Contains(got[0], tc.says) {
				t.Errorf("got %+v, want one that says %q", v, tc.says)
			}
			report := &strings.Builder{}
			if v.Report(report); !strings.Contains(report.String(), tc.says) {
				t.Errorf("report %q doesn't name it", report)
			}
		})
	}
}

func lost(v Verdict) []string         { return v.Lost }
func duplicated(v Verdict) []string   { return v.Duplicated }
func deadLettered(v Verdict) []string { return v.DeadLettered }
func violations(v Verdict) []string   { return v.OrderViolations }

// TestCheckerFindsReceiptsOutOfOrder: a gap and a fall, each with nothing else wrong.
func TestCheckerFindsReceiptsOutOfOrder(t *testing.T) {
	for _, numbers := range [][]int{{1, 2, 4}, {1, 3, 2}, {2}} {
		c := NewChecker(1, 1)
		for i, n := range numbers {
			id := OrderID{Number: i + 1}
			c.Sending(id)
			c.Sent(id, Done)
			c.Decided(id, Done)
			c.Ledger(Debit, id, 1)
			c.Ledger(Credit, id, -1)
			c.Receipt(0, n, id)
		}
		if v := c.Verdict(); len(v.OrderViolations) == 0 || len(v.Lost)+len(v.Duplicated) != 0 {
			t.Errorf("receipts %v: %+v, want an order violation", numbers, v)
		}
	}
}

func TestReportNamesAtMostFifty(t *testing.T) {
	c := NewChecker(1, 1)
	story(c, 200, func(_ int, _ string) bool { return true })
	v, w := c.Verdict(), &strings.Builder{}
	v.Report(w)
	if len(v.Lost) != 200 || strings.Count(w.String(), "LOST") != maxNamed+1 || !strings.Contains(w.String(), "150 more") {
		t.Fatalf("%d lost, report:\n%s", len(v.Lost), w)
	}
}
