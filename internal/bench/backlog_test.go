package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUsage: the handler's numbers are those of this process, and the caller's two fields are in it.
func TestUsage(t *testing.T) {
	ballast := make([]byte, 64<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	srv := httptest.NewServer(UsageHandler(func(context.Context) (int, error) { return 7, nil }, func() string { return "tables" }))
	defer srv.Close()
	u, err := usage(t.Context(), strings.TrimPrefix(srv.URL, "http://"), true)
	if err != nil || u.Jobs != 7 || u.State != "tables" {
		t.Fatalf("%+v, %v; want 7 jobs and the report", u, err)
	}
	if u.HeapLive < 64<<20 || u.Heap < 64<<20 || u.Runtime < u.Heap {
		t.Errorf("%+v: want 64 MiB in the heap, and live, and no more than the runtime holds", u)
	}
	if runtime.GOOS == "linux" && (u.Resident < 64<<20 || u.CPU <= 0 || machineCPU() < u.CPU) {
		t.Errorf("%+v, machine %v: want 64 MiB resident, and some CPU", u, machineCPU())
	}
	runtime.KeepAlive(ballast)
}

func TestUsageError(t *testing.T) {
	h := UsageHandler(func(context.Context) (int, error) { return 0, errors.New("no majority") }, func() string { return "" })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var said struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != http.StatusServiceUnavailable || said.Error != "no majority" {
		t.Fatalf("%d %q, %v", w.Code, w.Body, err)
	}
}

// TestBacklogTargets: each target is met just so, then missed.
func TestBacklogTargets(t *testing.T) {
	make := func(over float64) Backlog {
		n := func(bound float64) int64 { return int64(bound * over) }
		return Backlog{
			Messages: 10_000_000, Ratio: 0.8 / over,
			Idle:    Usage{HeapLive: 5, Resident: 9},
			Full:    Usage{HeapLive: 5 + n(4e9)},
			Garbage: Usage{Resident: 9 + n(4e9)},
			Restarts: []Restart{
				{Messages: 10_000_000, After: "killed", DeliveryS: 15 * over}, {Messages: 1_000_000, After: "killed", DeliveryS: 3 * over},
			},
			Phases: []Phase{
				{Name: "growth", Messages: 1, CPU: 100, GCCPU: 10 * over, Probe: Probe{P999: n(50_000), Max: n(1_000_000), Errors: int(over)}},
				{Name: "purge", CPU: 100, GCCPU: 90, Probe: Probe{Errors: int(over)}}, // what little it does may be collections
			},
		}
	}
	good := make(1)
	good.Phases[0].Probe.Errors, good.Phases[1].Probe.Errors = 0, 0
	if good.Missed() != 0 {
		t.Errorf("missed: %+v; want none", slices.DeleteFunc(good.targets(), target.ok))
	}
	bad := make(1.01)
	// The purge's two times are zero.
	if all := bad.targets(); bad.Missed() != len(all)-2 {
		t.Errorf("met: %+v; want the purge's times alone", slices.DeleteFunc(all, func(l target) bool { return !l.ok() }))
	}
	var out strings.Builder
	if err := bad.Write(&out); err != nil || strings.Count(out.String(), "MISSED") != bad.Missed() || !strings.Contains(out.String(), "growth: 1 in") {
		t.Errorf("%v:\n%s", err, &out)
	}
	if at := strings.Index(out.String(), "restart with 1000000 "); at < 0 || at > strings.Index(out.String(), "restart with 10000000 ") {
		t.Errorf("the restarts aren't sorted by depth:\n%s", &out)
	}
}

func TestValidateBacklog(t *testing.T) {
	good := BacklogConfig{Config: Config{Connections: 1, Sessions: 1, Outstanding: 1, Duration: time.Second}, Messages: 1000, Queues: 1000}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, set := range map[string]func(*BacklogConfig){
		"messages":    func(c *BacklogConfig) { c.Messages = 999 },
		"queues":      func(c *BacklogConfig) { c.Queues = 1001 },
		"rounds":      func(c *BacklogConfig) { c.Rounds = -1 },
		"settle":      func(c *BacklogConfig) { c.Settle = time.Hour },
		"connections": func(c *BacklogConfig) { c.Connections = 0 },
	} {
		c := good
		set(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--"+flag) || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
