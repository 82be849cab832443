package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A connection of purpose "fetch" goes the other way: who dialled asks, for the files of a checkpoint by number and offset, and
// the other side sends them, in chunks, at a bounded rate. It has its own connection, so that nothing waits behind it; one
// that breaks is dialled anew, and the next request begins where the last one ended.

const (
	// chunkBytes is the most of a file in one frame, and with that what each side holds of it in memory.
	chunkBytes = 128 << 10
	// maxFetches is how many connections are served at once.
	maxFetches = 2
	// fetchTimeout ends a fetch whose other side stands still.
	fetchTimeout = 10 * time.Second
	// maxRequest is the longest body of a request.
	maxRequest = 256
	// burst is for how long at most the rate's allowance gathers.
	burst = 50 * time.Millisecond
)

// Source is what other nodes may fetch here.
type Source interface {
	// OpenFetch opens a file of a checkpoint at an offset, for reading up to its end; the caller closes it. It is called by
	// several goroutines. Its error is told to the other node.
	OpenFetch(checkpoint [16]byte, file uint64, offset int64) (io.ReadCloser, error)
	// OpenQuery answers a question of another node, the bytes of which are its caller's and mean nothing here; the caller closes
	// the answer. It is called by several goroutines. Its error is told to the other node.
	OpenQuery(from uint64, question []byte) (io.ReadCloser, error)
}

// fetchRequest asks for a file from an offset on.
type fetchRequest struct {
	checkpoint   [16]byte
	file, offset uint64
}

func (r *fetchRequest) appendTo(dst []byte) []byte {
	dst = append(dst, r.checkpoint[:]...)
	return binary.AppendUvarint(binary.AppendUvarint(dst, r.file), r.offset)
}

func decodeFetchRequest(body []byte) (r fetchRequest, err error) {
	d := decoder{buf: body}
	d.fixed(r.checkpoint[:])
	r.file, r.offset = d.uint(), d.uint()
	d.bad = d.bad || len(d.buf) > 0 || r.offset > 1<<62
	return r, d.err("request")
}

// Fetching is a connection on which files are fetched from a peer. One goroutine uses it.
type Fetching struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
	stop func() bool // of the context's end
}

// Fetch dials a peer to fetch files from it; the end of ctx ends the connection. Errors: ErrRefused, and the dial's.
func (n *Network) Fetch(ctx context.Context, peer uint64) (*Fetching, error) {
	conn, err := n.open(ctx, peer, purposeFetch)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return &Fetching{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), stop: stop}, nil
}

// Get fetches a file from an offset on, up to its end, and gives it to take piece by piece; each is borrowed for the call. An
// error of take ends it and the connection. Errors: ErrRefused where the peer doesn't have it, ErrFrame, the connection's, and
// take's.
func (f *Fetching) Get(checkpoint [16]byte, file uint64, offset int64, take func(piece []byte) error) error {
	request := fetchRequest{checkpoint, file, uint64(offset)}
	return f.get(frameFetch, request.appendTo(nil), take)
}

// Query puts a question of at most 256 bytes to the peer and gives its answer to take, as Get does.
func (f *Fetching) Query(question []byte, take func(piece []byte) error) error {
	return f.get(frameQuery, question, take)
}

// get sends a request and takes what comes.
func (f *Fetching) get(request byte, body []byte, take func(piece []byte) error) error {
	f.conn.SetDeadline(time.Now().Add(fetchTimeout))
	if err := writeFrame(f.conn, request, body); err != nil {
		return err
	}
	for {
		f.conn.SetDeadline(time.Now().Add(fetchTimeout))
		kind, body, grown, err := readFrame(f.r, f.buf, chunkBytes)
		if err != nil {
			return err
		}
		f.buf = grown
		switch {
		case kind == frameRefusal:
			return fmt.Errorf("%w: %.500q", ErrRefused, body)
		case kind != frameChunk:
			return fmt.Errorf("%w: kind %d instead of a chunk", ErrFrame, kind)
		case len(body) == 0:
			return nil
		}
		if err := take(body); err != nil {
			f.conn.Close()
			return err
		}
	}
}

// Close ends the connection.
func (f *Fetching) Close() error {
	f.stop()
	return f.conn.Close()
}

// serveFetch answers the requests of a connection until it ends.
func (n *Network) serveFetch(conn net.Conn, r *bufio.Reader, from uint64) error {
	select {
	case n.fetches <- struct{}{}:
		defer func() { <-n.fetches }()
	default:
		return writeFrame(conn, frameRefusal, fmt.Appendf(nil, "%d fetches are being served; ask again later", maxFetches))
	}
	var buf, out []byte
	for {
		conn.SetDeadline(time.Now().Add(fetchTimeout))
		kind, body, grown, err := readFrame(r, buf, maxRequest)
		if err != nil {
			return err
		}
		buf = grown
		open, err := n.requested(kind, body, from)
		if err != nil {
			return err
		}
		if out, err = n.sendFile(conn, open, out); err != nil {
			return err
		}
	}
}

// requested reads a request, and returns what opens the answer.
func (n *Network) requested(kind byte, body []byte, from uint64) (open func() (io.ReadCloser, error), err error) {
	switch kind {
	case frameFetch:
		r, err := decodeFetchRequest(body)
		return func() (io.ReadCloser, error) { return n.config.Source.OpenFetch(r.checkpoint, r.file, int64(r.offset)) }, err
	case frameQuery:
		return func() (io.ReadCloser, error) { return n.config.Source.OpenQuery(from, body) }, nil
	}
	return nil, fmt.Errorf("%w: kind %d instead of a request", ErrFrame, kind)
}

// sendFile sends what was asked for. A file that can't be read is refused, and the connection goes on: it is for the other node
// to decide.
func (n *Network) sendFile(conn net.Conn, open func() (io.ReadCloser, error), out []byte) ([]byte, error) {
	refuse := func(err error) error { return writeFrame(conn, frameRefusal, fmt.Appendf(nil, "%.400s", err)) }
	if n.config.Source == nil {
		return out, refuse(errors.New("this node offers nothing"))
	}
	file, err := open()
	if err != nil {
		return out, refuse(err)
	}
	defer file.Close()
	for err == nil {
		out = append(beginFrame(out[:0], frameChunk), make([]byte, chunkBytes)...)
		var k int
		k, err = io.ReadFull(file, out[frameHeaderBytes:])
		if k == 0 {
			break
		}
		out = out[:frameHeaderBytes+k]
		endFrame(out, 0)
		n.bucket.wait(len(out))
		conn.SetDeadline(time.Now().Add(fetchTimeout))
		if _, err := conn.Write(out); err != nil {
			return out, err
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return out, refuse(err)
	}
	return out, writeFrame(conn, frameChunk, nil)
}

// bucket lets bytes pass at a rate, for all who wait together.
type bucket struct {
	rate int64 // bytes a second

	mu sync.Mutex
	at time.Time // up to when the allowance is used; guarded by mu
}

// wait returns when so many bytes may pass.
func (b *bucket) wait(bytes int) {
	if pause := b.take(bytes, time.Now()); pause > 0 {
		time.Sleep(pause)
	}
}

// take uses up the allowance for some bytes and says how long they have to wait.
func (b *bucket) take(bytes int, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if earliest := now.Add(-burst); b.at.Before(earliest) {
		b.at = earliest
	}
	b.at = b.at.Add(time.Duration(int64(bytes) * int64(time.Second) / b.rate))
	return b.at.Sub(now)
}
