package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// Disk is one machine's disk, with the log and the state of its node on it, in memory. It outlives the process (Kill) and,
// but for what was not synced, the machine (Crash). Usually log and state are twins of package store's, which cost little: a
// batch of a log is then written as a whole or not at all, as it is once store has recovered. DiskOptions.Real takes store's
// own, with torn and lost blocks to recover from.
type Disk struct {
	rng  *rand.Rand
	opts DiskOptions
	life int // of what is open: handles of earlier ones are dead

	synced   logImage
	unsynced []logImage // what was written since, oldest first
	lied     bool       // some of it was acknowledged
	state    stateImage
	real     *realDisk // instead of the twins

	fails   int  // writes to come that fail
	failing bool // all writes fail
	full    bool
	lying   bool
	ops     int  // writes, syncs and changes of names to come before the power goes, of a real log; 0: it stays
	dark    bool // it is gone
	wrecked bool // nothing can be read
	tearing bool // of a real log: the next sync fails
	slow    int
}

// DiskOptions are what differs between disks without being a fault.
type DiskOptions struct {
	// FlushBytes is about how much is applied between two flushes of the state that nobody asked for, as those of Pebble's
	// memtables; 1 MiB where 0.
	FlushBytes int
	// Real puts package store's own log and state on the disk, instead of their twins.
	Real bool
}

// NewDisk is an empty disk. rng decides what a fault leaves, and is the disk's alone.
func NewDisk(rng *rand.Rand, opts DiskOptions) *Disk {
	if opts.FlushBytes == 0 {
		opts.FlushBytes = 1 << 20
	}
	d := &Disk{rng: rng, opts: opts, state: stateImage{values: map[string][]byte{}}}
	if opts.Real {
		d.real = newRealDisk(16 << 10 << rng.IntN(3))
	}
	return d
}

// Open opens log and state, as they are, for a life of the process. Errors are those of package store, and only a disk that
// has lied, or still fails, has a right to them.
//
// A start always finds room: the node gives its reserve back before.
func (d *Disk) Open() (replica.Log, replica.State, error) {
	full := d.full
	d.full = false
	defer func() { d.full = full }()
	if d.real != nil {
		return d.openReal()
	}
	if err := d.damage(); err != nil {
		return nil, nil, err
	}
	if d.written().bytes > 0 {
		if err := d.writeError(); err != nil {
			return nil, nil, diskError(logPath, err)
		}
	}
	return d.OpenLog(), d.OpenState(), nil
}

// Kill ends what is open, as the end of a process does: what it has written is there, synced or not; what the state had in
// memory is gone. A write that failed is there or isn't.
func (d *Disk) Kill() {
	d.life++
	d.tearing, d.ops, d.dark = false, 0, false
	if d.real != nil {
		d.real.close()
		return
	}
	d.state.crash(d.rng)
}

// Crash ends what is open, as a loss of power does: what was not synced is gone, wholly or from some write on.
func (d *Disk) Crash() {
	d.life++
	d.tearing, d.ops, d.dark = false, 0, false
	if d.real != nil {
		d.real.crash(d)
		d.lied = false
		return
	}
	d.state.crash(d.rng)
	d.lose()
}

// Image is the log that a loss of power would leave at least; nothing may be writing.
func (d *Disk) Image() (logImage, error) {
	if d.real != nil {
		return d.real.image()
	}
	return d.synced, d.damage()
}

// Left says once what the last loss of power has left of what a real log had not synced.
func (d *Disk) Left() (left store.Left) {
	if d.real != nil {
		left, d.real.left = d.real.left, left
	}
	return left
}

// durable is the applied index of the state that a loss of power would leave at least; of a real one package store asks at a start.
func (d *Disk) durable() uint64 {
	if d.real != nil {
		return math.MaxUint64
	}
	return d.state.applied
}

// lose drops what was not synced, or the end of it.
func (d *Disk) lose() {
	if kept := d.rng.IntN(len(d.unsynced) + 1); kept > 0 {
		d.synced = d.unsynced[kept-1]
	}
	d.unsynced, d.lied = nil, false
}

// Fail makes the next n writes to the log fail, at the write or at its sync (EIO).
func (d *Disk) Fail(n int) { d.fails = n }

// FailForever makes all writes fail, of the log and of the state, until Heal.
func (d *Disk) FailForever() { d.failing = true }

