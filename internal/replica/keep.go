package replica

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/store"
)

// keep is the keep step: it makes a checkpoint where a peer needs one, has the log cut [6.2], and flushes the state where only
// that keeps a large log from being cut. An error is final.
//
// The log is cut below what the state has flushed. What a node that is behind still needs stays, up to Limits.RetainBytes;
// beyond that it gets a checkpoint, so that the slowest node doesn't hold the log for ever [6.4]. And what follows a checkpoint
// that is offered stays, up to Limits.HoldBytes more, until whoever got it has caught up: it would be of no use without.
func (s *steps) keep(now time.Duration) error {
	if s.opts.SafetyOff {
		return nil
	}
	if err := s.offers.step(now, s.state.AppliedIndex(), s.logger); err != nil {
		return err
	}
	everyone, applied, size := s.everyone.Load(), s.state.AppliedIndex(), s.log.SizeBytes()
	s.offers.expire(now, s.opts.Limits.OfferFor, everyone, applied, size <= s.opts.Limits.RetainBytes || everyone >= s.log.Suffix(s.opts.Limits.RetainBytes))
	tight := s.tight.Load()
	if tight && !s.keptTight {
		s.kept = 0
		s.appends.put(appendJob{cut: s.log.FirstIndex()}) // gives back what was set aside
	}
	s.keptTight = tight
	if now >= s.reclaimAt && s.jobEnded.Swap(false) {
		// Pebble gives back what a purge has deleted when the deletion is on disk, not before.
		s.reclaimAt = now + reclaimEvery
		if err := s.state.Flush(); err != nil && !errors.Is(err, store.ErrFull) {
			return err
		}
	}
	if everyone+applied == s.kept {
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
	cut, retain, flushAt := everyone, s.opts.Limits.RetainBytes, s.opts.Limits.LogFlushBytes
	if tight {
		// A node that is behind gets a checkpoint rather than what is left of the disk.
		retain, flushAt = min(retain, tightSegments*s.opts.Limits.SegmentBytes), min(flushAt, tightSegments*s.opts.Limits.SegmentBytes)
	}
	if size > retain {
		cut = max(cut, s.log.Suffix(retain))
	}
	if o := s.offers.made.Load(); o != nil && size <= retain+s.opts.Limits.HoldBytes {
		cut = min(cut, max(o.Index+1, everyone))
	}
	if at := min(durable+1, cut); at > s.log.FirstIndex() {
		s.appends.put(appendJob{cut: at})
	}
	if size > flushAt && durable+1 < cut {
		s.kept = 0 // the next step cuts
		if err := s.state.Flush(); !errors.Is(err, store.ErrFull) {
			return err
		}
	}
	return nil
}

// reclaimEvery is how often the state is flushed at most because a purge or a deletion is done.
const reclaimEvery = 10 * time.Second

// tightSegments is how many segments of the log are kept, and make the state be flushed, where there is little room on the disk.
const tightSegments = 2
