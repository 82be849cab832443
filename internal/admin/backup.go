package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Backups makes backups of the node's state. Its methods are safe for concurrent use.
type Backups interface {
	// Backup takes a consistent cut of the state. Unless stale is set it holds all that was acknowledged before the call, anywhere.
	Backup(ctx context.Context, stale bool) (Backup, error)
}

// Backup is one cut, which takes room on the node's disk until it is closed.
type Backup interface {
	// WriteTo writes the stream at no more than rate bytes a second, 0: without a limit.
	WriteTo(ctx context.Context, w io.Writer, rate int64) error
	Close() error
}

const (
	// backupTimeout bounds the taking of a cut: a barrier, and flushing what is in memory.
	backupTimeout = 2 * time.Minute
	// backupPatience is how long who gets a backup may take nothing of it.
	backupPatience = time.Minute
)

// backups is the handler of GET /api/v1/backup: one at a time, since each reads the whole disk.
type backups struct {
	source Backups
	busy   sync.Mutex
}

func (b *backups) get(w http.ResponseWriter, r *http.Request) {
	rate, err := strconv.ParseInt(r.FormValue("rate"), 10, 64)
	if r.FormValue("rate") == "" {
		rate, err = 0, nil
	}
	if err != nil || rate < 0 {
		writeError(w, http.StatusBadRequest, fmt.Errorf("rate %q: bytes a second, 0 for no limit", r.FormValue("rate")))
		return
	}
	if !b.busy.TryLock() {
		writeError(w, http.StatusConflict, errors.New("a backup is being made of this node; wait for its end, or ask another node"))
		return
	}
	defer b.busy.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), backupTimeout)
	defer cancel()
	cut, err := b.source.Backup(ctx, r.FormValue("stale") == "true")
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("no backup could be made of this node: %w; ask again, or another node", err))
		return
	}
	defer cut.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &patient{w: w, control: http.NewResponseController(w)}
	if err := cut.WriteTo(r.Context(), out, rate); err != nil {
		panic(http.ErrAbortHandler) // too late for an error: whoever reads sees that it breaks off
	}
}

// patient gives each write its time.
type patient struct {
	w       io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(backupPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}

// OpenBackup has the node at addr make a backup, and returns its stream, which the caller closes. Errors: *StatusError.
func OpenBackup(ctx context.Context, addr string, rate int64, stale bool) (io.ReadCloser, error) {
	path := fmt.Sprintf("http://%s/api/v1/backup?rate=%d&stale=%t", addr, rate, stale)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := dialer.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return nil, statusError(resp, text)
}
