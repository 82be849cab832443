package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestMeasureCountsWhatFallsIntoTheWindow: 4 goroutines of 10 ms operations over a
// second are 400 operations, each 10 ms long, whatever the warm-up does.
func TestMeasureCountsWhatFallsIntoTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := Measure(t.Context(), "x", 4, time.Second, func(int) (Op, error) {
			return func(context.Context) error { <-time.After(10 * time.Millisecond); return nil }, nil
		})
		if err != nil || res.P50 != 10_000 || res.P99 != 10_000 || res.PerS < 395 || res.PerS > 405 || res.Errors != 0 {
			t.Fatalf("%+v, %v; want about 400 a second of 10 ms each", res, err)
		}
	})
}

func TestMeasureCountsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := Measure(t.Context(), "x", 1, time.Second, func(int) (Op, error) {
			n := 0
			return func(context.Context) error {
				<-time.After(10 * time.Millisecond)
				if n++; n%2 == 0 {
					return errors.New("no")
				}
				return nil
			}, nil
		})
		// A pair of operations takes 30 ms: two calls and the wait after the error.
		if err != nil || res.Errors < 32 || res.Errors > 34 || res.PerS < 32 || res.PerS > 34 {
			t.Fatalf("%+v, %v; want about 33 errors and 33 answers", res, err)
		}
	})
}

type countingWriter struct {
	writes *atomic.Int64
	size   int
}

func (w countingWriter) Write(_ context.Context, body []byte) error {
	if len(body) < w.size {
		return errors.New("short body")
	}
	w.writes.Add(1)
	<-time.After(time.Millisecond)
	return nil
}

func TestRawHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		h := RawHandler(func() RawWriter { return countingWriter{&writes, 100} })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/?writers=3&size=100&duration=1s", nil))
		var res Result
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || w.Code != 200 {
			t.Fatalf("%d %s %v", w.Code, w.Body, err)
		}
		if res.Name != "raw 3" || res.Errors != 0 || res.PerS < 2900 || writes.Load() < 2900 {
			t.Fatalf("%+v after %d writes", res, writes.Load())
		}
	})
	for _, query := range []string{"writers=0&size=1&duration=1s", "writers=1&size=-1&duration=1s", "writers=1&size=1&duration=x", "writers=1&size=1&duration=1h", ""} {
		w := httptest.NewRecorder()
		RawHandler(nil).ServeHTTP(w, httptest.NewRequest("POST", "/?"+query, nil))
		if w.Code != 400 || !strings.Contains(w.Body.String(), "allowed") {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestJudge: each target is met just so, then missed.
func TestJudge(t *testing.T) {
	good := map[string][]Result{
		raw1:      {{P50: 900}, {P50: 450}, {P50: 5000}},
		raw16:     {{PerS: 6000}, {PerS: 3000}, {PerS: 60_000}},
		raw256:    {{PerS: 32000}},
		send256:   {{PerS: 12800}},
		moveHome:  {{PerS: 3600}, {PerS: 1800}, {PerS: 60_000}}, // paired, so that a slow round changes nothing
		moveAbout: {{PerS: 1}, {PerS: 1}, {PerS: 1}},
		sendHome:  {{P50: 1620}, {P50: 810}, {P50: 1}},
		sendAbout: {{P50: 2070}},
	}
	cmp := judge([]int64{300, 200, 100}, good)
	for _, l := range cmp.Lines {
		if !l.OK {
			t.Errorf("%+v: want ok (d is 200 us)", l)
		}
	}
	if cmp.Missed() != 0 || cmp.Errors() != 0 {
		t.Errorf("missed %d, errors %d, want none", cmp.Missed(), cmp.Errors())
	}
	bad := map[string][]Result{
		raw1:      {{P50: 901, Errors: 2}, {P50: 901, Errors: 1}},
		raw16:     {{PerS: 5999}},
		raw256:    {{PerS: 31999}},
		send256:   {{PerS: 12700}},
		moveHome:  {{PerS: 3590}},
		moveAbout: {{PerS: 3590}},
		sendHome:  {{P50: 1630}},
		sendAbout: {{P50: 2080}},
	}
	cmp = judge([]int64{200}, bad)
	for _, l := range cmp.Lines {
		if l.OK != (l.Target == "") {
			t.Errorf("%+v: want missed, where there is a target", l)
		}
	}
	if cmp.Missed() != len(rows)-1 || cmp.Errors() != 3 {
		t.Errorf("missed %d of %d, errors %d, want all and 3", cmp.Missed(), len(rows), cmp.Errors())
	}
}

func TestValidate(t *testing.T) {
	good := Config{Connections: 1, Sessions: 1, Outstanding: 1, Duration: time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, set := range map[string]func(*Config){
		"connections": func(c *Config) { c.Connections = 0 },
		"sessions":    func(c *Config) { c.Sessions = -1 },
		"outstanding": func(c *Config) { c.Outstanding = 5000 },
		"size":        func(c *Config) { c.Size = 1 << 20 },
		"duration":    func(c *Config) { c.Duration = time.Hour },
	} {
		c := good
		set(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--"+flag) || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
