package store_test

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncemq/oncemq/internal/store"
	"github.com/oncemq/oncemq/internal/store/storetest"
)

// disk is a data directory in memory that crashes.
type disk struct {
	t     *testing.T
	files store.FS
	dir   *store.Dir
	inUse io.Closer // the log or state
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, files: vfs.NewCrashableMem()}
	t.Cleanup(d.end)
	return d
}

// open opens the directory anew.
func (d *disk) open() *store.Dir {
	d.end()
	var err error
	if d.dir, err = store.Open(store.Options{Dir: "/data", FS: d.files, Node: 1}); err != nil {
		d.t.Fatal(err)
	}
	return d.dir
}

// end closes the directory, after what was in use of it.
func (d *disk) end() {
	if d.dir != nil {
		d.dir.Close()
	}
	d.dir = nil
}

// crash leaves what is in use to the past; closing it there only ends its goroutines.
func (d *disk) crash(seed uint64) {
	past := d.files
	d.files = store.CrashFS(past, seed, int(seed%3)*50)
	d.inUse.Close()
	d.end()
}

func TestLogSuite(t *testing.T) {
	storetest.RunLog(t, func(t *testing.T) storetest.Disk[storetest.Log] {
		d := newDisk(t)
		return storetest.Disk[storetest.Log]{Crash: d.crash, Open: func() storetest.Log {
			l, err := d.open().OpenLog(store.LogOptions{SegmentBytes: 32 << 10, TailBytes: 6 << 10, SpareSegments: 2})
			if err != nil {
				t.Fatal(err)
			}
			d.inUse = l
			return l
		}}
	})
}

func TestStateSuite(t *testing.T) {
	for name, opts := range map[string]store.StateOptions{"goroutine": {}, "in Apply": {SpillInApply: true}} {
		t.Run(name, func(t *testing.T) {
			storetest.RunState(t, func(t *testing.T) storetest.Disk[storetest.State] {
				d := newDisk(t)
				return storetest.Disk[storetest.State]{Crash: d.crash, Open: func() storetest.State {
					s, err := d.open().OpenState(opts)
					if err != nil {
						t.Fatal(err)
					}
					d.inUse = s
					return s
				}}
			})
		})
	}
}
