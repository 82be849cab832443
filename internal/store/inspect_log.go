package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// LogInspection is what the files of a log hold, also where some of them are damaged.
type LogInspection struct {
	Path string
	// Segments is how many files there are, Batches how many appends that are whole, Bytes the length of these.
	Segments, Batches int
	Bytes             int64
	// Pieces are the stretches that can be read, in ascending order, without overlaps. One and no Damage: that is the log.
	// Between two of them something was synced once that can't be read. Missing says which entries that were. What is lost there
	// may besides have replaced entries at the end of the pieces before, above the commit index. So only the entries of the last piece are
	// certain to be the log's, and whatever another node has before the first of them, if it has that one with the same term
	// (log matching).
	Pieces []*Piece
	// Damage is what is wrong, in the order of the log.
	Damage []Damage
	// TailLost: behind the last piece something was synced once. Nobody knows up to which entry.
	TailLost bool
	// State is the newest hard state found. StateSound: a newer one can't have been acknowledged; otherwise term and vote may
	// have been higher.
	State      HardState
	StateSound bool
	// LastSegment is the number of the last file: a new log goes on behind it, since no number comes twice.
	LastSegment uint64

	files []*segment
}

// Range is a range of entries, both ends included; empty where Last is First-1.
type Range struct{ First, Last uint64 }

// Missing are the entries between the pieces, one range for each two of them; empty ones where none is missing for certain. What
// is lost behind the last piece (TailLost) isn't among them.
func (x *LogInspection) Missing() []Range {
	var missing []Range
	for i := 1; i < len(x.Pieces); i++ {
		missing = append(missing, Range{x.Pieces[i-1].Last() + 1, x.Pieces[i].First() - 1})
	}
	return missing
}

// newest is the last piece, nil where there is none.
func (x *LogInspection) newest() *Piece {
	if len(x.Pieces) == 0 {
		return nil
	}
	return x.Pieces[len(x.Pieces)-1]
}

func (x *LogInspection) close() {
	for _, seg := range x.files {
		seg.file.Close()
	}
	x.files = nil
}

// logScan reads all segments from front to back. What it finds are stretches of whole batches that follow on each other,
// and holes between them. Whether a hole is damage, or what was never acknowledged, is decided at the end, by the rules
// of recovery: docs/format/log.md, "Where the log ends".
type logScan struct {
	*LogInspection
	dir   *Dir
	group uint16
	heads []segmentHead

	prev     uint32   // checksum of the last batch header, 0: not known
	tip      position // behind the last whole batch
	evidence position // the highest position that anything says was synced
	holes    []hole
	open     bool // the last hole goes on
	foreign  bool // a segment isn't of this directory, or of a newer version
}

// hole is a place that can't be read.
type hole struct {
	at      position
	tip     position // where the batches before it end
	pieces  int      // how many pieces lie before it
	certain bool     // there were synced bytes, whatever the marks say
	damage  []Damage
}

// segmentHead is a file and what its first block says.
type segmentHead struct {
	seg   *segment
	h     segmentHeader
	begun bool // h is whole and of this number
	err   error
}

// inspectLog reads the log of a directory.
func inspectLog(d *Dir, group uint16) *LogInspection {
	s := &logScan{LogInspection: &LogInspection{Path: d.fs.PathJoin(d.base(), logName), StateSound: true}, dir: d, group: group}
	if seqs := s.list(); len(seqs) > 0 {
		s.tip = position{seqs[0], 0}
		for _, seq := range seqs {
			s.heads = append(s.heads, s.head(seq))
		}
		for i := range s.heads {
			s.segment(i)
		}
		s.judge()
	}
	return s.LogInspection
}

func (s *logScan) path(seq uint64) string { return s.dir.fs.PathJoin(s.Path, segmentName(seq)) }

func (s *logScan) damage(path string, offset, bytes int64, format string, args ...any) {
	s.Damage = append(s.Damage, Damage{Part: PartLog, Path: path, Offset: offset, Bytes: bytes, What: fmt.Sprintf(format, args...)})
}

