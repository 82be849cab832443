package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/store"
)

// row is one line of the comparison.
type row struct {
	name string
	run  func(ctx context.Context, c Config) (Result, error)
	set  func(c *Config)
	// at is where clients connect: "leader", "follower", or "" for all nodes.
	at string
}

// The rows, in the order in which each round runs them.
const (
	raw1      = "raw, 1 writer"
	raw16     = "raw, 16 writers"
	raw256    = "raw, 256 writers"
	send256   = "send, 256 outstanding, 4 connections"
	moveHome  = "transfer, 16 sessions, 4 connections, at the leader"
	moveAbout = "transfer, 16 sessions, 4 connections, at a follower"
	sendHome  = "send, waiting for each, at the leader"
	sendAbout = "send, waiting for each, at a follower"
)

var rows = []row{
	{name: raw1, run: Raw, set: func(c *Config) { c.Outstanding = 1 }},
	{name: sendHome, run: Send, set: func(c *Config) { c.Outstanding, c.Connections = 1, 1 }, at: "leader"},
	{name: sendAbout, run: Send, set: func(c *Config) { c.Outstanding, c.Connections = 1, 1 }, at: "follower"},
	{name: raw16, run: Raw, set: func(c *Config) { c.Outstanding = 16 }},
	{name: moveHome, run: Transfer, set: func(c *Config) { c.Sessions, c.Connections = 16, 4 }, at: "leader"},
	{name: moveAbout, run: Transfer, set: func(c *Config) { c.Sessions, c.Connections = 16, 4 }, at: "follower"},
	{name: raw256, run: Raw, set: func(c *Config) { c.Outstanding = 256 }},
	{name: send256, run: Send, set: func(c *Config) { c.Outstanding, c.Connections = 256, 4 }},
}

// Line is one row of a comparison: medians over the rounds.
type Line struct {
	Result
	// Target is what the row is held to, in words, and Reached what it reached of it in
	// the same unit; empty where the row has no target.
	Target  string `json:"target"`
	Reached string `json:"reached"`
	OK      bool   `json:"ok"`
}

// Comparison is the outcome of Compare.
type Comparison struct {
	// SyncUS is d: the median of a 4 KB overwrite and fdatasync by one writer.
	SyncUS int64  `json:"sync_us"`
	Rounds int    `json:"rounds"`
	Lines  []Line `json:"lines"`
}

// Compare runs all rows, interleaved, rounds times against cluster, and judges the
// medians. d is measured in dir, before each round, while the cluster idles.
// Progress goes to out.
func Compare(ctx context.Context, cluster *localcluster.Cluster, dir string, c Config, rounds int, out io.Writer) (Comparison, error) {
	results := map[string][]Result{}
	var syncs []int64
	for round := range rounds {
		d, err := store.MeasureSync(dir)
		if err != nil {
			return Comparison{}, fmt.Errorf("measuring the disk: %w", err)
		}
		syncs = append(syncs, d.Microseconds())
		fmt.Fprintf(out, "round %d of %d: d %v\n", round+1, rounds, d)
		for _, r := range rows {
			res, err := r.measure(ctx, cluster, c)
			if err != nil {
				return Comparison{}, fmt.Errorf("%s: %w", r.name, err)
			}
			results[r.name] = append(results[r.name], res)
			fmt.Fprintf(out, "  %-51s %9.0f/s  p50 %6d us  p99 %6d us  errors %d\n", r.name, res.PerS, res.P50, res.P99, res.Errors)
		}
	}
	return judge(syncs, results), nil
}

// measure runs one row.
func (r row) measure(ctx context.Context, cluster *localcluster.Cluster, c Config) (Result, error) {
	leader, err := cluster.Leader(ctx)
	if err != nil {
		return Result{}, err
	}
	c.URLs, c.Admin, c.Queue = "", nil, "bench"
	var urls []string
	for _, n := range cluster.Nodes() {
		c.Admin = append(c.Admin, n.Admin)
		if r.at == "" || (r.at == "leader") == (n == leader) {
			urls = append(urls, "amqp://"+n.AMQP)
		}
	}
	c.URLs = strings.Join(urls, ",")
	r.set(&c)
	res, err := r.run(ctx, c)
	if err != nil {
		return Result{}, err
	}
	err = forget(ctx, c.Admin, c.Queue, c.Queue+".to")
	time.Sleep(settle)
	return res, err
}

