//go:build mutants

package mutant

import (
	"os"
	"slices"
)

// Enabled says that the faults are compiled in.
const Enabled = true

var active = Mutant(os.Getenv("ONCEMQ_MUTANT"))

// On says that the fault is switched on.
func On(m Mutant) bool { return m == active }

// Set switches one fault on and the others off; "" is none. false: there is no such fault. Nothing may be running.
func Set(m Mutant) bool {
	if m != "" && !slices.Contains(append(All(), Mends()...), m) {
		return false
	}
	active = m
	return true
}
