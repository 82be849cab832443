package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Backlog is the outcome of RunBacklog. Sizes are bytes.
type Backlog struct {
	Messages int `json:"messages"`
	Queues   int `json:"queues"`
	Size     int `json:"size"`
	// SyncUS is d (MeasureSync), DiskBytesPerS the rate of plain writes (MeasureWrite), both before the node ran.
	SyncUS        int64   `json:"sync_us"`
	DiskBytesPerS float64 `json:"disk_bytes_per_s"`

	Idle    Usage `json:"idle"`    // at the beginning
	Garbage Usage `json:"garbage"` // at the end of the growth, as it happened to be
	Full    Usage `json:"full"`    // then, after a collection
	After   Usage `json:"after"`   // when all was deleted

	Phases   []Phase   `json:"phases"`
	Restarts []Restart `json:"restarts"`
	Deep     Result    `json:"deep"`
	Empty    Result    `json:"empty"`
	Ratio    float64   `json:"ratio"` // the median of Deep to Empty, round by round
}

// Phase is one part of a run.
type Phase struct {
	Name     string  `json:"name"`
	Messages int     `json:"messages"` // that came or went
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_s"`    // the node's
	GCCPU    float64 `json:"gc_cpu_s"` // of it, for collections (Usage)
	Bench    float64 `json:"bench_cpu_s"`
	Others   float64 `json:"others"` // share of the machine's processors that neither the node nor the benchmark used
	Peak     int64   `json:"resident"`
	Disk     int64   `json:"disk"`
	Probe    Probe   `json:"probe"`
}

// String is one line.
func (p Phase) String() string {
	return fmt.Sprintf("%d in %.1f s (%.0f/s), CPU %.1f s (%.2f us a message, GC %.1f %%), others %.0f %%, resident %d MB, disk %d MB; probe p50 %.1f ms p99.9 %.1f ms max %.1f ms (%d sends, %d errors)",
		p.Messages, p.Seconds, float64(p.Messages)/p.Seconds, p.CPU, p.CPU*1e6/float64(max(p.Messages, 1)), p.gcShare(), 100*p.Others, p.Peak>>20, p.Disk>>20,
		float64(p.Probe.P50)/1000, float64(p.Probe.P999)/1000, float64(p.Probe.Max)/1000, p.Probe.Sends, p.Probe.Errors)
}

// gcShare is the collections' part of the node's processor time in percent.
func (p Phase) gcShare() float64 {
	if p.CPU <= 0 {
		return 0
	}
	return 100 * p.GCCPU / p.CPU
}

// Restart is one restart of the node.
type Restart struct {
	Messages int    `json:"messages"`
	After    string `json:"after"` // the signal that ended it
	// StopS is how long it took to end; ReadyS and DeliveryS are seconds from the start of the process until it was ready and
	// until a client that then connected had its first message.
	StopS     float64 `json:"stop_s"`
	ReadyS    float64 `json:"ready_s"`
	DeliveryS float64 `json:"delivery_s"`
	CPU       float64 `json:"cpu_s"` // of the new process until then
}

// BytesPerMessage is what a message costs: live heap, and resident memory with all garbage, both beyond the idle node's.
func (r Backlog) BytesPerMessage() (live, resident float64) {
	n := float64(r.Messages)
	return float64(r.Full.HeapLive-r.Idle.HeapLive) / n, float64(r.Garbage.Resident-r.Idle.Resident) / n
}

// target is one line of the verdict.
type target struct {
	what  string
	got   float64
	unit  string
	bound float64
	least bool // the bound is the least allowed, else the most
}

func (t target) ok() bool { return t.least && t.got >= t.bound || !t.least && t.got <= t.bound }

// targets are what the figures are held to.
func (r Backlog) targets() (all []target) {
	add := func(what string, got float64, unit string, bound float64) {
		all = append(all, target{what: what, got: got, unit: unit, bound: bound})
	}
	live, resident := r.BytesPerMessage()
	add("live heap a message", live, "bytes", 400)
	add("resident memory a message, garbage and caches included", resident, "bytes", 400)
	for _, s := range sortedRestarts(r.Restarts) {
		bound := 3.0
		if s.Messages > 1_000_000 {
			bound = 15
		}
		add(fmt.Sprintf("restart with %d after %q, to the first delivery", s.Messages, s.After), s.DeliveryS, "s", bound)
	}
	if r.Ratio > 0 {
		all = append(all, target{what: "sends into the deep queue, of those into an empty one", got: r.Ratio, bound: 0.8, least: true})
	}
	for _, p := range r.Phases {
		if p.Messages > 0 && p.CPU > 10 {
			add(p.Name+": collections, of the node's CPU", p.gcShare(), "%", 10)
		}
		add(p.Name+": probe p99.9", float64(p.Probe.P999)/1000, "ms", 50)
		add(p.Name+": probe max", float64(p.Probe.Max)/1000, "ms", 1000)
		add(p.Name+": probe errors", float64(p.Probe.Errors), "", 0)
	}
	return all
}

// Missed is how many targets were missed.
func (r Backlog) Missed() (n int) {
	for _, t := range r.targets() {
		if !t.ok() {
			n++
		}
	}
	return n
}

// Write writes the figures as tables.
func (r Backlog) Write(w io.Writer) error {
	fmt.Fprintf(w, "%d messages of %d bytes in %d queues on a lone node; the disk alone: d %d us, writes %.0f MB/s\n\n",
		r.Messages, r.Size, r.Queues, r.SyncUS, r.DiskBytesPerS/1e6)
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s: %s\n", p.Name, p)
	}
	for _, s := range sortedRestarts(r.Restarts) {
		fmt.Fprintf(w, "restart with %d after %q: stop %.2f s, ready %.2f s, first delivery %.2f s, CPU %.2f s\n", s.Messages, s.After, s.StopS, s.ReadyS, s.DeliveryS, s.CPU)
	}
	fmt.Fprintf(w, "sends: deep %.0f/s, empty %.0f/s\n", r.Deep.PerS, r.Empty.PerS)
	for _, m := range []struct {
		when string
		Usage
	}{{"idle", r.Idle}, {"full", r.Garbage}, {"full, collected", r.Full}, {"all deleted", r.After}} {
		fmt.Fprintf(w, "memory, %s: heap live %d MB, heap %d MB, runtime %d MB, resident %d MB\n", m.when, m.HeapLive>>20, m.Heap>>20, m.Runtime>>20, m.Resident>>20)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\treached\ttarget\t")
	for _, l := range r.targets() {
		verdict, sign := "ok", "<="
		if l.least {
			sign = ">="
		}
		if !l.ok() {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.2f %s\t%s %g\t%s\n", l.what, l.got, l.unit, sign, l.bound, verdict)
	}
	return t.Flush()
}
