package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/oncemq/oncemq/internal/mutant"
)

// recovery is the reading of a log from its beginning to its end.
type recovery struct {
	*Log
	segs []*segment // all files, in order
	win  window

	tip      position // behind the last whole batch
	lastAt   position // where that batch begins
	evidence position // the highest position that anything says was synced
	unclean  bool     // whole batches lie behind tip
	stopped  bool     // tip will not move any more
}

// recover reads the segments, decides where the log ends (docs/format/log.md, "Where the log ends"), and makes the first
// segment of a new log. Damage is LostLog.
func (l *Log) recover() error { return damaged(LostLog, l.readThrough()) }

func (l *Log) readThrough() error {
	l.index = index{terms: []termRun{{}}}
	seqs, err := l.list()
	if err != nil {
		return err
	}
	if len(seqs) == 0 {
		return l.create()
	}
	r := &recovery{Log: l, tip: position{seqs[0], 0}}
	defer func() { l.ready = append(l.ready, r.segs...) }() // what is not live
	for _, seq := range seqs {
		seg, err := l.openSegment(seq)
		if err != nil {
			return fmt.Errorf("opening the log segment %s: %w", l.path(seq), err)
		}
		r.segs = append(r.segs, seg)
	}
	l.lastSeq = seqs[0] - 1
	for _, seg := range slices.Clone(r.segs) {
		if err := r.segment(seg); err != nil {
			return err
		}
	}
	if r.evidence.after(r.tip) && !mutant.On(mutant.DamageIsEnd) {
		return fmt.Errorf("%w: log segment %s at offset %d can't be read, and what follows up to segment %d, offset %d was synced once; the node must not vote: keep the directory, and let the node join anew from its peers",
			ErrCorrupt, l.path(r.tip.seq), r.tip.offset, r.evidence.seq, r.evidence.offset)
	}
	if first := seqs[0]; len(r.live) == 0 && first > 1 && !mutant.On(mutant.DamageIsEnd) {
		// Only the first append of all may be torn in the oldest segment: what is older is cut behind the next one's first sync.
		return fmt.Errorf("%w: log segment %s can't be read from its first batch on, though what came before it was cut; the node must not vote: keep the directory, and let the node join anew from its peers",
			ErrCorrupt, l.path(first))
	}
	return r.settle()
}

