package replica

import "github.com/oncemq/oncemq/internal/mutant"

// keep is the keep step: it has the log cut below what the state has flushed and every node
// has on disk [6.2], and flushes the state where only that keeps a large log from being cut. An
// error is final.
func (s *steps) keep() error {
	everyone, applied := s.everyone.Load(), s.state.AppliedIndex()
	if everyone+applied == s.kept || s.opts.SafetyOff {
		return nil
	}
	s.kept = everyone + applied
	durable, err := s.state.DurableIndex()
	if err != nil {
		return err
	}
	if mutant.On(mutant.MemoryCut) {
		durable = applied
	}
	if cut := min(durable+1, everyone); cut > s.log.FirstIndex() {
		s.appends.put(appendJob{cut: cut})
	}
	if s.log.SizeBytes() > s.opts.Limits.LogFlushBytes && durable+1 < everyone {
		return s.state.Flush()
	}
	return nil
}
