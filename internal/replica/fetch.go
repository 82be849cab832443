package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

const (
	// fetchPause is the pause behind a fetch that broke.
	fetchPause = 200 * time.Millisecond
	// fetchPatience is for how long a fetch is tried that brings nothing more; then the newest offer is taken.
	fetchPatience = 15 * time.Second
)

// shelf is the checkpoint that others may fetch.
type shelf struct {
	mu         sync.Mutex
	checkpoint *store.Checkpoint // guarded by mu
}

// put offers another checkpoint, or none, and removes the one before.
func (s *shelf) put(c *store.Checkpoint) {
	s.mu.Lock()
	old := s.checkpoint
	s.checkpoint = c
	s.mu.Unlock()
	if old != nil {
		_ = old.Remove() // what stays is removed by the next start
	}
}

func (s *shelf) get(id [16]byte) *store.Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkpoint == nil || s.checkpoint.Manifest.ID != id {
		return nil
	}
	return s.checkpoint
}

// makeCheckpoint makes a checkpoint and offers it.
func (r *Replica) makeCheckpoint() (Offer, error) {
	began := time.Now()
	c, err := r.dir.MakeCheckpoint(r.files, r.describe)
	if err != nil {
		return Offer{}, err
	}
	r.shelf.put(c)
	m := &c.Manifest
	r.logger.Info("a checkpoint for a node that is behind", "entry", m.Index, "bytes", m.Bytes(), "files", len(m.Files), "took", time.Since(began))
	return Offer{ID: m.ID, Node: m.Node, Index: m.Index, Term: m.Term}, nil
}

// describe says of a checkpoint what the store doesn't know.
func (r *Replica) describe(m *store.Manifest, in *store.State) (err error) {
	if m.Term, err = r.log.Term(m.Index); err != nil {
		return err
	}
	return r.describeState(m, in)
}

// describeState says of a checkpoint what is in its state.
func (r *Replica) describeState(m *store.Manifest, in *store.State) (err error) {
	if m.Voters, err = votersOf(in, r.stamp().Voters); err == nil {
		m.Digest, err = digestOf(in)
	}
	return err
}

// OpenFetch implements peer.Source.
func (r *Replica) OpenFetch(id [16]byte, file uint64, offset int64) (io.ReadCloser, error) {
	c := r.shelf.get(id)
	if c == nil {
		return nil, errNotOffered
	}
	r.offers.touched.Store(true)
	f, err := c.Open(file, offset)
	if err != nil {
		return nil, err
	}
	return &touching{f, &r.offers}, nil
}

// touching keeps a checkpoint while it is being read.
type touching struct {
	io.ReadCloser
	offers *offers
}

func (t *touching) Read(b []byte) (int, error) {
	t.offers.touched.Store(true)
	return t.ReadCloser.Read(b)
}

// fetchLoop fetches the checkpoint that this node needs: the fetch goroutine. With all of it there and verified it ends the
// replica, whose clients are moved on first: effects of what the checkpoint skips are never delivered [1.3].
func (r *Replica) fetchLoop(stop <-chan struct{}) {
	ctx, release := until(stop)
	defer release()
	ticker := time.NewTicker(r.opts.Limits.Tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		o := r.wanted.Swap(nil)
		if o == nil || o.Index <= r.state.AppliedIndex() {
			continue
		}
		err := r.fetch(ctx, o, nil)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.endEpoch("this node was behind and gets a newer state from another; connect again")
			r.logger.Info("a checkpoint was fetched; opening again to install it", "entry", o.Index)
			r.finish(fmt.Errorf("%w: up to entry %d, of node %d", ErrInstalled, o.Index, o.Node))
			return
		case errors.Is(err, command.ErrNewer):
			r.fail(err) // the cluster has gone on to a level that this binary doesn't know [7.1]
			return
		case errors.Is(err, errOvertaken):
			r.logger.Info("the log has overtaken the checkpoint", "entry", o.Index)
		default:
			r.logger.Warn("fetching a checkpoint failed; the next offer is taken", "entry", o.Index, "node", o.Node, "error", err)
			pause(ctx, fetchPause)
		}
	}
}

