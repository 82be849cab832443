package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oncemq/oncemq/internal/mutant"
)

// A damaged directory may be mended without anybody's leave where it is certain that its node has lost no promise. That it may vote again then,
// and be counted for what it acknowledged, rests on this:
//
//   - Its hard state is certain: behind the last place that can't be read there is a newer one, and behind that nothing was synced once
//     (LogInspection.StateSound). So it votes as it would have voted.
//   - The end of its log is certain: the last piece goes up to it, and says itself where in the log it lies (not TailLost). What is
//     lost lies before that piece. So every entry that it has ever acknowledged, and that a later leader hasn't replaced, is in the mended log or under
//     its base; neither ends before the old one did.
//   - What goes before the last piece is the log's: a stretch of any log, present or past, of any node, is taken only where that log
//     has, directly at its upper end, an entry with the index and the term that the lowest one known here has, or where the stretch's last entry is the
//     one before that and of the same term: one leader made both. Raft's log matching says that all before
//     such an entry is the same everywhere. So are pieces of this log that lie lower: what is left there may have been replaced in the
//     part that is lost, and is taken only from an entry on downwards that matches.
//   - The state is one that was applied, so it holds committed entries only, and belongs at an index c that the log reaches down to. Where a
//     checkpoint goes beyond the log, or has another term at c, nothing that was here from c on was ever committed, or can be: the log
//     begins empty behind c, as raft does with a snapshot. What was committed up to c is in the checkpoint.
//   - The commit index only rises, to c, and the term to that of entry c; then the vote is free, as it is in a term that the node has never heard of.
//
// What isn't certain stays LostPromise, and only a leader makes up for it (Confirmed): two of three nodes with lost tails may be the only ones
// that had acknowledged an entry, and nobody can tell. So does what files can't say: that the disk has forgotten synced bytes at the very
// end. The next leader finds that out as for a node that was never damaged, and so does the state, whose applied index the log has to reach.
//
// Everything is put together in a new generation, beside what is there, and one write of the stamp decides, as for a checkpoint.

// mendName is the directory of entries that were fetched to mend the log.
const mendName = "mend"

// Salvage is what is left of a damaged directory, and what other nodes have given to mend it. Stretch, Checkpoint and their like may be called by any
// goroutine, but not beside Take, Drop and Mend, which one goroutine calls.
type Salvage struct {
	dir   *Dir
	in    *Inspection
	group uint16
	// parts are where the entries of the new log come from, the highest first; all from low up to last.
	parts     []salvagePart
	low, last uint64
	// anchor is the lowest entry that is known: low, or the one before.
	anchor Anchor
	unsure error // why the directory can't be mended without a leader
}

// salvagePart is some consecutive entries: of a piece, or of a file of a stretch.
type salvagePart struct {
	first, last uint64
	piece       *Piece
	path        string
}

