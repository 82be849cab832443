package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/oncemq/oncemq/internal/store"
)

// target takes what a stream brings, file by file in the order of its manifest. What it is given was verified up to there;
// the whole is verified when read returns nil.
type target interface {
	// begin comes first, once.
	begin(info *Info) error
	// Write has the next bytes of the file at hand, borrowed for the call. It may change them.
	Write(b []byte) error
	// Done ends the file at hand, with its xxHash64.
	Done(sum uint64) error
}

// reader reads a stream.
type reader struct {
	r      io.Reader
	info   Info
	blocks uint64
	hash   *xxhash.Digest
	buf    []byte
}

// read reads a whole stream and hands to t what is in it. Errors: ErrDamaged, ErrVersion, those of t and of reading.
func read(r io.Reader, t target) (Info, error) {
	s := &reader{r: r, hash: xxhash.New(), buf: make([]byte, blockHead+dataBytes)}
	err := s.begin(t)
	for i := 0; err == nil && i < len(s.info.Manifest.Files); i++ {
		err = s.file(&s.info.Manifest.Files[i], t)
	}
	if err == nil {
		err = s.end()
	}
	return s.info, err
}

// begin reads the header and the manifest.
func (s *reader) begin(t target) error {
	head := make([]byte, headerBytes)
	if err := s.fill(head); err != nil {
		return err
	}
	_, _ = s.hash.Write(head)
	var err error
	if s.info, err = decodeHeader(head); err != nil {
		return err
	}
	s.info.Bytes = headerBytes
	data, err := s.block(blockManifest)
	if err != nil {
		return err
	}
	m, err := store.DecodeManifest(data)
	if errors.Is(err, store.ErrVersion) {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if err != nil || m.ID != s.info.ID {
		return s.damaged("its manifest isn't one")
	}
	s.info.Manifest = m
	return t.begin(&s.info)
}

// file reads one file.
func (s *reader) file(want *store.CheckpointFile, t target) error {
	sum := xxhash.New()
	for left := want.Bytes; left > 0; {
		data, err := s.block(blockData)
		if err != nil {
			return err
		}
		if int64(len(data)) > left || len(data) == 0 {
			return s.damaged(fmt.Sprintf("%d bytes where %s has %d left", len(data), want.Name, left))
		}
		left -= int64(len(data))
		_, _ = sum.Write(data)
		if err := t.Write(data); err != nil {
			return err
		}
	}
	data, err := s.block(blockFileEnd)
	if err != nil {
		return err
	}
	if len(data) != 8 || binary.LittleEndian.Uint64(data) != sum.Sum64() {
		return s.damaged("the checksum of " + want.Name + " is wrong")
	}
	return t.Done(sum.Sum64())
}

// end reads the last block, and that nothing follows.
func (s *reader) end() error {
	sum, blocks := s.hash.Sum64(), s.blocks
	data, err := s.block(blockEnd)
	if err != nil {
		return err
	}
	if len(data) != 16 || binary.LittleEndian.Uint64(data) != blocks || binary.LittleEndian.Uint64(data[8:]) != sum {
		return s.damaged("the checksum of the whole is wrong")
	}
	switch n, err := io.ReadFull(s.r, s.buf[:1]); {
	case n > 0:
		return s.damaged("something follows its end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("reading the backup: %w", err)
	}
	return nil
}

// block reads the next block, which must be of that kind; its data is borrowed until the next call.
func (s *reader) block(kind byte) ([]byte, error) {
	if err := s.fill(s.buf[:blockHead]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := int64(le.Uint32(s.buf[4:]))
	if s.buf[8] != kind || n > int64(limit(kind)) {
		return nil, s.damaged(fmt.Sprintf("a block of kind %d with %d bytes, where one of kind %d belongs", s.buf[8], n, kind))
	}
	b := s.buf[:blockHead]
	if need := blockHead + int(n); need <= len(s.buf) {
		b = s.buf[:need]
		if err := s.fill(b[blockHead:]); err != nil {
			return nil, err
		}
	} else { // a manifest; what comes tells how long it really is
		rest, err := io.ReadAll(io.LimitReader(s.r, n))
		if err != nil {
			return nil, fmt.Errorf("reading the backup: %w", err)
		}
		if int64(len(rest)) < n {
			return nil, s.damaged("it ends here")
		}
		b = append(b[:blockHead:blockHead], rest...)
	}
	if le.Uint32(b) != crc32.Update(salt(s.info.ID, s.blocks), castagnoli, b[4:]) {
		return nil, s.damaged("the checksum of a block is wrong")
	}
	_, _ = s.hash.Write(b)
	s.blocks++
	s.info.Bytes += int64(len(b))
	return b[blockHead:], nil
}

// fill reads len(b) bytes.
func (s *reader) fill(b []byte) error {
	_, err := io.ReadFull(s.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.damaged("it ends here")
	}
	if err != nil {
		return fmt.Errorf("reading the backup: %w", err)
	}
	return nil
}

// damaged says what is wrong behind how many bytes.
func (s *reader) damaged(what string) error {
	return fmt.Errorf("%w: behind byte %d, block %d: %s", ErrDamaged, s.info.Bytes, s.blocks, what)
}
