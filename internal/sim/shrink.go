package sim

import (
	"maps"
	"strings"
)

// Shrink leaves out faults, one after the other, and clients from the end, while the world still fails at the same checker. What
// is left of the planning is in the Config; the Result is that of its world. A world without violations is left as it is.
func Shrink(cfg Config) (Config, *Result) {
	best := Run(cfg)
	if len(best.Violations) == 0 {
		return cfg, best
	}
	checker, _, _ := strings.Cut(best.Violations[0], ":")
	try := func(smaller Config) bool {
		r := Run(smaller)
		if !r.found(checker) {
			return false
		}
		cfg, best = smaller, r
		return true
	}
	for i := range best.Planned {
		if cfg.Skip[i] {
			continue
		}
		smaller := cfg
		smaller.Skip = maps.Clone(cfg.Skip)
		if smaller.Skip == nil {
			smaller.Skip = map[int]bool{}
		}
		smaller.Skip[i] = true
		try(smaller)
	}
	for jobs := best.Clients - 1; jobs > 0; jobs-- {
		smaller := cfg
		smaller.Jobs = jobs
		if !try(smaller) {
			break
		}
	}
	return cfg, best
}

// found says that a checker found something.
func (r *Result) found(checker string) bool {
	for _, v := range r.Violations {
		if strings.HasPrefix(v, checker+":") {
			return true
		}
	}
	return false
}