// Salvage looks into the directory, whose log and state are closed, and marks it with what it finds beyond what it is marked with. look is called
// with the state where it can be read, as InspectOptions.State. The caller closes what is returned. Errors: ErrDisk, and of a directory that can't be listed.
func (d *Dir) Salvage(group uint16, look func(*State) error) (*Salvage, error) {
	in, err := Inspect(InspectOptions{Dir: d.path, FS: d.fs, Group: group, State: look, Locked: true})
	if err != nil {
		return nil, err
	}
	s := &Salvage{dir: d, in: in, group: group, unsure: unsure(in, d.Loss())}
	if err = s.mark(); err == nil && s.unsure == nil {
		s.begin()
		err = s.descend()
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return s, nil
}

// Close closes the files that it reads.
func (s *Salvage) Close() error { return s.in.Close() }

// unsure says why a directory's promise may be lost; nil where it isn't.
func unsure(in *Inspection, mark Loss) error {
	log, last := in.Log, in.Log.newest()
	switch {
	case mark&LostPromise != 0:
		return errors.New("entries that the node has acknowledged, or its vote, may be lost")
	case !in.StampRead || in.Voters == nil:
		return errors.New("the stamp or the list of nodes can't be read")
	case last == nil || log.TailLost:
		return errors.New("the end of the log is lost")
	case !log.StateSound:
		return errors.New("the newest term and vote are lost")
	case in.State.Opened && in.State.Applied > last.Last(), log.State.Commit > last.Last():
		return fmt.Errorf("the log ends with entry %d, and the node had entries up to %d", last.Last(), max(in.State.Applied, log.State.Commit))
	}
	return nil
}

// mark adds to the directory's marks what was found.
func (s *Salvage) mark() error {
	more := Loss(0)
	if s.unsure != nil {
		more |= LostPromise
	}
	if !s.in.State.Opened || len(s.in.State.Damage) > 0 {
		more |= LostState
	}
	if len(s.in.Log.Damage) > 0 {
		more |= LostLog
	}
	why := s.unsure
	if why == nil {
		why = errors.New("the state is gone")
	}
	if n := len(s.in.Damage); n > 0 {
		why = fmt.Errorf("%s: %s", s.in.Damage[n-1].Path, s.in.Damage[n-1].What)
	}
	return s.dir.SetLost(more, why)
}

// Unsure is nil where the directory can be mended with the help of any node, or of none; otherwise it says why only a leader can help.
func (s *Salvage) Unsure() error { return s.unsure }

// begin takes the last piece.
func (s *Salvage) begin() {
	p := s.in.Log.newest()
	s.low, s.last = p.Last()+1, p.Last()
	s.take(salvagePart{first: p.First(), last: p.Last(), piece: p}, p.before())
}

// before is the term of the entry before the first one, 0 where it isn't known.
func (p *Piece) before() uint64 {
	term, err := p.Term(p.First() - 1)
	if err != nil {
		return 0
	}
	return term
}

// take adds a part whose entries go up to low-1, and of which the term of the one before may be known.
func (s *Salvage) take(part salvagePart, before uint64) {
	if part.first <= part.last {
		s.parts = append(s.parts, part)
	}
	s.low = part.first
	switch {
	case s.low == 1:
		s.anchor = Anchor{}
	case before > 0:
		s.anchor = Anchor{s.low - 1, before}
	case part.first <= part.last:
		term, err := s.term(s.low)
		if err == nil {
			s.anchor = Anchor{s.low, term}
		}
	}
}

// term is that of an entry of the new log, or of the anchor.
func (s *Salvage) term(index uint64) (uint64, error) {
	if index == s.anchor.Index {
		return s.anchor.Term, nil
	}
	for _, part := range s.parts {
		if index < part.first || index > part.last {
			continue
		}
		if part.piece != nil {
			return part.piece.Term(index)
		}
		x, err := s.dir.readStretch(part.path)
		if err != nil {
			return 0, err
		}
		return x.Entries[index-x.Entries[0].Index].Term, nil
	}
	return 0, fmt.Errorf("term of entry %d: %w", index, ErrUnavailable)
}

// descend goes down as far as what is here allows: pieces of the log, and stretches that were fetched before.
func (s *Salvage) descend() error {
	for {
		low, anchor := s.low, s.anchor
		for _, p := range s.in.Log.Pieces {
			s.join(p)
		}
		if err := s.stored(); err != nil {
			return err
		}
		if s.low == low && s.anchor == anchor {
			return nil
		}
	}
}

// join takes a piece of the log below, if it has the anchor, or the entry before it and that of the same term.
func (s *Salvage) join(p *Piece) {
	if s.anchor.Index == 0 || p.First() > s.low-1 || p.Last() < s.low-1 {
		return
	}
	for _, index := range []uint64{s.anchor.Index, s.low - 1} {
		if term, err := p.Term(index); err == nil && index <= p.Last() && term == s.anchor.Term {
			s.take(salvagePart{first: p.First(), last: s.low - 1, piece: p}, p.before())
			return
		}
	}
}

// stored takes a stretch that was fetched, if there is one that ends where it is needed.
func (s *Salvage) stored() error {
	names, err := s.dir.fs.List(s.dir.Path(mendName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", s.dir.Path(mendName), err)
	}
	slices.Sort(names)
	for _, name := range names {
		if last, ok := parseStretchName(name); !ok || last != s.low-1 || s.low == 0 {
			continue
		}
		path := s.dir.fs.PathJoin(s.dir.Path(mendName), name)
		x, err := s.dir.readStretch(path)
		if err == nil {
			err = x.check(s.anchor, s.low-1)
		}
		if err == nil {
			s.take(salvagePart{first: x.Entries[0].Index, last: s.low - 1, path: path}, x.Before)
			return nil
		}
		if err := s.dir.fs.Remove(path); err != nil {
			return fmt.Errorf("removing %s, which is of no use: %w", path, err)
		}
	}
	return nil
}

// Wants is what is to be asked of other nodes so that the log goes down to a state of entry floor; false where it does.
func (s *Salvage) Wants(floor uint64) (q StretchQuery, ok bool) {
	if s.unsure != nil || s.anchor.Index <= floor {
		return q, false
	}
	return StretchQuery{Lowest: max(floor, 1), Last: s.low - 1, Anchor: s.anchor.Index}, true
}

// Take takes a node's answer to the last Wants, durably. Errors: ErrStretch where it isn't of this log, ErrDisk, ErrFull.
func (s *Salvage) Take(x *Stretch) error {
	if err := x.check(s.anchor, s.low-1); err != nil {
		return err
	}
	if err := s.dir.writeStretch(x); err != nil {
		return err
	}
	return s.descend()
}

// State is the entry up to which the directory's own state goes; false where that can't be used.
func (s *Salvage) State() (applied uint64, ok bool) {
	return s.in.State.Applied, s.dir.Loss()&LostState == 0
}

// Needs is the least entry up to which a checkpoint has to go that the log is to follow on.
func (s *Salvage) Needs() uint64 { return max(s.anchor.Index, 1) }

// Whole reports that there is all that Mend needs, without a checkpoint: the own state and all entries behind it, or all entries there ever were.
func (s *Salvage) Whole() bool {
	applied, ok := s.State()
	return s.unsure == nil && (s.anchor.Index == 0 || ok && s.anchor.Index <= applied)
}

// footing is what a mended log stands on: the entry before its first one, its last one (the same: it is empty), its hard state, and the entry up to which the state goes.
type footing struct {
	base    Anchor
	last    uint64
	hard    HardState
	applied uint64
}

// stand says how the log goes on behind a checkpoint, or behind the own state where m is nil. Errors: ErrFetched.
func (s *Salvage) stand(m *Manifest) (footing, error) {
	f := footing{base: s.anchor, last: s.last, hard: s.in.Log.State}
	if m == nil {
		f.applied, _ = s.State()
		if s.dir.Loss()&LostState != 0 {
			f.applied = 0
		}
		f.hard.Commit = max(f.hard.Commit, f.applied)
		return f, nil
	}
	f.applied = m.Index
	if m.Index < s.Needs() && !mutant.On(mutant.StateBelowLog) {
		return f, fmt.Errorf("%w: it goes up to entry %d, and the log that is left begins behind %d", ErrFetched, m.Index, s.anchor.Index)
	}
	if m.Index <= s.last && !mutant.On(mutant.StateBelowLog) {
		switch term, err := s.term(m.Index); {
		case err != nil:
			return f, err
		case term != m.Term && m.Index <= f.hard.Commit:
			return f, fmt.Errorf("%w: its last entry, %d, is of term %d, and here one of term %d was committed", ErrFetched, m.Index, m.Term, term)
		case term != m.Term:
			f.base, f.last = Anchor{m.Index, m.Term}, m.Index
		}
	} else if m.Index > s.last {
		f.base, f.last = Anchor{m.Index, m.Term}, m.Index
	}
	if m.Term > f.hard.Term {
		f.hard.Term, f.hard.Vote = m.Term, 0
	}
	f.hard.Commit = max(f.hard.Commit, m.Index)
	return f, nil
}
