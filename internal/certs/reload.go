package certs

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often files are looked at, while there are handshakes.
const lookEvery = time.Second

// watched is what was made of some files, and is made anew when they change. It is safe for
// concurrent use and starts no goroutine: it looks when it is asked.
type watched[T any] struct {
	names  []string // of the files; "": none
	load   func() (T, error)
	logger *slog.Logger

	mu     sync.Mutex // guards everything below
	now    T
	stamps []stamp
	bad    []stamp // what was complained about
	looked time.Time
}

// watch makes the first value; its error is load's.
func watch[T any](logger *slog.Logger, load func() (T, error), names ...string) (*watched[T], error) {
	w := &watched[T]{names: names, load: load, logger: logger, stamps: look(names), looked: time.Now()}
	var err error
	w.now, err = load()
	return w, err
}

// current is the value of the files as they are, looked at once in lookEvery. What can't be used is
// logged once, and the former value stays.
func (w *watched[T]) current(now time.Time) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) < lookEvery {
		return w.now
	}
	w.looked = now
	found := look(w.names)
	if same(found, w.stamps) {
		return w.now
	}
	value, err := w.load()
	switch {
	case err == nil:
		w.now, w.stamps, w.bad = value, found, nil
		w.logger.Info("TLS files read anew", "cert", w.names[0])
	case !same(found, w.bad):
		// Perhaps one file was replaced and the other will be in a moment.
		w.bad = found
		w.logger.Warn("TLS files have changed and can't be used; the former ones stay in use", "error", err)
	}
	return w.now
}

// stamp tells one content of a file from another.
type stamp struct {
	changed time.Time
	size    int64
	info    os.FileInfo // for its identity; nil: not there
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.changed.Equal(o.changed) && s.size == o.size && os.SameFile(s.info, o.info)
}

func same(a, b []stamp) bool { return slices.EqualFunc(a, b, stamp.same) }

func look(names []string) []stamp {
	all := make([]stamp, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			all[i] = stamp{info.ModTime(), info.Size(), info}
		}
	}
	return all
}
