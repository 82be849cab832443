package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/oncemq/oncemq/internal/store"
)

// Source is a checkpoint that is written as a backup: [store.Checkpoint] is one.
type Source interface {
	// Open opens a file for reading: n is the n-th of the manifest's, from 1.
	Open(file uint64, offset int64) (io.ReadCloser, error)
}

// writer writes a stream.
type writer struct {
	ctx    context.Context
	w      io.Writer
	id     [16]byte
	blocks uint64
	hash   *xxhash.Digest
	buf    []byte // a block

	rate    int64
	began   time.Time
	written int64
}

// Write writes the checkpoint of manifest m as a backup that was made at that moment, at no more than rate bytes a second (0: as
// fast as it goes). An error leaves a stream that every reader finds cut off.
func Write(ctx context.Context, w io.Writer, m *store.Manifest, from Source, made time.Time, rate int64) error {
	s := &writer{ctx: ctx, w: w, id: m.ID, hash: xxhash.New(), buf: make([]byte, blockHead+dataBytes), rate: rate, began: time.Now()}
	info := Info{ID: m.ID, Made: made}
	if err := s.write(info.header()); err != nil {
		return err
	}
	if err := s.block(blockManifest, m.Encode()); err != nil {
		return err
	}
	for i := range m.Files {
		if err := s.file(from, uint64(i)+1, &m.Files[i]); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	return s.block(blockEnd, le.AppendUint64(le.AppendUint64(nil, s.blocks), s.hash.Sum64()))
}

// file writes one file.
func (s *writer) file(from Source, number uint64, want *store.CheckpointFile) error {
	f, err := from.Open(number, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, left := xxhash.New(), want.Bytes
	for left > 0 {
		n, err := io.ReadFull(f, s.buf[blockHead:blockHead+min(dataBytes, left)])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading %s: %w", want.Name, err)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %d bytes of %d are missing", want.Name, left-int64(n), want.Bytes)
		}
		_, _ = sum.Write(s.buf[blockHead : blockHead+n])
		seal(s.buf[:blockHead+n], blockData, s.id, s.blocks)
		if err := s.write(s.buf[:blockHead+n]); err != nil {
			return err
		}
		s.blocks++
		left -= int64(n)
	}
	return s.block(blockFileEnd, binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
}

// block writes a block of any kind but data.
func (s *writer) block(kind byte, data []byte) error {
	b := append(make([]byte, blockHead, blockHead+len(data)), data...)
	seal(b, kind, s.id, s.blocks)
	s.blocks++
	return s.write(b)
}

// write writes bytes of the stream, and waits where that goes too fast.
func (s *writer) write(b []byte) error {
	_, _ = s.hash.Write(b)
	n, err := s.w.Write(b)
	s.written += int64(n)
	if err != nil || s.rate <= 0 {
		return errors.Join(err, s.ctx.Err())
	}
	due := time.Duration(float64(s.written) / float64(s.rate) * float64(time.Second))
	if wait := due - time.Since(s.began); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
	return s.ctx.Err()
}
