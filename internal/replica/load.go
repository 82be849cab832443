package replica

import (
	"iter"

	"github.com/oncemq/oncemq/internal/state"
)

// loadMachine rebuilds the machine from the store's keys, without the bodies: those are
// never read to decide.
func loadMachine(s State) (*state.Machine, error) {
	from, to := []byte{group >> 8, group}, []byte{group >> 8, group + 1}
	bodies, behind := state.BodyRange(group)
	var err error
	keys := func(yield func(k, v []byte) bool) {
		more := true
		each := func(k, v []byte) bool { more = yield(k, v); return more }
		if err = s.IterateRange(from, bodies, each); err != nil || !more {
			return
		}
		err = s.IterateRange(behind, to, each)
	}
	next, stop := iter.Pull2(iter.Seq2[[]byte, []byte](keys))
	defer stop()
	m, loadErr := state.Load(group, next)
	if err != nil {
		return nil, err
	}
	return m, loadErr
}
