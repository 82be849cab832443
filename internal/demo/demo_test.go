package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func plan(seed uint64, n int) (es []event) {
	s := newSchedule(seed, 3*time.Second, 5*time.Second)
	for range n {
		es = append(es, s.next())
	}
	return es
}

func TestScheduleFollowsTheSeed(t *testing.T) {
	if !reflect.DeepEqual(plan(1, 100), plan(1, 100)) {
		t.Error("one seed gave two schedules")
	}
	if reflect.DeepEqual(plan(1, 100), plan(2, 100)) {
		t.Error("two seeds gave one schedule")
	}
}

// TestScheduleHasEveryKindInEveryStretch: so that a minute has at least 10 events and
// 6 kills, whatever the seed.
func TestScheduleHasEveryKindInEveryStretch(t *testing.T) {
	for seed := range uint64(50) {
		count := map[eventKind]int{}
		for _, e := range plan(seed, len(bag)) {
			count[e.kind]++
			if e.after < 3*time.Second || e.after >= 5*time.Second {
				t.Fatalf("seed %d: %v between events, want 3 s to 5 s", seed, e.after)
			}
		}
		if count[killLeader] != 3 || count[killHome] != 2 || count[killFollower] != 1 || count[pauseNode] != 2 {
			t.Fatalf("seed %d: %v", seed, count)
		}
	}
}

func TestStopwatch(t *testing.T) {
	var s stopwatch
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	s.start(watchFailover, at(100), anyWorker)
	s.start(watchHome, at(100), 1)
	s.committed(0, at(90), at(150)) // its discharge was sent before the signal: says nothing
	if got := s.times(watchFailover, at(150)); got != (Millis{1, 50, 50, 50}) {
		t.Errorf("still running: %+v, want the 50 ms so far", got)
	}
	s.committed(0, at(300), at(350)) // ends the failover, not the home's
	s.committed(1, at(400), at(600))
	s.committed(1, at(600), at(700)) // nothing is measured any more
	s.start(watchFailover, at(1000), anyWorker)
	s.committed(2, at(1000), at(1100))
	if got, want := s.times(watchFailover, at(5000)), (Millis{2, 100, 250, 250}); got != want {
		t.Errorf("failover %+v, want %+v", got, want)
	}
	if got, want := s.times(watchHome, at(5000)), (Millis{1, 500, 500, 500}); got != want {
		t.Errorf("home %+v, want %+v", got, want)
	}
	if got := s.last(watchFailover); got != 100*time.Millisecond {
		t.Errorf("last failover %v, want 100 ms", got)
	}
}

func TestRecordsTravel(t *testing.T) {
	r := record{id: OrderID{Producer: 3, Number: 12345}, amount: -77, worker: 2, receipt: 9}
	got, err := readRecord(r.message())
	if err != nil || got != r {
		t.Errorf("got %+v, %v; want %+v", got, err, r)
	}
	m := r.message()
	m.Data = []byte("something else")
	if _, err := readRecord(m); err == nil {
		t.Error("read what isn't a record")
	}
}

// TestResultHasExactlyTheDocumentedKeys holds the last line of --json, with its order.
func TestResultHasExactlyTheDocumentedKeys(t *testing.T) {
	got, _ := json.Marshal(Result{Kills: 1, Failover: Millis{1, 2, 3, 4}})
	times := `{"n":0,"min":0,"median":0,"max":0}`
	want := `{"kills":1,"pauses":0,"sent":0,"committed":0,"rolled_back":0,"unknown":0,"lost":0,"duplicated":0,"dead_lettered":0,` +
		`"order_violations":0,"ledger_sum":0,"failover_ms":{"n":1,"min":2,"median":3,"max":4},"home_failover_ms":` + times + `,"pause_ms":` + times + `}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestJudge: which ends of a run are faults.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		off   bool
		setUp func(*Checker)
		err   error
		fails bool
		says  string
	}{
		{name: "faultless"},
		{name: "unknown", setUp: func(c *Checker) { c.SawUnknown() }, fails: true, says: "UNKNOWN 1"},
		{name: "unknown with safety off", off: true, setUp: func(c *Checker) { c.SawUnknown() }},
		{name: "lost", setUp: func(c *Checker) { c.Sending(OrderID{Number: 1}); c.Sent(OrderID{Number: 1}, Done) }, fails: true, says: "LOST order 1/1"},
		{name: "stuck", err: errors.New("queue orders was not emptied"), fails: true, says: "not emptied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &Demo{cfg: Config{SafetyOff: tc.off}, checker: NewChecker(1, 1)}
			if tc.setUp != nil {
				tc.setUp(d.checker)
			}
			faults := &bytes.Buffer{}
			_, err := d.judge(tc.err, faults)
			if errors.Is(err, ErrCheck) != tc.fails || (err != nil) != tc.fails || !strings.Contains(faults.String(), tc.says) {
				t.Errorf("%v, faults %q", err, faults)
			}
		})
	}
}

func TestConfigFaults(t *testing.T) {
	good := Config{Duration: time.Minute, Rate: 1000, KillMin: 3 * time.Second, KillMax: 5 * time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, set := range map[string]func(*Config){
		"duration":   func(c *Config) { c.Duration = 0 },
		"rate":       func(c *Config) { c.Rate = 0 },
		"kill-every": func(c *Config) { c.KillMin, c.KillMax = 5*time.Second, 3*time.Second },
	} {
		c := good
		set(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--"+flag) || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestParseKillEvery(t *testing.T) {
	if low, high, err := ParseKillEvery("3s-5s"); err != nil || low != 3*time.Second || high != 5*time.Second {
		t.Error(low, high, err)
	}
	if low, high, err := ParseKillEvery("4s"); err != nil || low != 4*time.Second || high != 4*time.Second {
		t.Error(low, high, err)
	}
	for _, bad := range []string{"", "3-5", "3s-", "-3s", "soon"} {
		if _, _, err := ParseKillEvery(bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMakeDir(t *testing.T) {
	base := t.TempDir()
	fresh := filepath.Join(base, "new")
	dir, remove, err := makeDir(fresh)
	if err != nil || dir != fresh {
		t.Fatal(dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "node1.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := makeDir(fresh); !errors.Is(err, ErrConfig) {
		t.Errorf("a directory with something in it: %v", err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
