package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/oncemq/oncemq/internal/admin"
)

// UsagePattern is where the admin port of a node with --dev mounts UsageHandler.
const UsagePattern = "GET /api/v1/bench/usage"

// Usage is what a node's process uses.
type Usage struct {
	// HeapLive are the bytes that the last collection found in use; Heap adds what has become garbage or was allocated since.
	HeapLive int64 `json:"heap_live"`
	Heap     int64 `json:"heap"`
	// Runtime is all memory that the Go runtime holds, what it has given back left out.
	Runtime int64 `json:"runtime"`
	// Resident is the process' anonymous resident memory, what Pebble has outside of the heap included; 0 where /proc has no word of it.
	Resident int64 `json:"resident"`
	// CPU are the seconds of processor time that the process has used; 0 where there is no /proc. GCCPU are those of collections,
	// by the runtime's own estimate, which takes time for which another process had the processor for its own.
	CPU   float64 `json:"cpu_s"`
	GCCPU float64 `json:"gc_cpu_s"`
	// Jobs counts what is larger than an entry and not yet done: purges, deletions, returns of ended links.
	Jobs int `json:"jobs"`
	// State is the store's own report, for a human reader.
	State string `json:"state"`
}

// UsageHandler answers with the Usage of the process. jobs and state fill in those two fields. "?gc=1" collects garbage first: the
// runtime brings its numbers up to date only then.
func UsageHandler(jobs func(context.Context) (int, error), state func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		n, err := jobs(r.Context())
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		if r.URL.Query().Get("gc") != "" {
			runtime.GC()
		}
		u := ownUsage()
		u.Jobs, u.State = n, state()
		json.NewEncoder(w).Encode(u)
	})
}

// ownUsage is what the runtime and the kernel say of this process.
func ownUsage() Usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	return Usage{
		HeapLive: int64(samples[0].Value.Uint64()),
		Heap:     int64(samples[1].Value.Uint64()),
		Runtime:  int64(samples[2].Value.Uint64() - samples[3].Value.Uint64()),
		GCCPU:    samples[4].Value.Float64(),
		Resident: residentAnonymous(),
		CPU:      processCPU(),
	}
}

// ticksPerSecond is the unit of /proc's times, the same on every Linux that Go runs on (USER_HZ).
const ticksPerSecond = 100

// processCPU is the processor time of this process in seconds, 0 where there is no /proc.
func processCPU() float64 {
	text, _ := os.ReadFile("/proc/self/stat")
	// The name, in parentheses, may hold anything; the times are fields 14 and 15.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	return float64(number(fields[11])+number(fields[12])) / ticksPerSecond
}

// machineCPU is the processor time that the whole machine has used in seconds, 0 where there is no /proc.
func machineCPU() float64 {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name; idle and waiting for a disk; guests, counted as user already
			continue
		}
		ticks += number(f)
	}
	return float64(ticks) / ticksPerSecond
}

// residentAnonymous is RssAnon of this process in bytes, 0 where there is no /proc.
func residentAnonymous() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	return number(strings.TrimSpace(strings.TrimSuffix(line, "kB"))) << 10
}

// number reads a number of /proc's; 0 for what isn't one.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// usage asks a node for its Usage, after a collection.
func usage(ctx context.Context, addr string, gc bool) (u Usage, err error) {
	query := ""
	if gc {
		query = "?gc=1"
	}
	if err = admin.Call(ctx, addr, http.MethodGet, "/api/v1/bench/usage"+query, nil, &u); err != nil {
		return u, fmt.Errorf("asking the node at %s what it uses: %w", addr, err)
	}
	return u, nil
}
