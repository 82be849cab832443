package replica

import (
	"iter"

	"github.com/oncemq/oncemq/internal/state"
)

// loadMachine rebuilds the machine from the store's keys, without the bodies: those are
// never read to decide.
func loadMachine(s State) (*state.Machine, error) {
	bodies, behind := state.BodyRange(group)
	return loadRanges(s, [2][]byte{{group >> 8, group}, bodies}, [2][]byte{behind, {group >> 8, group + 1}})
}

// digestOf is the digest of a state on disk.
func digestOf(s State) (uint64, error) {
	from, to := state.ClockRange(group)
	m, err := loadRanges(s, [2][]byte{from, to})
	if err != nil {
		return 0, err
	}
	return m.Digest(), nil
}

// votersOf are the voters of the configuration in a state on disk; those of the founding where it has none.
func votersOf(s State, founding []uint64) ([]uint64, error) {
	value, ok, err := s.Get(state.ConfigurationKey(group), nil)
	if err != nil || !ok {
		return founding, err
	}
	c, err := state.DecodeConfiguration(value)
	return plain(c.Voters), err
}

// loadRanges makes a machine of what lies in some ranges of keys.
func loadRanges(s State, ranges ...[2][]byte) (*state.Machine, error) {
	var err error
	keys := func(yield func(k, v []byte) bool) {
		more := true
		each := func(k, v []byte) bool { more = yield(k, v); return more }
		for _, r := range ranges {
			if err = s.IterateRange(r[0], r[1], each); err != nil || !more {
				return
			}
		}
	}
	next, stop := iter.Pull2(iter.Seq2[[]byte, []byte](keys))
	defer stop()
	m, loadErr := state.Load(group, next)
	if err != nil {
		return nil, err
	}
	return m, loadErr
}

// LoadMachine rebuilds the machine of a state on disk, as a start does: for tools.
func LoadMachine(s State) (*state.Machine, error) { return loadMachine(s) }
