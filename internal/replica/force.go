package replica

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// A cluster that has lost its majority for good can't go on: nobody may say what it has committed. An operator may let one of the
// nodes that are left go on as another cluster, of that node alone [8.7]: with everything that its log has, committed or not, and in a
// new history, in which nothing is believed that the old one has promised and this node doesn't know.

// Forecast is what the new cluster of a survivor begins with, and what may be lost.
type Forecast struct {
	// Owner and Voters are those of the directory as it is.
	Owner
	Voters []uint64
	// Last and Term are the entry up to which everything is there. Commit is the last one known to be committed; those behind it may never have been
	// accepted anywhere, and hold from then on.
	Last, Term, Commit uint64
	// LogLast is where the log ends as far as it can be read, above Last where something before it can't be; TailLost: its end is
	// lost as well.
	LogLast  uint64
	TailLost bool
	// Damage is what is wrong with the directory.
	Damage []store.Damage
	// Queues, Messages, Users and Sessions are those of the state as it is, before the entries that it lacks.
	Queues, Users, Sessions int
	Messages                uint64
}

// ForceOptions are what ForceNewCluster makes of a directory.
type ForceOptions struct {
	// Dir is the data directory of the survivor, which isn't running; in FS (nil: the operating system's).
	Dir string
	FS  store.FS
	// Cluster is the new cluster's id, History the next of its directory's.
	Cluster [16]byte
	History uint16
}

// survivor is a directory that is looked into for a forced recovery.
type survivor struct {
	Forecast
	in    *store.Inspection
	fresh bool // the state is made from the log alone
	from  uint64
	skips Skips // entries to be passed over [4.4]
}

// Foresee says what a forced recovery of a directory would keep and lose, and changes nothing. Errors: those of store.Inspect, and of a
// directory that can't be the survivor's.
func Foresee(files store.FS, dir string) (*Forecast, error) {
	s, err := survey(files, dir, false)
	if err != nil {
		return nil, err
	}
	return &s.Forecast, s.in.Close()
}

// survey looks into a directory; the caller closes in.
func survey(files store.FS, dir string, locked bool) (*survivor, error) {
	s := &survivor{}
	in, err := store.Inspect(store.InspectOptions{Dir: dir, FS: files, Group: group, Locked: locked, State: s.count})
	if err != nil {
		return nil, err
	}
	s.in, s.Damage = in, in.Damage
	if err := s.plan(); err != nil {
		in.Close()
		return nil, err
	}
	return s, nil
}

// count loads the state and counts what is in it.
func (s *survivor) count(in *store.State) error {
	m, err := loadMachine(in)
	if err != nil {
		return err
	}
	for _, q := range m.Queues() {
		s.Queues++
		s.Messages += q.Depth
	}
	s.Users, s.Sessions = len(m.Users()), m.Sessions()
	return nil
}

// plan finds up to which entry everything is there.
func (s *survivor) plan() error {
	in := s.in
	if !in.StampRead {
		return fmt.Errorf("%w: %s has no stamp that can be read; put it back first: oncemq fsck says more", store.ErrCorrupt, in.Path)
	}
	s.Owner = Owner{Node: command.NodeID(in.Stamp.Node), Cluster: in.Stamp.Cluster, History: in.Stamp.History}
	s.Voters, s.Commit, s.TailLost = in.Voters, in.Log.State.Commit, in.Log.TailLost
	pieces := in.Log.Pieces
	if n := len(pieces); n > 0 {
		s.LogLast = pieces[n-1].Last()
	}
	s.fresh = !in.State.Opened || len(in.State.Damage) > 0
	if s.fresh && (len(pieces) == 0 || pieces[0].First() != 1) {
		return fmt.Errorf("%w: the state in %s can't be used, and the log doesn't reach back to the first entry, so that nothing can be made of this directory; use another survivor, or a backup", store.ErrCorrupt, in.State.Path)
	}
	if !s.fresh {
		s.from = in.State.Applied
	}
	s.Last, s.Term = s.from, in.Log.State.Term
	for _, p := range pieces {
		if p.First() > s.Last+1 {
			break // what lies between is lost, and with it what follows
		}
		if p.Last() < s.Last {
			continue
		}
		s.Last = p.Last()
		if term, err := p.Term(s.Last); err == nil {
			s.Term = term
		}
	}
	if s.Last == 0 {
		return fmt.Errorf("%w: nothing was ever accepted in %s", store.ErrNothing, in.Path)
	}
	if s.History == 1<<16-1 {
		return fmt.Errorf("oncemq: %s is of the last of 65,536 histories; there is none behind it", in.Path)
	}
	return nil
}

// ForceNewCluster makes the directory of a survivor that of the only node of a new cluster: everything that its log has is applied, and
// a new history begins. One atomic write decides; before it, nothing of the directory is changed. The node must not be running.
// Errors: those of Foresee, store.ErrDisk, and of entries that can't be applied.
func ForceNewCluster(o ForceOptions) error {
	owner, _, err := store.Whose(o.FS, o.Dir)
	if err != nil {
		return err
	}
	d, err := store.Open(store.Options{Dir: o.Dir, FS: o.FS, Node: owner.Node, SafetyOff: owner.SafetyOff})
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := survey(o.FS, o.Dir, true)
	if err != nil {
		return err
	}
	defer s.in.Close()
	if s.skips, err = d.Skips(); err != nil {
		return err
	}
	return d.Renew(store.Renewal{
		Cluster: o.Cluster, History: o.History, Index: s.Last, Term: s.Term, Fresh: s.fresh, Segment: s.in.Log.LastSegment + 1,
		// Nobody else is there who could know of a vote that this node has forgotten.
		Hard: store.HardState{Term: max(s.Term, s.in.Log.State.Term)},
	}, store.LogOptions{Group: group}, store.StateOptions{Group: group}, s.bring)
}

// bring applies what the state lacks. Changes of the configuration are passed over: the new history has its own.
func (s *survivor) bring(to *store.State) error {
	m, err := loadMachine(to)
	if err != nil {
		return err
	}
	batch := new(store.Batch)
	for _, p := range s.in.Log.Pieces {
		for at := to.AppliedIndex(); at < s.Last && p.First() <= at+1 && at < p.Last(); at = to.AppliedIndex() {
			entries, err := p.Entries(nil, at+1, min(p.Last(), s.Last)+1, groupBytes)
			if err != nil {
				return err
			}
			for i := range entries {
				if err := s.bringEntry(m, &entries[i], batch); err != nil {
					return err
				}
			}
			if err := to.Apply(batch, at+uint64(len(entries))); err != nil {
				return err
			}
		}
	}
	return nil
}

// bringEntry applies an entry, for its changes alone, or passes over it, where the directory says so.
func (s *survivor) bringEntry(m machine, e *store.Entry, batch *store.Batch) error {
	if e.Type != 0 || len(e.Data) == 0 {
		return nil
	}
	if slices.Contains(s.skips, store.Skip{Index: e.Index, Term: e.Term}) {
		return m.Skip(e.Index, e.Data, batch)
	}
	_, err := guarded(m, e.Index, e.Term, e.Data, batch, nil)
	if p := (*applyPanic)(nil); errors.As(err, &p) {
		return fmt.Errorf("%w\n%s", err, p.stack)
	}
	return err
}
