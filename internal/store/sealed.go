package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
)

// seal ends the lines of a small text file with one that has their checksum.
func seal(lines []byte) []byte {
	return fmt.Appendf(lines, "crc32c %08x\n", crc32.Checksum(lines, castagnoli))
}

// unseal is the inverse: the lines without the last one.
func unseal(b []byte) (lines []string, ok bool) {
	at := bytes.LastIndex(b, []byte("crc32c "))
	if at < 0 || !bytes.Equal(seal(bytes.Clone(b[:at])), b) {
		return nil, false
	}
	text := strings.TrimSuffix(string(b[:at]), "\n")
	if text == "" {
		return nil, true
	}
	return strings.Split(text, "\n"), true
}

// readSealed reads a sealed file of the directory; found is false where there is none, ok where it isn't whole.
func (d *Dir) readSealed(name string) (lines []string, found, ok bool, err error) {
	path := d.Path(name)
	f, err := d.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, false, nil
	}
	if err != nil {
		return nil, false, false, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, true, false, nil //nolint:nilerr // what can't be read isn't whole
	}
	lines, ok = unseal(b)
	return lines, true, ok, nil
}
