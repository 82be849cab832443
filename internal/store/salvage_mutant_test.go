package store

import (
	"os"
	"os/exec"
	"testing"

	"github.com/oncemq/oncemq/internal/mutant"
)

// The faults of mending are found by a test each, in a process of its own.
func TestMendFindsMutants(t *testing.T) {
	if !mutant.Enabled {
		t.Skip("only with -tags mutants")
	}
	tests := map[mutant.Mutant]string{mutant.RangeUnanchored: "^TestMendOnlyTheSameLog$", mutant.StateBelowLog: "^TestMendStateFits$"}
	for _, m := range mutant.Mends() {
		for _, on := range []mutant.Mutant{m, ""} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+tests[m], "-test.timeout=2m")
			cmd.Env = append(os.Environ(), "ONCEMQ_MUTANT="+string(on))
			if out, err := cmd.CombinedOutput(); (err == nil) != (on == "") {
				t.Errorf("%q, %s: %v\n%s", on, tests[m], err, out)
			}
		}
	}
}
