package sim

import (
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/store"
)

// logPath and statePath are in messages only.
const (
	logPath   = "memory/log"
	statePath = "memory/state"
)

// errDead is the cause where a handle was used after its process had ended.
var errDead = errors.New("the process that opened it has ended")

// MemLog is the twin of store.Log on a Disk; see there for what each method does. Not safe for concurrent use.
type MemLog struct {
	d      *Disk
	life   int
	now    logImage
	state  store.HardState // now.state, or one whose commit index isn't written
	failed error
}

// OpenLog opens the log on the disk, as it is, and syncs it: what was written may be behind a failed sync. Open it once in a life.
func (d *Disk) OpenLog() *MemLog {
	now := d.written()
	if d.lying {
		d.lied = d.lied || len(d.unsynced) > 0
	} else {
		d.synced, d.unsynced, d.lied = now, nil, false
	}
	return &MemLog{d: d, life: d.life, now: now, state: now.state}
}

// Append implements replica.Log.
func (l *MemLog) Append(a store.Append) error {
	if l.life != l.d.life {
		l.failed = diskError(logPath, errDead)
	}
	if l.failed != nil {
		return l.failed
	}
	l.check(a)
	state := a.State
	if state == (store.HardState{}) {
		state = l.state
	}
	if len(a.Entries) == 0 && state.Term == l.now.state.Term && state.Vote == l.now.state.Vote && !a.Commit {
		l.state = state
		return nil
	}
	next := l.now.with(a.Entries, state)
	if err := l.d.writeLog(next); err != nil {
		if err = diskError(logPath, err); !errors.Is(err, store.ErrFull) {
			l.failed = err
		}
		return err
	}
	l.now, l.state = next, state
	return nil
}

// check panics where raft's rules are broken.
func (l *MemLog) check(a store.Append) {
	if a.Group != 0 {
		panic(fmt.Sprintf("sim: append of group %d", a.Group))
	}
	for i := range a.Entries {
		if a.Entries[i].Index != a.Entries[0].Index+uint64(i) {
			panic(fmt.Sprintf("sim: append of entry %d behind %d", a.Entries[i].Index, a.Entries[i-1].Index))
		}
	}
	if len(a.Entries) > 0 {
		if i := a.Entries[0].Index; i > l.now.last()+1 || i <= l.now.base {
			panic(fmt.Sprintf("sim: append of entry %d to a log of %d to %d", i, l.now.base+1, l.now.last()))
		}
	}
}

// Prepare implements replica.Log: there is nothing to prepare.
func (l *MemLog) Prepare() (more bool, err error) { return false, l.failed }

// Cut implements replica.Log. It is exact, and synced with the next append.
func (l *MemLog) Cut(index uint64) error {
	if l.failed != nil || l.life != l.d.life {
		return l.failed
	}
	if next := l.now.cut(index); next.base != l.now.base {
		l.now = next
		l.d.unsynced = append(l.d.unsynced, next)
	}
	return nil
}

// FirstIndex implements replica.Log.
func (l *MemLog) FirstIndex() uint64 { return l.now.base + 1 }

// LastIndex implements replica.Log.
func (l *MemLog) LastIndex() uint64 { return l.now.last() }

// HardState implements replica.Log.
func (l *MemLog) HardState() store.HardState { return l.state }

// Empty reports that nothing was ever appended.
func (l *MemLog) Empty() bool { return l.now.last() == 0 && l.state == (store.HardState{}) }

// SizeBytes implements replica.Log.
func (l *MemLog) SizeBytes() int64 { return l.now.bytes }

// Suffix implements replica.Log.
func (l *MemLog) Suffix(bytes int64) uint64 {
	m := &l.now
	for i := len(m.entries) - 1; i >= 0; i-- {
		if bytes -= entryBytes + int64(len(m.entries[i].Data)); bytes < 0 {
			return m.entries[i].Index + 1
		}
	}
	return m.base + 1
}

// Path implements replica.Log.
func (l *MemLog) Path() string { return logPath }

// Close implements replica.Log.
func (l *MemLog) Close() error { return nil }

// Term implements replica.Log.
func (l *MemLog) Term(index uint64) (uint64, error) {
	switch m := &l.now; {
	case index < m.base:
		return 0, fmt.Errorf("term of entry %d: %w; the log begins at %d", index, store.ErrCut, m.base+1)
	case index > m.last():
		return 0, fmt.Errorf("term of entry %d: %w; the log ends at %d", index, store.ErrUnavailable, m.last())
	case index == m.base:
		return m.baseTerm, nil
	default:
		return m.entries[index-m.base-1].Term, nil
	}
}

// Entries implements replica.Log.
func (l *MemLog) Entries(dst []store.Entry, lo, hi, maxBytes uint64) ([]store.Entry, error) {
	m := &l.now
	switch {
	case lo <= m.base:
		return dst, fmt.Errorf("entries %d to %d: %w; the log begins at %d", lo, hi-1, store.ErrCut, m.base+1)
	case hi > m.last()+1:
		return dst, fmt.Errorf("entries %d to %d: %w; the log ends at %d", lo, hi-1, store.ErrUnavailable, m.last())
	}
	bytes, count := uint64(0), len(dst)
	for _, e := range m.entries[lo-m.base-1 : hi-m.base-1] {
		bytes += uint64(len(e.Data))
		if maxBytes > 0 && bytes > maxBytes && len(dst) > count {
			break
		}
		dst = append(dst, e)
	}
	return dst, nil
}
