package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// A node whose directory has lost no promise, as store.Salvage finds, needs no leader: what is missing are ranges of its log, which any node's log
// or what is left of one gives, and a state, which any node's is. So two nodes that are damaged in different places, or all three, make each
// other whole. A leader that is there is asked first, since what it sends is newer.

// leaderless reports that nobody has led for long enough, since led: longer than an election takes.
func (r *Replica) leaderless(led time.Time) bool {
	return time.Since(led) > 4*electionTicks*r.opts.Limits.Tick
}

// salvageDir looks into the directory, once, and again behind a mend that failed. What it has found others may fetch.
func (r *Replica) salvageDir() (*store.Salvage, error) {
	s := &r.salvaged
	s.mu.RLock()
	found := s.found
	s.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	if err := r.dir.DropCheckpoints(); err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := r.dir.Salvage(group, r.readable)
	if err != nil {
		return nil, fmt.Errorf("looking for what is left: %w", err)
	}
	r.logger.Info("what is left in the damaged directory is known", "leader needed", found.Unsure(), "offers the state of entry", found.Offers(), "took", time.Since(began))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.made = found, nil
	return found, nil
}

// readable looks whether a state can be loaded as a start would.
func (r *Replica) readable(in *store.State) error {
	if r.opts.testMachine != nil {
		return nil
	}
	_, err := loadMachine(in)
	return err
}

// mendAlone mends the directory if nothing is missing.
func (r *Replica) mendAlone() error {
	s, err := r.salvageDir()
	if err != nil {
		return err
	}
	return r.mend(s)
}

// mend makes the directory whole, if everything for that is there, and ends the replica.
func (r *Replica) mend(s *store.Salvage) error {
	done, err := s.Mend(store.LogOptions{Group: group, SegmentBytes: r.opts.Limits.SegmentBytes})
	if err != nil {
		return errors.Join(err, r.salvaged.close()) // what could be read may be damaged by now
	}
	if done != nil {
		r.logger.Info("the damaged directory is mended", "log from", done.Base+1, "to", done.Last, "state of entry", done.Applied, "from node", done.Node)
		r.again("mended, with the entries %d to %d behind the state of entry %d", done.Base+1, done.Last, done.Applied)
	}
	return nil
}

// mendWithOthers makes one round: it offers what others may need, and asks them for what is missing here.
func (r *Replica) mendWithOthers(ctx context.Context) error {
	s, err := r.salvageDir()
	if err != nil {
		return err
	}
	r.offerSalvaged(s)
	if s.Unsure() != nil {
		return nil // the warning about nobody that leads says enough
	}
	applied, own := s.State()
	if own {
		if err := r.fetchEntries(ctx, s, applied); err != nil {
			return err
		}
	}
	if !s.Whole() {
		has, err := r.fetchState(ctx, s)
		if err == nil || has > 0 { // where nobody has a state, all entries there ever were make one
			err = r.fetchEntries(ctx, s, has)
		}
		if err != nil {
			return err
		}
	}
	return r.mend(s)
}

// offerSalvaged makes a checkpoint of the state of a node that recovers, if another node has asked for one.
func (r *Replica) offerSalvaged(s *store.Salvage) {
	v := &r.salvaged
	v.mu.Lock()
	wanted := v.wanted && v.made == nil
	v.wanted = false
	v.mu.Unlock()
	if !wanted {
		return
	}
	c, err := s.Checkpoint(r.describeState)
	if err != nil {
		r.logger.Warn("the state can't be offered to another node that recovers", "error", err)
		return
	}
	r.shelf.put(c)
	m := &c.Manifest
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made = &Offer{ID: m.ID, Node: m.Node, Index: m.Index, Term: m.Term}
}

// fetchEntries asks for entries until the log goes down to entry floor, or nobody has more.
func (r *Replica) fetchEntries(ctx context.Context, s *store.Salvage, floor uint64) error {
	var failed error
	for more := true; more && ctx.Err() == nil; {
		more = false
		for _, id := range r.elsewhere() {
			q, ok := s.Wants(floor)
			if !ok {
				return nil
			}
			err := r.fetchStretch(ctx, s, id, q)
			switch {
			case errors.Is(err, errNotHere):
			case err != nil:
				failed = errors.Join(failed, fmt.Errorf("entries %d to %d of node %d: %w", q.Lowest, q.Last, id, err))
			default:
				more = true
			}
		}
	}
	if _, ok := s.Wants(floor); !ok {
		return nil
	}
	return failed
}

// errNotHere: the node that was asked hasn't what is needed.
var errNotHere = errors.New("it hasn't all of it")

// fetchStretch asks one node for entries.
func (r *Replica) fetchStretch(ctx context.Context, s *store.Salvage, node uint64, q store.StretchQuery) error {
	answer, err := r.question(ctx, node, appendStretchQuery(nil, q), store.MaxStretchBytes)
	if err != nil {
		return err
	}
	x, ok, err := decodeStretchAnswer(answer)
	switch {
	case err != nil:
		return err
	case !ok:
		return errNotHere
	}
	if err := s.Take(&x); err != nil {
		return err
	}
	r.logger.Info("entries are fetched to mend the log", "first", x.Entries[0].Index, "last", q.Last, "node", node)
	return nil
}

// fetchState fetches a checkpoint that the log follows on, of any node. Where nobody has one it returns how far the newest state goes that there is.
func (r *Replica) fetchState(ctx context.Context, s *store.Salvage) (has uint64, err error) {
	for _, id := range r.elsewhere() {
		var a checkpointAnswer
		answer, e := r.question(ctx, id, appendCheckpointQuery(nil, s.Needs()), maxAnswer)
		if e == nil {
			a, e = decodeCheckpointAnswer(answer)
		}
		if e == nil && a.Offer.Index > 0 {
			if e = r.fetch(ctx, &a.Offer, nil); e == nil {
				return 0, nil
			}
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("the state of node %d: %w", id, e))
		}
		has = max(has, a.Has)
	}
	return has, err
}
