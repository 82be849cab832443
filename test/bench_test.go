package test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/oncemq/oncemq/test/cluster"
)

// TestBenchBacklog: the command runs through on a small backlog, every phase and restart is in its answer, and no probe failed. Whether
// targets are reached is the business of a quiet machine.
func TestBenchBacklog(t *testing.T) {
	for _, queues := range []string{"1", "300"} {
		cmd := exec.CommandContext(t.Context(), cluster.Binary(t), "bench", "backlog", "--messages", "3000", "--queues", queues,
			"--rounds", "1", "--duration", "100ms", "--settle", "0s", "--dir", t.TempDir(), "--json")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 2 {
			t.Fatalf("%v: %s", err, &stderr)
		}
		var res struct {
			Phases []struct {
				Name     string
				Messages int
				Probe    struct{ Sends, Errors int }
			}
			Restarts []struct {
				Messages  int
				DeliveryS float64 `json:"delivery_s"`
			}
			Deep, Empty struct {
				PerS float64 `json:"per_s"`
			}
		}
		if err := json.Unmarshal(stdout.Bytes(), &res); err != nil {
			t.Fatalf("%v: %s", err, &stdout)
		}
		if len(res.Phases) != 5 || len(res.Restarts) != 4 || res.Deep.PerS <= 0 || res.Empty.PerS <= 0 {
			t.Fatalf("%+v: want 5 phases, 4 restarts, two rates", res)
		}
		for i, want := range []int{300, 2700, 3000, 3000, 3000} {
			if p := res.Phases[i]; p.Messages != want || p.Probe.Sends == 0 || p.Probe.Errors != 0 {
				t.Errorf("%+v: want %d messages, and a probe without errors", p, want)
			}
		}
		for i, want := range []int{300, 300, 3000, 3000} {
			if r := res.Restarts[i]; r.Messages != want || r.DeliveryS <= 0 {
				t.Errorf("%+v: want %d messages, and a delivery", r, want)
			}
		}
	}
}
