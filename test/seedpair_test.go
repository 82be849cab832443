package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// seedDuration is how long the pairs run: 25 s, or 5 minutes with ONCEMQ_LONG set.
func seedDuration() time.Duration {
	if os.Getenv("ONCEMQ_LONG") != "" {
		return 5 * time.Minute
	}
	return 25 * time.Second
}

// program is the report in the last line of one process of a pair. A failed validation
// is exit status 1.
type program struct {
	Committed  int64 `json:"committed"`
	RolledBack int64 `json:"rolled_back"`
	Resolved   int64 `json:"resolved"`
}

// runPair runs sender and receiver against a harassed cluster (rule S7): neither may
// end with a failed validation, and the receiver gets all that the sender committed.
func runPair(t *testing.T, c *cluster.Cluster, sender, receiver []string) {
	t.Helper()
	limit := seedDuration() + 2*time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	harassed, stop := context.WithTimeout(ctx, seedDuration())
	defer stop()
	var counts cluster.Harassment
	var wg sync.WaitGroup
	wg.Go(func() { c.Harass(harassed, 1, &counts) })
	reports := make([]program, 2)
	errs := make([]error, 2)
	for i, args := range [][]string{sender, receiver} {
		wg.Go(func() { reports[i], errs[i] = runProgram(ctx, args) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("program %d: %v", i, err)
		}
	}
	if t.Failed() {
		return
	}
	t.Logf("%d kills, %d pauses: sender %+v, receiver %+v", counts.Kills.Load(), counts.Pauses.Load(), reports[0], reports[1])
	if reports[0].Committed == 0 || reports[0].Committed != reports[1].Committed {
		t.Errorf("sender committed %d, receiver %d", reports[0].Committed, reports[1].Committed)
	}
	if counts.Kills.Load() == 0 {
		t.Error("nothing was killed")
	}
}

func runProgram(ctx context.Context, args []string) (program, error) {
	var p program
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("%s: %w\n%s%s", filepath.Base(args[0]), err, out, stderr.Bytes())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &p); err != nil {
		return p, fmt.Errorf("%s: last line %q: %w", filepath.Base(args[0]), lines[len(lines)-1], err)
	}
	return p, nil
}

func TestSeedPairGo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sender", "receiver"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./examples/failover/"+name)
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
	c := cluster.Start(t, 3)
	flags := []string{"--urls", c.URLs(), "--queue", "seed.go", "--duration", seedDuration().String(), "--json"}
	runPair(t, c, append([]string{filepath.Join(dir, "sender")}, flags...), append([]string{filepath.Join(dir, "receiver")}, flags...))
}

func TestSeedPairJMS(t *testing.T) {
	need(t, jmsLib)
	c := cluster.Start(t, 3)
	program := func(class string) []string {
		return []string{
			"java", "-Xmx256m", "-cp", "jms/target/classes:" + jmsLib + "/*", "oncemq." + class, "--urls", failoverURI(c),
			"--queue", "seed.jms", "--duration", fmt.Sprint(seedDuration().Seconds()), "--json",
		}
	}
	runPair(t, c, program("Sender"), program("Receiver"))
}