// list is the numbers of the segments.
func (s *logScan) list() (seqs []uint64) {
	names, err := s.dir.fs.List(s.Path)
	for _, name := range names {
		if seq, ok := parseSegmentName(name); ok {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	if s.Segments = len(seqs); s.Segments > 0 {
		s.LastSegment = seqs[len(seqs)-1]
		return seqs
	}
	if s.dir.stamp.hasLog {
		what := "all segments of the log are gone"
		if err != nil {
			what = fmt.Sprintf("the log can't be listed: %v", err)
		}
		s.damage(s.Path, 0, 0, "%s", what)
		s.TailLost, s.StateSound = true, false
	}
	return nil
}

// head opens a segment and reads its header.
func (s *logScan) head(seq uint64) (head segmentHead) {
	head.seg = &segment{seq: seq, salt: salt(s.dir.key, seq), inUse: new(sync.RWMutex)}
	if head.seg.file, head.err = s.dir.fs.Open(s.path(seq)); head.err != nil {
		return head
	}
	s.files = append(s.files, head.seg)
	block := make([]byte, blockBytes)
	if _, head.err = readFull(head.seg.file, block, 0); head.err == nil {
		head.begun = head.h.decode(block) && head.h.seq == seq
	}
	return head
}

// segment reads one segment.
func (s *logScan) segment(i int) {
	head := &s.heads[i]
	seq := head.seg.seq
	if i > 0 && seq != s.heads[i-1].seg.seq+1 {
		gone := s.heads[i-1].seg.seq + 1
		s.lost(position{gone, 0}, true, Damage{Path: s.path(gone), What: fmt.Sprintf("missing, as all segments up to %s", segmentName(seq))})
	}
	if head.err != nil {
		s.lost(position{seq, 0}, true, Damage{Path: s.path(seq), Bytes: blockBytes, What: fmt.Sprintf("can't be read: %v", head.err)})
		if head.seg.file == nil {
			return
		}
	}
	i++
	limit := int64(1) << 62 // where the next segment says that this one ends
	if i < len(s.heads) && s.heads[i].begun {
		if end := s.heads[i].h.prevEnd; end.seq == seq {
			limit = int64(end.offset)
		}
	}
	if head.begun {
		s.check(head)
		s.note(head.h.mark)
		if (len(s.Pieces) > 0 || len(s.holes) > 0) && (head.h.prevEnd != s.tip || head.h.prevCRC != s.prev) && !s.open {
			s.lost(position{seq, 0}, false, Damage{Path: s.path(seq), What: "does not follow on what can be read before it"})
		}
		s.prev = head.h.crc
	} else {
		s.prev = 0
	}
	s.batches(head, limit)
}

// check complains about a segment of another directory or a newer version.
func (s *logScan) check(head *segmentHead) {
	stamp, path := &s.dir.stamp, s.path(head.seg.seq)
	if head.h.version > logVersion {
		s.foreign = true
		s.Damage = append(s.Damage, Damage{Part: PartLog, Path: path, Newer: true, What: fmt.Sprintf("has format %d, this program knows %d", head.h.version, logVersion)})
	}
	if head.h.node != stamp.Node || head.h.cluster != [16]byte{} && head.h.cluster != stamp.Cluster {
		s.foreign = true
		s.damage(path, 0, segmentHeaderBytes, "was written by node %d of cluster %x, the directory is that of node %d of cluster %x",
			head.h.node, head.h.cluster, stamp.Node, stamp.Cluster)
	}
}

// batches reads the batches of a segment, and what lies behind a place that can't be read. From limit on there may be what is left of an append
// that was never acknowledged, for which nobody looks; or the log goes on there, and the next segment is what is left of one.
func (s *logScan) batches(head *segmentHead, limit int64) {
	seg, path := head.seg, s.path(head.seg.seq)
	win := window{file: seg.file}
	found := head.begun // a file without a header is one that isn't begun, unless there is a batch in it
	for offset := int64(blockBytes); ; {
		b, body, err := win.batch(seg.seq, seg.salt, offset)
		if offset >= limit && (err != nil || body == nil || b.prev != s.prev || s.open) {
			return
		}
		at, n := position{seg.seq, uint32(offset)}, roundUp(batchHeaderBytes+int64(b.length))
		switch {
		case win.size > 0 && offset >= win.size || win.size == 0 && offset > blockBytes:
			return
		case err != nil:
			n = blockBytes
			s.lost(at, true, Damage{Path: path, Offset: offset, Bytes: n, What: fmt.Sprintf("the disk can't read it: %v", err)})
		case b.records == 0:
			n = blockBytes
			if found {
				s.lost(at, false, Damage{Path: path, Offset: offset, Bytes: n, What: "can't be read"})
			}
		default:
			if !found {
				s.lost(position{seg.seq, 0}, false, Damage{Path: path, Bytes: offset, What: "the header of the segment can't be read"})
			}
			found = true
			s.note(b.mark)
			if body == nil {
				s.lost(at, false, Damage{Path: path, Offset: offset, Bytes: n, What: fmt.Sprintf("an append of %d records is damaged", b.records)})
			} else {
				s.batch(seg, &b, body, offset)
			}
			s.prev = b.crc
		}
		offset += n
	}
}

// lost notes a place that can't be read. What lies side by side is one place.
func (s *logScan) lost(at position, certain bool, d Damage) {
	d.Part = PartLog
	if !s.open {
		s.holes = append(s.holes, hole{at: at, tip: s.tip, pieces: len(s.Pieces)})
		s.open = true
	}
	h := &s.holes[len(s.holes)-1]
	h.certain = h.certain || certain
	if n := len(h.damage); n > 0 {
		if last := &h.damage[n-1]; last.Path == d.Path && last.What == d.What && last.Offset+last.Bytes == d.Offset {
			last.Bytes += d.Bytes
			return
		}
	}
	h.damage = append(h.damage, d)
}

func (s *logScan) note(mark position) {
	if mark.after(s.evidence) {
		s.evidence = mark
	}
}

// batch takes a whole batch.
func (s *logScan) batch(seg *segment, b *batchHeader, body []byte, offset int64) {
	if !s.open && b.prev != s.prev {
		s.lost(position{seg.seq, uint32(offset)}, false, Damage{Path: s.path(seg.seq), Offset: offset, What: "an append doesn't follow on what lies before it"})
	}
	if s.open || len(s.Pieces) == 0 {
		s.begin(seg, body)
	}
	p := s.newest()
	p.learn(body, seg.salt)
	l := p.log
	if n := len(l.live); n == 0 || l.live[n-1].seq != seg.seq {
		l.live = append(l.live, &segment{seq: seg.seq, salt: seg.salt, file: seg.file, inUse: seg.inUse})
	}
	own := l.live[len(l.live)-1]
	if err := (&recovery{Log: l}).replay(own, b, body, offset); err != nil {
		p.wrong = append(p.wrong, Damage{Part: PartLog, Path: s.path(seg.seq), Offset: offset, What: plain(err), Newer: errors.Is(err, ErrVersion)})
	}
	if l.written != (HardState{}) {
		p.state, p.stateAt, l.written = l.written, position{seg.seq, uint32(offset)}, HardState{}
	}
	n := roundUp(batchHeaderBytes + int64(b.length))
	own.end = offset + n
	s.Batches, s.Bytes, s.tip = s.Batches+1, s.Bytes+n, position{seg.seq, uint32(own.end)}
}

// judge decides what of it all is damage: what can't be read below a place that was synced once.
func (s *logScan) judge() {
	holes := s.holes
	for len(holes) > 0 { // behind the last piece: never acknowledged, unless something says otherwise
		if last := &holes[len(holes)-1]; last.pieces < len(s.Pieces) || last.certain {
			break
		}
		holes = holes[:len(holes)-1]
	}
	s.TailLost = s.evidence.after(s.tip)
	certain := slices.ContainsFunc(holes, func(h hole) bool { return h.certain })
	if len(holes) > 0 && !certain && !s.evidence.after(holes[0].tip) {
		// As little was what lies behind the first hole: of unsynced blocks some have reached the disk.
		s.Pieces, s.TailLost, holes = s.Pieces[:holes[0].pieces], false, nil
	}
	for _, h := range holes {
		s.Damage = append(s.Damage, h.damage...)
	}
	if first := s.heads[0].seg.seq; len(s.Pieces) == 0 && first > 1 && len(holes) == 0 {
		s.damage(s.path(first), blockBytes, 0, "can't be read from its first append on, though what came before it was cut")
		s.TailLost = true
	}
	if s.TailLost && s.evidence.after(s.tip) {
		s.damage(s.path(s.tip.seq), int64(s.tip.offset), 0, "the end of the log is lost: what followed, up to segment %s, offset %d, was synced once",
			segmentName(s.evidence.seq), s.evidence.offset)
	}
	last := s.newest()
	if last != nil && last.blank {
		s.TailLost = true
		s.damage(s.path(s.tip.seq), int64(last.stateAt.offset), 0, "the end of the log is lost: what is left behind it says only for whom the node has voted")
	}
	s.Pieces = slices.DeleteFunc(s.Pieces, func(p *Piece) bool { return p.blank })
	for i, p := range s.Pieces {
		for _, before := range s.Pieces[:i] {
			before.log.truncate(max(p.log.base(), before.log.base()))
		}
		if p.stateAt != (position{}) {
			s.State = p.state
		}
		s.Damage = append(s.Damage, p.wrong...)
		s.foreign = s.foreign || len(p.wrong) > 0
	}
	s.StateSound = !s.TailLost && !s.foreign && (len(holes) == 0 || last != nil && last.stateAt.after(holes[len(holes)-1].at))
}
