package fsck

import (
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// group is the one raft group.
const group = 0

// Options says which directory is looked into.
type Options struct {
	// Dir is the data directory.
	Dir string
}

// checker is a check under way.
type checker struct {
	in      *store.Inspection
	out     *Report
	machine *state.Machine // nil where it couldn't be loaded
	bodies  []string       // what is wrong with them
}

// Check looks into a directory and changes nothing. The node must not be running. What is damaged is no error, but stands in
// the report. Errors: store.ErrNothing, store.ErrLocked.
func Check(opts Options) (*Report, error) {
	c := &checker{out: &Report{Directory: opts.Dir}}
	in, err := store.Inspect(store.InspectOptions{Dir: opts.Dir, Group: group, State: c.load})
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("stop the node that works on it first: %w", err)
	}
	if err != nil {
		return nil, err
	}
	c.in = in
	c.describe()
	for _, what := range c.bodies {
		c.add(store.Damage{Part: store.PartState, Path: in.State.Path, What: what})
	}
	c.entries()
	c.identity()
	c.damages()
	c.lost()
	c.advise()
	return c.out, in.Close()
}

// load loads the state as a start does.
func (c *checker) load(s *store.State) error {
	m, err := replica.LoadMachine(s)
	if err != nil {
		return fmt.Errorf("the tables are sound, but what is in them can't be understood: %w", err)
	}
	c.machine = m
	st := &StateReport{}
	for _, q := range m.Queues() {
		st.Queues++
		st.Messages += q.Depth
	}
	st.Users, st.Sessions = len(m.Users()), m.Sessions()
	c.out.State = st
	r, err := state.CheckBodies(group, reader{s})
	if err != nil {
		return fmt.Errorf("the messages' bodies can't be read: %w", err)
	}
	st.Bodies, st.BodyBytes, st.Orphans = r.Bodies, r.Bytes, r.Orphans
	c.bodies = r.Wrong
	if more := r.Faults - uint64(len(r.Wrong)); more > 0 {
		c.bodies = append(c.bodies, fmt.Sprintf("and %d more are wrong", more))
	}
	return nil
}

// reader is a state.KeyReader.
type reader struct{ *store.State }

// Range implements state.KeyReader.
func (r reader) Range(from, to []byte) (state.Cursor, func() error) {
	var err error
	next, stop := iter.Pull2(func(yield func(k, v []byte) bool) { err = r.IterateRange(from, to, yield) })
	return next, func() error { stop(); return err }
}

// describe puts into the report what is there.
func (c *checker) describe() {
	in, out := c.in, c.out
	if in.StampRead {
		s := in.Stamp
		out.Node, out.Cluster, out.History, out.Generation = s.Node, hex.EncodeToString(s.Cluster[:]), s.History, in.Generation
		out.SafetyOff = s.SafetyOff
	}
	out.Voters, out.Notes = in.Voters, in.Notes
	l := in.Log
	out.Log = &LogReport{
		Segments: l.Segments, Bytes: l.Bytes, Term: l.State.Term, Vote: l.State.Vote, Commit: l.State.Commit,
		HardStateSound: l.StateSound, TailLost: l.TailLost, Pieces: []Range{},
	}
	for _, p := range l.Pieces {
		out.Log.Pieces = append(out.Log.Pieces, Range{p.First(), p.Last()})
	}
	if out.State == nil {
		out.State = &StateReport{}
	}
	if n := out.State.Orphans; n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d bodies in the state belong to no message; they take room, and harm nothing", n))
	}
	out.State.Applied, out.State.Tables, out.State.Bytes = in.State.Applied, in.State.Tables, in.State.Bytes
}

// readBytes is about how much of the log is read at once.
const readBytes = 4 << 20

// entries reads and decodes every entry of the log.
func (c *checker) entries() {
	for _, p := range c.in.Log.Pieces {
		for next := p.First(); next <= p.Last(); {
			entries, err := p.Entries(nil, next, p.Last()+1, readBytes)
			if err != nil || len(entries) == 0 {
				c.add(store.Damage{Part: store.PartLog, Path: c.in.Log.Path, What: fmt.Sprintf("entry %d can't be read: %v", next, err)})
				return
			}
			for i := range entries {
				if err := decode(&entries[i]); err != nil {
					c.add(store.Damage{Part: store.PartLog, Path: c.in.Log.Path, What: fmt.Sprintf("entry %d has the right checksum and can't be understood: %v", entries[i].Index, err)})
					return
				}
			}
			next += uint64(len(entries))
		}
	}
}

// decode decodes an entry and the records in it. Changes of the configuration are raft's.
func decode(e *store.Entry) error {
	if e.Type != 0 || len(e.Data) == 0 {
		return nil
	}
	_, records, err := command.DecodeEntry(e.Data)
	for err == nil && len(records) > 0 {
		_, records, err = command.DecodeRecord(records)
	}
	return err
}

func (c *checker) add(d store.Damage) { c.in.Damage = append(c.in.Damage, d) }

// identity compares the stamp with what the state says of itself.
func (c *checker) identity() {
	if c.machine == nil || !c.in.StampRead {
		return
	}
	cluster, history, ok := c.machine.Cluster()
	stamp := c.in.Stamp
	if !ok || history == stamp.History && cluster == stamp.Cluster || history < stamp.History {
		return // not founded yet, or a new history has not begun yet
	}
	c.add(store.Damage{Part: store.PartBounds, Path: c.in.Base, What: fmt.Sprintf(
		"the stamp is of cluster %x, history %d, the state of cluster %x, history %d", stamp.Cluster, stamp.History, cluster, history)})
}

// damages puts what is wrong into the report.
func (c *checker) damages() {
	for _, d := range c.in.Damage {
		c.out.Damage = append(c.out.Damage, Damage{
			Part: string(d.Part), Path: d.Path, Offset: d.Offset, Bytes: d.Bytes, What: d.What,
		})
		c.out.Newer = c.out.Newer || d.Newer
	}
	c.out.Sound = len(c.out.Damage) == 0
}
