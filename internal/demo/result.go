package demo

import (
	"fmt"
	"io"
	"time"
)

// Result is the summary of a run; its JSON is the last line of `oncemq demo --json`.
type Result struct {
	Kills           int    `json:"kills"`
	Pauses          int    `json:"pauses"`
	Sent            int    `json:"sent"`
	Committed       int    `json:"committed"` // transactions
	RolledBack      int    `json:"rolled_back"`
	Unknown         int    `json:"unknown"` // calls that could not tell
	Lost            int    `json:"lost"`
	Duplicated      int    `json:"duplicated"`
	DeadLettered    int    `json:"dead_lettered"`
	OrderViolations int    `json:"order_violations"`
	LedgerSum       int64  `json:"ledger_sum"`
	Failover        Millis `json:"failover_ms"`
	HomeFailover    Millis `json:"home_failover_ms"`
	Pause           Millis `json:"pause_ms"`
}

// result puts counts, verdict and times together.
func (d *Demo) result(v *Verdict) Result {
	c, now := d.checker.Counts(), time.Now()
	return Result{
		Kills: int(d.kills.Load()), Pauses: int(d.pauses.Load()),
		Sent: c.Sent, Committed: c.Committed, RolledBack: c.RolledBack, Unknown: c.Unknown,
		Lost: len(v.Lost), Duplicated: len(v.Duplicated), DeadLettered: len(v.DeadLettered),
		OrderViolations: len(v.OrderViolations), LedgerSum: v.LedgerSum,
		Failover:     d.watch.times(watchFailover, now),
		HomeFailover: d.watch.times(watchHome, now),
		Pause:        d.watch.times(watchPause, now),
	}
}

// WriteTo writes the summary for people.
func (r Result) WriteTo(w io.Writer) (int64, error) {
	times := func(m Millis) string {
		if m.N == 0 {
			return "none"
		}
		return fmt.Sprintf("%d: min %d, median %d, max %d ms", m.N, m.Min, m.Median, m.Max)
	}
	n, err := fmt.Fprintf(w, `
kills %d   pauses %d
sent %d   committed %d   rolled back %d   unknown %d
LOST %d   DUPLICATED %d   dead-lettered %d   out of order %d
ledger sum: %d (must be 0)
leader killed, next commit   %s
home killed, its workers     %s
home stopped, its workers    %s
`, r.Kills, r.Pauses, r.Sent, r.Committed, r.RolledBack, r.Unknown, r.Lost, r.Duplicated, r.DeadLettered, r.OrderViolations,
		r.LedgerSum, times(r.Failover), times(r.HomeFailover), times(r.Pause))
	return int64(n), err
}
