package demo

import (
	"fmt"
	"io"
	"strings"
)

// Verdict is the checker's judgement over everything it was told. Each list names
// what is wrong, one line each.
type Verdict struct {
	// Lost: accepted orders without a receipt, reported commits without their effects.
	Lost []string
	// Duplicated: effects too many: a second receipt, ledger entry or commit for one
	// order, and effects of what was refused, rolled back or never sent.
	Duplicated []string
	// DeadLettered: messages in dead-letter queues; this workload gives no reason for any.
	DeadLettered []string
	// OrderViolations: receipts of a worker with a gap or out of order; first deliveries
	// of one producer falling at one worker.
	OrderViolations []string
	// LedgerSum must be 0.
	LedgerSum int64
}

// Verdict judges. Call it when every queue has been emptied.
func (c *Checker) Verdict() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := Verdict{
		Duplicated:      append([]string(nil), c.phantoms...),
		DeadLettered:    append([]string(nil), c.dead...),
		OrderViolations: append([]string(nil), c.violations...),
		LedgerSum:       c.ledgerSum,
	}
	for p := range c.orders {
		for i := range c.orders[p] {
			f, id := &c.orders[p][i], OrderID{Producer: p, Number: i + 1}
			if why := f.missing(); why != "" && !f.dead {
				v.Lost = append(v.Lost, fmt.Sprintf("%v: %s", id, why))
			}
			if why := f.surplus(); why != "" {
				v.Duplicated = append(v.Duplicated, fmt.Sprintf("%v: %s", id, why))
			}
		}
	}
	return v
}

// missing says which effect of the order is missing, if any.
func (f *fate) missing() string {
	switch {
	case f.received > 0 || f.ledger[Debit] > 0 || f.ledger[Credit] > 0:
		// Something of its transaction took effect, so all of it must have.
		return f.parts()
	case f.commits > 0:
		return "its transaction was reported committed, but none of its effects is there"
	case f.sent == Done:
		return "its send was reported accepted, but it has no receipt"
	}
	return ""
}

// parts says which of a transaction's three messages is missing.
func (f *fate) parts() string {
	var gone []string
	if f.received == 0 {
		gone = append(gone, "the receipt")
	}
	if f.ledger[Debit] == 0 {
		gone = append(gone, "the debit")
	}
	if f.ledger[Credit] == 0 {
		gone = append(gone, "the credit")
	}
	if gone == nil {
		return ""
	}
	return "its transaction took effect in part: without " + strings.Join(gone, " and ")
}

// surplus says which effect of the order is too many, if any.
func (f *fate) surplus() string {
	effects := max(f.received, f.ledger[Debit], f.ledger[Credit])
	switch {
	case effects > 1:
		return fmt.Sprintf("took effect %d times (%d receipts, %d debits, %d credits)", effects, f.received, f.ledger[Debit], f.ledger[Credit])
	case f.commits > 1:
		return fmt.Sprintf("%d transactions over it were reported committed", f.commits)
	case effects == 1 && f.sent == NotDone:
		return "took effect, though its send was reported refused"
	case effects == 1 && f.commits == 0 && f.unknowns == 0:
		return "took effect, though every transaction over it was reported rolled back"
	}
	return ""
}

// OK reports whether every check passed.
func (v *Verdict) OK() bool {
	return len(v.Lost)+len(v.Duplicated)+len(v.DeadLettered)+len(v.OrderViolations) == 0 && v.LedgerSum == 0
}

// maxNamed bounds how many ids of one fault are named.
const maxNamed = 50

// Report names on w what is wrong, and writes nothing where nothing is.
func (v *Verdict) Report(w io.Writer) {
	for _, fault := range []struct {
		name string
		ids  []string
	}{
		{"LOST", v.Lost}, {"DUPLICATED", v.Duplicated}, {"DEAD-LETTERED", v.DeadLettered}, {"ORDER VIOLATED", v.OrderViolations},
	} {
		for i, id := range fault.ids {
			if i == maxNamed {
				fmt.Fprintf(w, "%s ... and %d more\n", fault.name, len(fault.ids)-i)
				break
			}
			fmt.Fprintf(w, "%s %s\n", fault.name, id)
		}
	}
	if v.LedgerSum != 0 {
		fmt.Fprintf(w, "LEDGER sums to %d, not to 0\n", v.LedgerSum)
	}
}
