package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// trace is the transcript: a line for everything worth reading, and a hash over all lines, which is kept always.
type trace struct {
	out  io.Writer // nil: only the hash
	sum  uint64
	line []byte
}

// say writes a line of the transcript.
func (w *world) say(format string, args ...any) {
	t := &w.trace
	t.line = appendMoment(t.line[:0], w.now)
	t.line = fmt.Appendf(t.line, format, args...)
	t.line = append(t.line, '\n')
	h := fnv.New64a()
	var sum [8]byte
	for i := range sum {
		sum[i] = byte(t.sum >> (8 * i))
	}
	_, _ = h.Write(sum[:])
	_, _ = h.Write(t.line)
	t.sum = h.Sum64()
	if t.out != nil {
		_, _ = t.out.Write(t.line)
	}
}

// mix puts bytes into the hash alone: what a wire carried.
func (w *world) mix(b []byte) {
	sum := w.trace.sum
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	w.trace.sum = sum
}

func appendMoment(dst []byte, d time.Duration) []byte {
	return fmt.Appendf(dst, "%4d.%06d  ", d/time.Second, d%time.Second/time.Microsecond)
}
