package replica

import (
	"os"
	"os/exec"
	"testing"

	"github.com/oncemq/oncemq/internal/mutant"
)

// The faults of changes of the configuration are found by TestMembersUnderCrashes: in a process of its own, since one that is found ends it.
func TestMembersFindMutants(t *testing.T) {
	if !mutant.Enabled {
		t.Skip("only with -tags mutants")
	}
	for _, m := range append(mutant.Members(), "") {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMembersUnderCrashes$", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), "ONCEMQ_MUTANT="+string(m))
		if out, err := cmd.CombinedOutput(); (err == nil) != (m == "") {
			t.Errorf("%q: %v\n%s", m, err, out)
		}
	}
}
