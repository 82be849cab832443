package sim_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/sim"
)

// failure is a world that failed, made as small as the shrinker can.
type failure struct {
	cfg        sim.Config
	result     *sim.Result
	what       string
	command    string // that replays it
	transcript []byte
}

// shrink shrinks a failing world, and runs it once more for its transcript.
func shrink(cfg sim.Config) *failure {
	cfg, r := sim.Shrink(cfg)
	f := &failure{
		cfg: cfg, result: r, command: replay(cfg, r),
		what: fmt.Sprintf("seed %d, shrunk to %d faults and %d clients", cfg.Seed, r.Faults, r.Clients),
	}
	var out bytes.Buffer
	cfg.Trace = &out
	sim.Run(cfg)
	f.transcript = out.Bytes()
	return f
}

// replay is the command that runs a world alone.
func replay(cfg sim.Config, r *sim.Result) string {
	var left []string
	for i := range r.Planned {
		if cfg.Skip[i] {
			left = append(left, fmt.Sprint(i))
		}
	}
	return fmt.Sprintf("make sim SEEDS=1 SEED=%d JOBS=%d SKIP=%s", cfg.Seed, cfg.Jobs, strings.Join(left, ","))
}

// end is the last lines of the transcript.
func (f *failure) end(lines int) string {
	all := strings.Split(string(f.transcript), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// keep writes the transcript, with the command in front, to a file of the directory.
func (f *failure) keep(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(filepath.Join(dir, fmt.Sprintf("seed-%d.txt", f.cfg.Seed))); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, append([]byte(f.what+"\n"+f.command+"\n\n"), f.transcript...), 0o644)
}

// TestShrink: a failure that takes a fault to happen (here: what some administrator is never told) is shrunk to a world with fewer
// faults, which still fails, and so does the world of the command that is printed.
func TestShrink(t *testing.T) {
	unanswered := func(o *sim.Object) string {
		if slices.ContainsFunc(o.Operations, func(op *sim.Operation) bool { return op.Return == 0 && !o.Transaction }) {
			return "somebody was not told"
		}
		return ""
	}
	shrunk := 0
	for seed := uint64(1); shrunk < 2; seed++ {
		if seed == 400 {
			t.Fatalf("only %d seeds of 400 fail with more than one fault", shrunk)
		}
		cfg := configOf(seed)
		cfg.Judge = unanswered
		before := sim.Run(cfg)
		if len(before.Violations) == 0 || before.Faults < 4 {
			continue
		}
		f := shrink(cfg)
		if f.result.Faults == 0 && len(f.result.Violations) > 0 {
			continue // it takes none: a member that was removed took the answer along
		}
		shrunk++
		if f.result.Faults == 0 || f.result.Faults >= before.Faults || len(f.result.Violations) == 0 {
			t.Errorf("seed %d: shrunk from %d faults to %d, %q", seed, before.Faults, f.result.Faults, f.result.Violations)
		}
		path, err := f.keep(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(kept, []byte(f.command)) || !bytes.Contains(kept, []byte("VIOLATION K7")) {
			t.Errorf("seed %d: %s has no command or no violation: %v", seed, path, err)
		}
		again := fromCommand(t, f.command)
		again.Judge = unanswered
		if r := sim.Run(again); !slices.Equal(r.Violations, f.result.Violations) || r.Sum != f.result.Sum {
			t.Errorf("seed %d: %s gives %q, not %q", seed, f.command, r.Violations, f.result.Violations)
		}
	}
}

// fromCommand is the world of a printed command, by way of the flags that its make target sets.
func fromCommand(t *testing.T, command string) sim.Config {
	parts := regexp.MustCompile(`^make sim SEEDS=1 SEED=(\d+) JOBS=(\d+) SKIP=([\d,]*)$`).FindStringSubmatch(command)
	if parts == nil {
		t.Fatalf("no command: %q", command)
	}
	var seed uint64
	_, _ = fmt.Sscan(parts[1], &seed)
	defer func(j int, s string) { *jobs, *skip = j, s }(*jobs, *skip)
	_, _ = fmt.Sscan(parts[2], jobs)
	*skip = parts[3]
	return configOf(seed)
}