// judge holds medians against the targets.
func judge(syncs []int64, results map[string][]Result) Comparison {
	slices.Sort(syncs)
	cmp := Comparison{SyncUS: syncs[len(syncs)/2], Rounds: len(syncs)}
	med := map[string]Result{}
	for name, rs := range results {
		med[name] = median(name, rs)
	}
	d := float64(cmp.SyncUS) // µs
	line := func(name, target string, reached, bound float64, atMost bool, unit string) {
		l := Line{Result: med[name], Target: target, Reached: fmt.Sprintf("%.2f%s", reached, unit), OK: reached >= bound}
		if atMost {
			l.OK = reached <= bound
		}
		cmp.Lines = append(cmp.Lines, l)
	}
	pairs := func(a, b string, of func(r Result) float64) float64 { return medianRatio(results[a], results[b], of) }
	rate := func(r Result) float64 { return r.PerS }
	wait := func(r Result) float64 { return float64(r.P50) }
	one := float64(med[raw1].P50)
	line(raw1, fmt.Sprintf("p50 <= 2.5 d + 0.4 ms = %.2f ms", (2.5*d+400)/1000), one/1000, (2.5*d+400)/1000, true, " ms")
	line(raw16, fmt.Sprintf(">= min(1.2/d, 6000) = %.0f/s", min(1.2e6/d, 6000)), med[raw16].PerS, min(1.2e6/d, 6000), false, "/s")
	line(raw256, ">= 32000/s where d <= 0.4 ms", med[raw256].PerS, 32000, false, "/s")
	line(send256, ">= 0.4 of raw with 256 writers", pairs(send256, raw256, rate), 0.4, false, "")
	line(moveHome, ">= 0.6 of raw with 16 writers", pairs(moveHome, raw16, rate), 0.6, false, "")
	line(moveAbout, "", pairs(moveAbout, raw16, rate), 0, false, " of raw with 16 writers")
	line(sendHome, "p50 <= 1.8 of raw with 1 writer", pairs(sendHome, raw1, wait), 1.8, true, "")
	line(sendAbout, "p50 <= 2.3 of raw with 1 writer", pairs(sendAbout, raw1, wait), 2.3, true, "")
	return cmp
}

// medianRatio is the median, over the rounds, of a's number to b's: what drifts on the machine is in both.
func medianRatio(a, b []Result, of func(Result) float64) float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if d := of(b[i]); d > 0 {
			all = append(all, of(a[i])/d)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// median takes the median of each number by itself; errors are summed.
func median(name string, rs []Result) Result {
	res := Result{Name: name}
	if len(rs) == 0 {
		return res
	}
	var rates []float64
	var p50s, p99s []int64
	for _, r := range rs {
		rates, p50s, p99s = append(rates, r.PerS), append(p50s, r.P50), append(p99s, r.P99)
		res.Errors += r.Errors
	}
	slices.Sort(rates)
	slices.Sort(p50s)
	slices.Sort(p99s)
	res.PerS, res.P50, res.P99 = rates[len(rs)/2], p50s[len(rs)/2], p99s[len(rs)/2]
	return res
}

// Missed is how many targets were missed.
func (c Comparison) Missed() (n int) {
	for _, l := range c.Lines {
		if !l.OK {
			n++
		}
	}
	return n
}

// Errors is how many operations failed in all.
func (c Comparison) Errors() (n int) {
	for _, l := range c.Lines {
		n += l.Errors
	}
	return n
}

// Write writes the comparison as a table.
func (c Comparison) Write(w io.Writer) error {
	fmt.Fprintf(w, "\nd (4 KB overwrite + fdatasync, one writer, p50): %d us; medians of %d rounds\n\n", c.SyncUS, c.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tper s\tp50 us\tp99 us\terrors\ttarget\treached\t")
	for _, l := range c.Lines {
		verdict := "ok"
		switch {
		case l.Target == "":
			verdict = ""
		case !l.OK:
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%d\t%s\t%s\t%s\n", l.Name, l.PerS, l.P50, l.P99, l.Errors, l.Target, l.Reached, verdict)
	}
	return t.Flush()
}

// WriteResult writes one run as a table.
func WriteResult(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tper s\tp50 us\tp99 us\terrors")
	fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%d\n", r.Name, r.PerS, r.P50, r.P99, r.Errors)
	return t.Flush()
}