// list returns the numbers of the segments there are. A hole between them is damage: files are made and recycled so that
// no crash leaves one.
func (l *Log) list() ([]uint64, error) {
	if err := l.fs.MkdirAll(l.dirPath, 0o700); err != nil {
		return nil, fmt.Errorf("making the log directory %s: %w", l.dirPath, err)
	}
	if err := syncDir(l.fs, l.dir.base()); err != nil {
		return nil, fmt.Errorf("%w: syncing %s: %w", ErrDisk, l.dir.base(), err)
	}
	names, err := l.fs.List(l.dirPath)
	if err != nil {
		return nil, fmt.Errorf("listing the log directory %s: %w", l.dirPath, err)
	}
	var seqs []uint64
	for _, name := range names {
		if seq, ok := parseSegmentName(name); ok {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+1 {
			return nil, fmt.Errorf("%w: log segment %s is missing; put it back, or let the node join anew from its peers",
				ErrCorrupt, l.path(seqs[i-1]+1))
		}
	}
	if len(seqs) == 0 && l.dir.Stamp().hasLog {
		return nil, fmt.Errorf("%w: all log segments in %s are gone; put them back, or let the node join anew from its peers with an empty directory",
			ErrCorrupt, l.dirPath)
	}
	return seqs, nil
}

// create makes the first segment, with enough zeros written for the first seconds, and notes in the stamp that from now on
// there is a log.
func (l *Log) create() error {
	seg, err := l.createSegment(l.opts.SegmentBytes)
	if err == nil {
		err = l.writeZeros(seg, 4<<20)
	}
	if err != nil {
		return l.fail("making the first log segment in", nil, err)
	}
	return l.dir.setHasLog()
}

// segment reads one segment: its batches where the log goes on in it, otherwise for evidence.
func (r *recovery) segment(seg *segment) error {
	r.win = window{file: seg.file, buf: r.win.buf}
	block, err := r.win.at(0, blockBytes)
	if err != nil {
		return r.unreadable(seg, 0, err)
	}
	var h segmentHeader
	known := h.decode(block)
	if known {
		if err := r.checkHeader(seg, &h); err != nil {
			return err
		}
	}
	begun := known && h.seq == seg.seq
	if begun {
		r.note(h.mark)
	}
	if !r.stopped && begun && r.continues(&h) {
		return r.batches(seg, &h)
	}
	// A file that was recycled or only prepared has an older header or none. One look through the first such file
	// tells it from a begun one whose header is damaged.
	first := !r.stopped
	r.stopped = true
	if first || begun || !known && !isZero(block) {
		return r.probe(seg, blockBytes)
	}
	return nil
}

// checkHeader refuses a segment of a newer format, another node or another cluster.
func (r *recovery) checkHeader(seg *segment, h *segmentHeader) error {
	if h.version > logVersion {
		return fmt.Errorf("%w: log segment %s has format %d, this program knows %d; run a newer version", ErrVersion, r.path(seg.seq), h.version, logVersion)
	}
	stamp := r.dir.Stamp()
	if h.node != stamp.Node || h.cluster != [16]byte{} && h.cluster != stamp.Cluster {
		return fmt.Errorf("%w: log segment %s was written by node %d of cluster %x, the directory is that of node %d of cluster %x; somebody copied files between directories: put the right ones back",
			ErrForeign, r.path(seg.seq), h.node, h.cluster, stamp.Node, stamp.Cluster)
	}
	return nil
}

// continues reports that a begun segment follows on what was read up to now.
func (r *recovery) continues(h *segmentHeader) bool {
	return len(r.live) == 0 || h.prevEnd == r.tip && h.prevCRC == r.prev
}

// batches reads the batches of a segment up to the first that is not whole, and looks behind it for evidence.
func (r *recovery) batches(seg *segment, h *segmentHeader) error {
	prev, offset := h.crc, int64(blockBytes)
	for {
		b, body, err := r.win.batch(seg.seq, seg.salt, offset)
		if err != nil {
			return r.unreadable(seg, offset, err)
		}
		if body == nil || b.prev != prev {
			break
		}
		if offset == blockBytes {
			r.live = append(r.live, seg)
			r.segs = r.segs[1:]
			r.lastSeq = seg.seq
			r.unclean = false
		}
		if err := r.replay(seg, &b, body, offset); err != nil {
			return err
		}
		r.note(b.mark)
		prev, r.prev = b.crc, b.crc
		r.lastAt = position{seg.seq, uint32(offset)}
		offset += roundUp(batchHeaderBytes + int64(b.length))
		r.tip = position{seg.seq, uint32(offset)}
		seg.end = offset
		seg.zeroed = max(seg.zeroed, offset) // a crash may have cut the file within the padding: zeros go behind it
	}
	if offset == blockBytes {
		r.stopped = true // only the header is there: not begun
	}
	return r.probe(seg, offset)
}

// probe looks from offset on for the headers of batches of this segment. What follows a place that can't be read says
// whether that place was synced.
func (r *recovery) probe(seg *segment, offset int64) error {
	var h batchHeader
	for ; offset < r.win.size; offset += blockBytes {
		b, err := r.win.at(offset, batchHeaderBytes)
		if err != nil {
			return r.unreadable(seg, offset, err)
		}
		if h.decode(b, seg.seq, seg.salt) {
			r.note(h.mark)
			r.unclean = true
		}
	}
	return nil
}

// note takes a durable mark as evidence.
func (r *recovery) note(mark position) {
	if mark.after(r.evidence) {
		r.evidence = mark
	}
}

// unreadable is an error of the disk while reading: never taken for an empty place.
func (r *recovery) unreadable(seg *segment, offset int64, err error) error {
	return fmt.Errorf("%w: reading log segment %s at offset %d: %w; keep the directory, and let the node join anew from its peers",
		ErrCorrupt, r.path(seg.seq), offset, err)
}

// replay enters the records of a whole batch into the index.
func (r *recovery) replay(seg *segment, b *batchHeader, body []byte, offset int64) (err error) {
	wrong := func(rec *record, what string) {
		if err == nil {
			err = fmt.Errorf("%w: log segment %s at offset %d: %s (kind %d, group %d, index %d, term %d) though its checksum is right; report this as a bug",
				ErrCorrupt, r.path(seg.seq), offset, what, rec.kind, rec.group, rec.index, rec.term)
		}
	}
	b.decodeRecords(body, seg.salt, func(rec *record, at int) {
		switch {
		case err != nil:
		case rec.kind < kindEntry || rec.kind > kindBase:
			err = fmt.Errorf("%w: log segment %s at offset %d has a record of kind %d; run a newer version", ErrVersion, r.path(seg.seq), offset, rec.kind)
		case rec.group != r.opts.Group:
			wrong(rec, "a record of another group")
		case rec.kind == kindState && len(rec.data) != 8:
			wrong(rec, "a hard state of the wrong length")
		case rec.kind == kindState:
			r.state = HardState{Term: rec.term, Vote: binary.LittleEndian.Uint64(rec.data), Commit: rec.index}
			r.written = r.state
		case rec.kind == kindBase:
			if !r.rebase(rec.index, rec.term) {
				wrong(rec, "a base that doesn't fit what is before it")
			}
		case rec.index != r.lastIndex()+1:
			wrong(rec, fmt.Sprintf("an entry behind %d", r.lastIndex()))
		default:
			e := Entry{Index: rec.index, Term: rec.term}
			r.push(seg, &e, uint32(offset+batchHeaderBytes)+uint32(at))
		}
	})
	return err
}

// rebase carries a base record out: what follows comes after (index, term). It reports whether that can be.
func (r *recovery) rebase(index, term uint64) bool {
	if len(r.live) == 1 && r.count == 0 || index < r.base() {
		// The first record of all, or a suffix replaced from below where the remaining files begin.
		r.reset(index, term)
		return true
	}
	if index > r.lastIndex() || r.termOf(index) != term {
		return false
	}
	r.truncate(index)
	return true
}

// settle makes what was read durable and sets the log up to be appended to. What was read may still be in the page cache
// only: of a killed process, or of one whose last sync failed and which therefore never acknowledged it; the last batch
// is written once more, so that this sync can't pass over it.
func (r *recovery) settle() error {
	l := r.Log
	l.full = r.unclean
	if l.opts.NoSync || len(l.live) == 0 {
		return nil
	}
	last := l.live[len(l.live)-1]
	from := int64(r.lastAt.offset)
	if from == blockBytes {
		from = 0 // with its segment's header
	}
	buf := make([]byte, last.end-from)
	if _, err := readFull(last.file, buf, from); err != nil {
		return r.unreadable(last, from, err)
	}
	if mutant.On(mutant.TailNotWritten) {
		buf = nil
	}
	if _, err := last.file.WriteAt(buf, from); err != nil {
		return l.fail("writing again", last, err)
	}
	for _, seg := range l.live {
		if err := seg.file.SyncData(); err != nil {
			return l.fail("syncing", seg, err)
		}
	}
	l.mark = r.tip
	return nil
}

// isZero reports that b holds zeros only.
func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// unsupported reports that a file system doesn't know an operation that is only there for speed.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL)
}