// Unplug takes the power away within the writes to come: at the first, or of a real log at one of the first few things that it
// does to its files. All that is tried from then on fails (EIO), until the Crash that has to follow.
func (d *Disk) Unplug(ops int) {
	if d.real == nil {
		d.fails = 1
		return
	}
	d.ops = ops
}

// powerGone counts down.
func (d *Disk) powerGone() bool {
	if d.ops > 0 {
		d.ops--
		d.dark = d.ops == 0
	}
	return d.dark
}

// Fill makes the disk full, until Heal or Empty: nothing can be written (ENOSPC).
func (d *Disk) Fill() { d.full = true }

// Empty makes room on it again.
func (d *Disk) Empty() { d.full = false }

// Lie makes syncs of the log do nothing but say that they did, until Heal.
func (d *Disk) Lie() { d.lying = true }

// Slow makes a write take up to some number of the world's steps; 0: none. The world asks by Delay.
func (d *Disk) Slow(steps int) { d.slow = steps }

// Delay is how many steps the next write takes.
func (d *Disk) Delay() int { return d.rng.IntN(d.slow + 1) }

// Faulty reports that a write fails or lies.
func (d *Disk) Faulty() bool { return d.fails > 0 || d.failing || d.full || d.lying }

// Heal ends all faults. What was written and never synced is so until the next sync.
func (d *Disk) Heal() {
	d.fails, d.failing, d.full, d.lying, d.slow = 0, false, false, false, 0
	d.tearing, d.ops, d.dark = false, 0, false
}

// Unsynced reports that a Crash may now lose what was acknowledged, since syncs have lied.
func (d *Disk) Unsynced() bool { return d.lied }

// writeLog writes and syncs.
func (d *Disk) writeLog(next logImage) error {
	if err := d.writeError(); err != nil {
		if !d.full && d.rng.IntN(2) == 0 { // it was the sync that failed
			d.unsynced = append(d.unsynced, next)
		}
		return err
	}
	d.lied = d.lying
	if d.lying || mutant.On(mutant.NoSync) {
		d.unsynced = append(d.unsynced, next)
		return nil
	}
	d.synced, d.unsynced = next, nil
	return nil
}

// writeError is what a write fails with.
func (d *Disk) writeError() error {
	switch {
	case d.failing:
		return syscall.EIO
	case d.fails > 0:
		d.fails--
		return syscall.EIO
	case d.full:
		return syscall.ENOSPC
	}
	return nil
}

// written is the log as the operating system has it.
func (d *Disk) written() logImage {
	if n := len(d.unsynced); n > 0 {
		return d.unsynced[n-1]
	}
	return d.synced
}

// diskError is the error of a log or a state: final, but where there is only no room.
func diskError(path string, cause error) error {
	if errors.Is(cause, syscall.ENOSPC) {
		return fmt.Errorf("%w: writing to %s: %w", store.ErrFull, path, cause)
	}
	return fmt.Errorf("%w: writing to %s: %w; the node has to stop", store.ErrDisk, path, cause)
}

// logImage is what a log holds. Images share entries: those within one are never changed.
type logImage struct {
	base, baseTerm uint64        // of the entry before the first
	entries        []store.Entry // base+1 and on
	state          store.HardState
	bytes          int64
}

// entryBytes is what an entry costs beside its data.
const entryBytes = 32

func (m logImage) last() uint64 { return m.base + uint64(len(m.entries)) }

// with is the image after an append.
func (m logImage) with(entries []store.Entry, state store.HardState) logImage {
	m.state = state
	m.bytes += entryBytes // the batch
	if len(entries) == 0 {
		return m
	}
	if at := entries[0].Index - m.base - 1; at < uint64(len(m.entries)) {
		for _, e := range m.entries[at:] {
			m.bytes -= entryBytes + int64(len(e.Data))
		}
		m.entries = slices.Clip(m.entries[:at]) // another image has those behind
	}
	m.entries = append(m.entries, entries...)
	for _, e := range entries {
		m.bytes += entryBytes + int64(len(e.Data))
	}
	return m
}

// cut is the image without the entries below index; the last one stays.
func (m logImage) cut(index uint64) logImage {
	index = min(index, m.last())
	if index <= m.base+1 {
		return m
	}
	n := index - m.base - 1
	m.base, m.baseTerm = index-1, m.entries[n-1].Term
	m.entries = slices.Clone(m.entries[n:]) // so that what was cut is free
	m.bytes = 0
	for _, e := range m.entries {
		m.bytes += entryBytes + int64(len(e.Data))
	}
	return m
}
