package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleFormat is the version of Pebble's files. It is pinned: raising it is a change of docs/format/pebble.md, since an
// older program can't open the directory afterwards.
const pebbleFormat = pebble.FormatTableFormatV6

// tableBlockBytes is about the size of a block of a table, the unit of reading and of the checksum.
const tableBlockBytes = 32 << 10

// tableBytes is about the size of a table of the first level; those of the following ones are larger, each twice the one before.
const tableBytes = 8 << 20

// pebble is the configuration of Pebble.
func (o StateOptions) pebble(files FS, path string) *pebble.Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 64 << 20
	}
	log := pebbleLog{o.Logf, o.fatal(path)}
	opts := &pebble.Options{
		FS:                 files,
		DisableWAL:         true, // the raft log is the log [6.1]
		FormatMajorVersion: pebbleFormat,
		Comparer:           pebble.DefaultComparer,
		Logger:             log,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { log.fatal(fmt.Errorf("%w: %w", ErrDisk, err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				log.fatal(fmt.Errorf("%w: table %s: %w", ErrCorrupt, info.Path, info.Details))
			},
		},
		// Memtables are taken out of the cache's size, so it has to hold two of them and its own.
		CacheSize:                   o.CacheBytes + 2*int64(o.MemTableBytes),
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: 4, // before Apply stalls on a slow disk
		L0CompactionThreshold:       12,
		L0StopWritesThreshold:       24,
		MaxOpenFiles:                256,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 }, // the CPU is the limit, and it is the messages'
	}
	opts.Cache = o.cache
	opts.Experimental.FileCacheShards = 1
	if o.SpillInApply {
		opts.DisableAutomaticCompactions, opts.L0StopWritesThreshold = true, 1<<20
	}
	// Pebble's default makes 2 MiB tables, each with syncs of its own, beside which the log has to wait, and 5,000 files of ten
	// million messages.
	opts.TargetFileSizes[0] = tableBytes
	// A queue is read in the order in which it was written: a large block brings the messages that come next.
	opts.Levels[0].BlockSize = tableBlockBytes
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return opts
}

// fatal is what is done about an error of Pebble's background work.
func (o StateOptions) fatal(path string) func(error) {
	return func(err error) {
		err = damaged(LostState, fmt.Errorf("the state in %s: %w; the node has to stop", path, err))
		if o.Fatal == nil {
			panic(err)
		}
		o.Fatal(err)
	}
}

// pebbleLog is Pebble's logger.
type pebbleLog struct {
	logf  func(format string, args ...any)
	fatal func(error)
}

// Infof implements pebble.Logger.
func (l pebbleLog) Infof(format string, args ...any) { l.Errorf(format, args...) }

// Errorf implements pebble.Logger.
func (l pebbleLog) Errorf(format string, args ...any) {
	if l.logf != nil {
		l.logf("pebble: "+format, args...)
	}
}

// Fatalf implements pebble.Logger. It does not return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf("%w: "+format, append([]any{ErrDisk}, args...)...)
	l.fatal(err)
	panic(err)
}
