package store

import "fmt"

// Piece is a stretch of a log that can be read, up to the Close of its Inspection. Its methods may be called by any goroutine.
type Piece struct {
	// Joined: it goes on exactly where the piece before ends: of what lies between nothing was lost that the log needs.
	Joined bool

	log *Log // for reading only
	// blank: neither an entry nor a base was found yet, so that it isn't known where in the log it lies.
	blank    bool
	baseless bool // the term of the entry before the first isn't known
	state    HardState
	stateAt  position // where the newest hard state was found; 0, 0 where none was
	wrong    []Damage // whole batches say what can't be
}

// First is the index of its first entry.
func (p *Piece) First() uint64 { return p.log.FirstIndex() }

// Last is the index of its last entry; First-1 where it has none.
func (p *Piece) Last() uint64 { return p.log.LastIndex() }

// Term is the term of an entry of the piece, or of the one before it where that is known. Errors: ErrCut, ErrUnavailable.
func (p *Piece) Term(index uint64) (uint64, error) {
	if (p.baseless || p.blank) && index < p.First() {
		return 0, fmt.Errorf("term of entry %d: %w", index, ErrCut)
	}
	return p.log.Term(index)
}

// Entries is Log.Entries for the piece.
func (p *Piece) Entries(dst []Entry, lo, hi, maxBytes uint64) ([]Entry, error) {
	return p.log.Entries(dst, lo, hi, maxBytes)
}

// begin begins a piece with the batch at hand.
func (s *logScan) begin(seg *segment, body []byte) {
	p := &Piece{blank: true, log: &Log{dir: s.dir, fs: s.dir.fs, dirPath: s.Path, opts: LogOptions{Group: s.group}, index: index{terms: []termRun{{}}}}}
	var r record
	if n := r.decode(body, seg.salt); n > 0 && r.kind == kindBase && s.newest() != nil {
		// A segment's first batch says where the one before ended: perhaps only its header is lost.
		before := s.newest()
		live := before.log.live
		p.Joined = !before.blank && live[len(live)-1].seq != seg.seq && r.index == before.Last() && before.log.termOf(r.index) == r.term
	}
	s.Pieces = append(s.Pieces, p)
	s.open = false
}

// learn takes from a whole batch, before it is replayed, where the piece lies and what the entry before its first is. Behind a place that
// can't be read the first that comes may be a vote, which says nothing of that; then an entry, which says its own index; or a new leader's
// base, which says both, also later.
func (p *Piece) learn(body []byte, salt uint32) {
	if !p.blank && !p.baseless {
		return
	}
	var r record
	for at := 0; at < len(body); {
		n := r.decode(body[at:], salt)
		if n == 0 {
			return
		}
		at += n
		switch {
		case r.kind == kindBase && (p.blank || r.index == p.log.base()):
			p.log.terms[0] = termRun{r.index, r.term}
			p.blank, p.baseless = false, false
			return
		case r.kind == kindBase && r.index < p.log.base():
			p.baseless = false // the replay begins the piece anew there
			return
		case r.kind == kindEntry && p.blank && r.index > 0:
			p.log.terms[0] = termRun{from: r.index - 1}
			p.blank, p.baseless = false, true
		}
	}
}
