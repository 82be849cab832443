package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/mutant"
)

// Anchor is an entry that a log certainly has. Two logs that have an entry with the same index and term have the same entries before
// it (raft's log matching), whatever became of either of them since. An entry of the same term that lies before the anchor is the log's too,
// wherever it was found: a term has one leader, which made both, and never replaced any of its own.
type Anchor struct{ Index, Term uint64 }

// StretchQuery asks for entries of a log that lie before one that it has.
type StretchQuery struct {
	// Lowest to Last are wanted, Last first: what doesn't fit into one answer is missing at the lower end.
	Lowest, Last uint64
	// Anchor is the index of the known entry: Last, or the one behind it. Where a log hasn't that, Last stands for it in the answer.
	Anchor uint64
}

// Stretch is entries that a log has one behind the other, up to its entry Anchor or the one before that.
type Stretch struct {
	Anchor Anchor
	// Before is the term of the entry before the first one; 0: not known, or there is none.
	Before  uint64
	Entries []Entry
}

const (
	// stretchBytes and stretchCount are how much one answer brings, but for an entry that is larger.
	stretchBytes = 1 << 20
	stretchCount = 1024
	// MaxStretchBytes is the longest encoding that is read.
	MaxStretchBytes = 16 << 20
)

// ErrStretch says that the entries that another node has answered with aren't those of this log, or nothing that can be entries.
var ErrStretch = errors.New("oncemq: the fetched entries can't be used")

// Stretch answers a query; ok is false where the log hasn't its entry Last. It may be called by any goroutine.
// Errors: ErrCorrupt.
func (l *Log) Stretch(q StretchQuery) (s Stretch, ok bool, err error) {
	l.mu.RLock()
	first, last, replaced := l.base()+1, l.lastIndex(), l.replaced
	l.mu.RUnlock()
	if q.Last < first || q.Last > last || q.Anchor < q.Last || q.Lowest > q.Last {
		return s, false, nil
	}
	lo := max(q.Lowest, first, q.Last-min(stretchCount, q.Last)+1)
	for {
		if s.Entries, err = l.Entries(nil, lo, q.Last+1, stretchBytes); err != nil {
			return Stretch{}, false, unlessCut(err)
		}
		if n := uint64(len(s.Entries)); n == q.Last-lo+1 {
			break
		}
		lo = q.Last - (q.Last-lo)/2
	}
	s.Anchor.Index = q.Anchor
	if q.Anchor > last {
		s.Anchor.Index = q.Last
	}
	if s.Anchor.Term, err = l.Term(s.Anchor.Index); err == nil {
		s.Before, err = l.Term(lo - 1)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	// Entries that a new leader has replaced meanwhile aren't of one log.
	return s, err == nil && l.replaced == replaced, unlessCut(err)
}

// unlessCut drops an error that says that entries were cut or replaced meanwhile.
func unlessCut(err error) error {
	if errors.Is(err, ErrCut) || errors.Is(err, ErrUnavailable) {
		return nil
	}
	return err
}

// Stretch is Log.Stretch for the piece.
func (p *Piece) Stretch(q StretchQuery) (s Stretch, ok bool, err error) {
	if s, ok, err = p.log.Stretch(q); ok && p.baseless && s.Entries[0].Index == p.First() {
		s.Before = 0
	}
	return s, ok, err
}

// check says whether the stretch is what goes before an anchor, up to and with the entry last: the anchor itself, or the one before it.
// Nothing in it is trusted but what an entry holds.
func (s *Stretch) check(a Anchor, last uint64) error {
	wrong := func(what string) error { return fmt.Errorf("%w: %s", ErrStretch, what) }
	n := len(s.Entries)
	switch {
	case n == 0 || s.Anchor.Index != a.Index && s.Anchor.Index != last || s.Entries[n-1].Index != last:
		return wrong(fmt.Sprintf("there are %d, before entry %d; those up to %d are wanted, before %d", n, s.Anchor.Index, last, a.Index))
	case last == s.Anchor.Index && s.Entries[n-1].Term != s.Anchor.Term:
		return wrong(fmt.Sprintf("entry %d has two terms", last))
	case s.Anchor != a && s.Entries[n-1].Term != a.Term && !mutant.On(mutant.RangeUnanchored):
		return wrong(fmt.Sprintf("they go up to entry %d of term %d, before entry %d of term %d, and here entry %d is of term %d: it may be another log",
			last, s.Entries[n-1].Term, s.Anchor.Index, s.Anchor.Term, a.Index, a.Term))
	}
	term := s.Before
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.Index == 0 || e.Index != s.Entries[0].Index+uint64(i) || e.Term == 0 || e.Term < term || e.Term > s.Anchor.Term {
			return wrong(fmt.Sprintf("entry %d of term %d behind one of term %d", e.Index, e.Term, term))
		}
		term = e.Term
	}
	if s.Entries[0].Index == 1 && s.Before != 0 {
		return wrong("there is one before the first")
	}
	return nil
}

// AppendTo encodes the stretch behind dst; docs/format/peer.md draws it.
func (s *Stretch) AppendTo(dst []byte) []byte {
	first := uint64(0)
	if len(s.Entries) > 0 {
		first = s.Entries[0].Index
	}
	for _, v := range []uint64{s.Anchor.Index, s.Anchor.Term, s.Before, first, uint64(len(s.Entries))} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		dst = append(binary.AppendUvarint(dst, e.Term), e.Type)
		dst = append(binary.AppendUvarint(dst, uint64(len(e.Data))), e.Data...)
	}
	return dst
}

// DecodeStretch reads what AppendTo made, from wherever it comes; the entries' data is b's. Errors: ErrStretch.
func DecodeStretch(b []byte) (s Stretch, err error) {
	d := manifestReader{b: b}
	s.Anchor.Index, s.Anchor.Term, s.Before = d.uint(0), d.uint(0), d.uint(0)
	first := d.uint(1<<63 - 1)
	for n, i := d.uint(1<<20), uint64(0); i < n && !d.bad; i++ {
		e := Entry{Index: first + i, Term: d.uint(0)}
		if t := d.take(1); len(t) == 1 {
			e.Type = t[0]
		}
		e.Data = d.take(int(d.uint(MaxStretchBytes)))
		s.Entries = append(s.Entries, e)
	}
	if d.bad || len(d.b) > 0 || len(b) > MaxStretchBytes {
		return Stretch{}, fmt.Errorf("%w: %d bytes that aren't a list of entries", ErrStretch, len(b))
	}
	return s, nil
}
