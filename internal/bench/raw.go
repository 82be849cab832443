package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// RawPattern is where the admin port of a node with --dev mounts RawHandler.
const RawPattern = "POST /api/v1/bench/raw"

// RawWriter proposes one record body and waits until it is applied at this node.
type RawWriter interface {
	Write(ctx context.Context, body []byte) error
}

// RawHandler runs the raw benchmark inside the node: `writers` goroutines, each of
// which proposes one command of `size` bytes, waits until it is applied, and repeats,
// for `duration`. Commands go the way of production's through packing, replication,
// fsync, decoding and apply; they name a connection that doesn't exist, so they
// change nothing and leave nothing behind.
func RawHandler(writer func() RawWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		res, err := runRaw(r, writer)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		json.NewEncoder(w).Encode(res)
	})
}

func runRaw(r *http.Request, writer func() RawWriter) (Result, error) {
	writers, err := queryInt(r, "writers", 1, 4096)
	if err != nil {
		return Result{}, err
	}
	size, err := queryInt(r, "size", 0, 200_000)
	if err != nil {
		return Result{}, err
	}
	over, err := time.ParseDuration(r.URL.Query().Get("duration"))
	if err != nil || over <= 0 || over > 10*time.Minute {
		return Result{}, fmt.Errorf("duration %q: allowed: up to 10m", r.URL.Query().Get("duration"))
	}
	body := command.Append(nil, &command.Send{Message: make([]byte, size)})
	return Measure(r.Context(), fmt.Sprintf("raw %d", writers), writers, over, func(int) (Op, error) {
		w := writer()
		return func(ctx context.Context) error { return w.Write(ctx, bytes.Clone(body)) }, nil
	})
}

func queryInt(r *http.Request, name string, low, high int) (int, error) {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s %q: allowed: %d to %d", name, r.URL.Query().Get(name), low, high)
	}
	return n, nil
}

// Op does one operation and returns when it is answered.
type Op func(ctx context.Context) error

// warmUp is left out of every measurement.
const warmUp = 500 * time.Millisecond

// Measure runs n goroutines, each repeating the operation that open gave it, and
// counts those that were answered within `over` after a warm-up. An operation that
// is under way at the end is waited for and not counted.
func Measure(ctx context.Context, name string, n int, over time.Duration, open func(i int) (Op, error)) (Result, error) {
	ops := make([]Op, n)
	for i := range ops {
		op, err := open(i)
		if err != nil {
			return Result{}, err
		}
		ops[i] = op
	}
	begin := time.Now().Add(warmUp)
	end := begin.Add(over)
	all := make([]*samples, n)
	var wg sync.WaitGroup
	for i := range n {
		s := &samples{}
		all[i] = s
		wg.Go(func() { s.repeat(ctx, ops[i], begin, end) })
	}
	wg.Wait()
	return result(name, all, over), ctx.Err()
}

// repeat runs op until end and keeps what was answered between begin and end. After
// an error it waits a moment, so that a dead cluster doesn't make it spin.
func (s *samples) repeat(ctx context.Context, op Op, begin, end time.Time) {
	for ctx.Err() == nil {
		start := time.Now()
		if start.After(end) {
			return
		}
		err := op(ctx)
		now := time.Now()
		switch {
		case now.Before(begin) || now.After(end):
		case err != nil:
			s.errors++
		default:
			s.add(now.Sub(start))
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
