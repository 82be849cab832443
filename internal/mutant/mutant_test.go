package mutant

import "testing"

// Names are unique, each breaks a rule, and without the tag nothing can be switched on.
func TestMutants(t *testing.T) {
	seen := map[Mutant]bool{}
	for _, m := range append(All(), Mends()...) {
		if m == "" || seen[m] {
			t.Errorf("%q stands twice", m)
		}
		seen[m] = true
		if m.Rule() == "" {
			t.Errorf("%s breaks no rule", m)
		}
		if Set(m) != Enabled || On(m) != Enabled {
			t.Errorf("%s: set %v, on %v in a binary with faults %v", m, Set(m), On(m), Enabled)
		}
	}
	if Set("no-such-fault") || On("no-such-fault") {
		t.Error("a fault that doesn't exist was switched on")
	}
	if Set("") != Enabled {
		t.Error("no way back")
	}
}
