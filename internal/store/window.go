package store

import "github.com/cockroachdb/pebble/v2/vfs"

// window reads a file from front to back through one buffer.
type window struct {
	file  vfs.File
	size  int64 // of the file, rounded up to whole blocks
	buf   []byte
	start int64 // where buf begins in the file
	n     int64 // how much of buf is read
}

// windowBytes is how much is read at once.
const windowBytes = 1 << 20

// at returns n bytes at offset, valid until the next call. What lies behind the end of the file is zeros; ask for no
// more than the file may hold, since n is allocated.
func (w *window) at(offset, n int64) ([]byte, error) {
	if w.n == 0 && w.size == 0 {
		info, err := w.file.Stat()
		if err != nil {
			return nil, err
		}
		w.size = roundUp(info.Size())
	}
	if offset < w.start || offset+n > w.start+w.n {
		want := max(n, min(windowBytes, w.size-offset))
		if int64(len(w.buf)) < want {
			w.buf = make([]byte, want)
		}
		w.start, w.n = offset, want
		if _, err := readFull(w.file, w.buf[:want], offset); err != nil {
			// The bad place may lie further on.
			w.n = n
			if _, err := readFull(w.file, w.buf[:n], offset); err != nil {
				w.n = 0
				return nil, err
			}
		}
	}
	return w.buf[offset-w.start:][:n], nil
}

// batch reads the batch at offset of the segment seq; body is nil where there is none that is whole, and then h says whether at
// least its header is (h.records > 0).
func (w *window) batch(seq uint64, salt uint32, offset int64) (h batchHeader, body []byte, err error) {
	b, err := w.at(offset, batchHeaderBytes)
	if err != nil {
		return batchHeader{}, nil, err
	}
	if !h.decode(b, seq, salt) || h.records == 0 {
		return batchHeader{}, nil, nil
	}
	if offset+batchHeaderBytes+int64(h.length) > w.size {
		return h, nil, nil
	}
	b, err = w.at(offset, batchHeaderBytes+int64(h.length))
	if err != nil {
		return h, nil, err
	}
	if body = b[batchHeaderBytes:]; !h.decodeRecords(body, salt, nil) {
		body = nil
	}
	return h, body, nil
}
