package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// salvage is what a node that recovers has read of its own damaged directory. It answers other nodes from it: a mend needs sound bytes, not
// a sound node.
type salvage struct {
	mu     sync.RWMutex
	found  *store.Salvage // guarded by mu: read-locked while somebody reads from it
	wanted bool           // a checkpoint is asked for; guarded by mu
	made   *Offer         // guarded by mu
}

// close closes what was found, if anything was.
func (s *salvage) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != nil {
		err = s.found.Close()
	}
	s.found = nil
	return err
}

// OpenQuery implements peer.Source.
func (r *Replica) OpenQuery(from uint64, question []byte) (io.ReadCloser, error) {
	answer, err := r.answer(from, question)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(answer)), nil
}

// answer answers a question of a node that recovers.
func (r *Replica) answer(from uint64, question []byte) ([]byte, error) {
	q := queryReader{b: question}
	switch kind := q.byte(); kind {
	case queryConfirm:
		var query confirmQuery
		q.fixed(query.asking[:])
		if err := q.err("question"); err != nil {
			return nil, err
		}
		c, err := r.confirmFor(from, query.asking)
		if err != nil {
			return nil, err
		}
		return c.appendTo(nil), nil
	case queryCheckpoint:
		least := q.uint()
		if err := q.err("question"); err != nil {
			return nil, err
		}
		a := r.checkpointFor(least)
		return a.appendTo(nil), nil
	case queryStretch:
		s := store.StretchQuery{Lowest: q.uint(), Last: q.uint(), Anchor: q.uint()}
		if err := q.err("question"); err != nil {
			return nil, err
		}
		return r.stretchFor(s)
	default:
		return nil, fmt.Errorf("questions of kind %d aren't known here; run the same release on all nodes", kind)
	}
}

// confirmFor answers a node that asks for a confirmed checkpoint.
func (r *Replica) confirmFor(from uint64, id [16]byte) (Confirmation, error) {
	if r.damage != nil {
		return Confirmation{}, nil // this one doesn't lead either
	}
	answer := make(chan Confirmation, 1)
	r.events.put(event{kind: evAsk, ask: func() { answer <- r.confirmation(r.core.confirm(from, id)) }})
	timer := time.NewTimer(barrierTimeout)
	defer timer.Stop()
	select {
	case c := <-answer:
		return c, nil
	case <-timer.C:
		return Confirmation{}, errors.New("this node stands still")
	case <-r.done:
		return Confirmation{}, ErrClosed
	}
}

// checkpointFor answers a node that asks for a state from entry least on: whoever leads, or if nobody does.
func (r *Replica) checkpointFor(least uint64) checkpointAnswer {
	if r.damage != nil {
		return r.salvaged.offer(least)
	}
	if has := r.state.AppliedIndex(); has < least || r.offers.make == nil {
		return checkpointAnswer{Has: has}
	}
	if o := r.offers.atLeast(least); o != nil {
		return checkpointAnswer{Offer: *o}
	}
	return checkpointAnswer{Later: true}
}

// offer is checkpointFor of a node that recovers. The recover goroutine makes the checkpoint.
func (s *salvage) offer(least uint64) checkpointAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		return checkpointAnswer{Later: true}
	}
	if has := s.found.Offers(); has < least || has == 0 {
		return checkpointAnswer{Has: has}
	}
	if s.made != nil {
		return checkpointAnswer{Offer: *s.made}
	}
	s.wanted = true
	return checkpointAnswer{Later: true}
}

// stretchFor answers a node that asks for entries.
func (r *Replica) stretchFor(q store.StretchQuery) ([]byte, error) {
	var s store.Stretch
	var ok bool
	var err error
	if r.damage != nil {
		r.salvaged.mu.RLock()
		defer r.salvaged.mu.RUnlock()
		if r.salvaged.found == nil {
			return []byte{answerLater}, nil
		}
		s, ok, err = r.salvaged.found.Stretch(q)
	} else if log, is := r.log.(*store.Log); is {
		s, ok, err = log.Stretch(q)
	}
	if err != nil || !ok {
		return []byte{answerElsewhere}, err
	}
	return s.AppendTo([]byte{answerOffer}), nil
}