// endEpoch has the apply goroutine give the clients up, and waits for it.
func (r *Replica) endEpoch(reason string) {
	ended := make(chan struct{})
	r.applies.put(
		applyJob{kind: jobEndEpoch, reason: reason},
		applyJob{kind: jobBarrier, waiters: []waiter{{done: func(bool) { close(ended) }}}},
	)
	select {
	case <-ended:
	case <-r.done:
	}
}

// errOvertaken: the log has brought the node past the checkpoint that it was fetching.
var errOvertaken = errors.New("the checkpoint isn't needed any more")

// fetch fetches a checkpoint; what breaks goes on where it was. note, where given, adds to what is fetched before it is complete.
func (r *Replica) fetch(ctx context.Context, o *Offer, note func(*store.Fetch) error) error {
	began, moved, have := time.Now(), time.Now(), int64(-1)
	for {
		f, err := r.fetchSome(ctx, o, note)
		if err == nil {
			r.logger.Info("a checkpoint is fetched and verified", "entry", o.Index, "bytes", f.Bytes(), "took", time.Since(began))
			return nil
		}
		switch {
		case errors.Is(err, store.ErrFetched), errors.Is(err, command.ErrNewer), errors.Is(err, errOvertaken), errors.Is(err, syscall.ENOSPC):
			return errors.Join(err, r.dir.DropFetch())
		case errors.Is(err, peer.ErrRefused), errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrVersion), ctx.Err() != nil:
			return err
		}
		if now := r.fetched.Load(); now != have {
			moved, have = time.Now(), now
		}
		if time.Since(moved) > fetchPatience {
			return err
		}
		r.logger.Debug("a fetch broke", "entry", o.Index, "node", o.Node, "error", err)
		pause(ctx, fetchPause)
	}
}

// fetchSome fetches on one connection what is missing, and verifies the whole.
func (r *Replica) fetchSome(ctx context.Context, o *Offer, note func(*store.Fetch) error) (*store.Manifest, error) {
	conn, err := r.peers.Fetch(ctx, o.Node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var manifest []byte
	err = conn.Get(o.ID, 0, 0, func(b []byte) error {
		if manifest = append(manifest, b...); len(manifest) > store.MaxManifestBytes {
			return fmt.Errorf("%w: a manifest of more than %d bytes", store.ErrFetched, store.MaxManifestBytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	f, err := r.dir.BeginFetch(manifest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if m := &f.Manifest; m.ID != o.ID || m.Index != o.Index || m.Term != o.Term {
		return nil, fmt.Errorf("%w: it is of entry %d, term %d; offered was entry %d, term %d", store.ErrFetched, m.Index, m.Term, o.Index, o.Term)
	}
	if note != nil {
		if err := note(f); err != nil {
			return nil, err
		}
	}
	for {
		file, offset, err := f.Next()
		if err != nil {
			return nil, err
		}
		if file == 0 {
			conn.Close()
			return &f.Manifest, f.Finish(group, checkDigest)
		}
		err = conn.Get(o.ID, file, offset, func(b []byte) error {
			r.fetched.Add(int64(len(b)))
			if r.state.AppliedIndex() >= o.Index {
				return errOvertaken
			}
			return f.Write(b)
		})
		if err == nil {
			err = f.Done()
		}
		if err != nil {
			return nil, err
		}
	}
}

// checkDigest compares the digest of a fetched state with what its maker found.
func checkDigest(m *store.Manifest, in *store.State) error {
	sum, err := digestOf(in)
	if err == nil && sum != m.Digest {
		err = fmt.Errorf("%w: its digest is %016x, its manifest says %016x", store.ErrFetched, sum, m.Digest)
	}
	return err
}

// until is a context that ends with stop. release ends it too, and waits for what watches stop.
func until(stop <-chan struct{}) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-stop:
		case <-ctx.Done():
		}
		cancel()
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// pause waits for d, and reports false at the end of ctx.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
