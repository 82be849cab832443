package peer

import (
	"net"
	"sync"
	"time"
)

const (
	// writeBytes is about how much goes into one write.
	writeBytes = 256 << 10
	// writeTimeout ends a stream whose other side takes nothing.
	writeTimeout = 10 * time.Second
	// itemBytes is what a queued item counts beside its payload.
	itemBytes = 64
)

// item is one thing to be sent.
type item struct {
	kind    byte
	payload Payload
	records Records
	note    Note
}

func (it *item) size() int {
	if it.kind == frameRaft {
		return it.payload.Size() + itemBytes
	}
	return len(it.records.Data) + len(it.note.Data) + itemBytes
}

func (it *item) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = beginFrame(dst, it.kind)
	switch it.kind {
	case frameRaft:
		dst = it.payload.AppendTo(dst)
	case frameRecords:
		dst = appendRecords(dst, it.records)
	case frameNote:
		dst = appendNote(dst, it.note)
	}
	endFrame(dst, start)
	return dst
}

// queue is what waits for one stream's writer, which takes all of it at once.
type queue struct {
	limit int
	wake  chan struct{} // capacity 1

	mu    sync.Mutex
	items []item // guarded by mu
	bytes int    // of items; guarded by mu
}

func newQueue(limit int) *queue { return &queue{limit: limit, wake: make(chan struct{}, 1)} }

// put reports false where the queue is full. One item always fits.
func (q *queue) put(it item) bool {
	size := it.size()
	q.mu.Lock()
	if q.bytes > 0 && q.bytes+size > q.limit {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, it)
	q.bytes += size
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns everything queued and leaves into in its place.
func (q *queue) take(into []item) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.bytes = into[:0], 0
	return items
}

// writeLoop writes what is queued until the connection fails or stop is closed. It flushes
// whenever the queue is empty.
func (q *queue) writeLoop(conn net.Conn, stop <-chan struct{}) {
	var buf []byte
	var items []item
	for {
		select {
		case <-q.wake:
		case <-stop:
			return
		}
		for {
			items = q.take(items)
			if len(items) == 0 {
				break
			}
			for i := range items {
				buf = items[i].appendTo(buf)
				items[i] = item{}
				if len(buf) >= writeBytes || i == len(items)-1 {
					conn.SetWriteDeadline(time.Now().Add(writeTimeout))
					if _, err := conn.Write(buf); err != nil {
						conn.Close()
						return
					}
					buf = buf[:0]
				}
			}
			if cap(buf) > 4*writeBytes {
				buf = nil
			}
		}
	}
}
