package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	stretchMagic = 0x0A3152545351514F // "OQQSTR1\n"
	stretchHead  = 12
)

// stretchName is the name of the file of a stretch with a last entry.
func stretchName(last uint64) string { return fmt.Sprintf("%016x.entries", last) }

// parseStretchName is its inverse; ok is false for any other name.
func parseStretchName(name string) (last uint64, ok bool) {
	if _, err := fmt.Sscanf(name, "%016x.entries", &last); err != nil || stretchName(last) != name {
		return 0, false
	}
	return last, true
}

// writeStretch writes a stretch to its file, synced. Errors: ErrFull, ErrDisk.
func (d *Dir) writeStretch(x *Stretch) error {
	dir := d.Path(mendName)
	err := makeDirs(d.fs, dir)
	if err == nil {
		b := x.AppendTo(make([]byte, stretchHead))
		binary.LittleEndian.PutUint64(b, stretchMagic)
		binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[stretchHead:], castagnoli))
		err = replaceFile(d.fs, dir, stretchName(x.Entries[len(x.Entries)-1].Index), b)
	}
	if errors.Is(err, errNoSpace) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// readStretch reads the file of a stretch. Errors: ErrStretch.
func (d *Dir) readStretch(path string) (x Stretch, err error) {
	b, err := readFile(d.fs, path, MaxStretchBytes)
	if err != nil || len(b) < stretchHead || binary.LittleEndian.Uint64(b) != stretchMagic ||
		binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[stretchHead:], castagnoli) {
		return x, errors.Join(fmt.Errorf("%w: %s isn't whole", ErrStretch, path), err)
	}
	if x, err = DecodeStretch(b[stretchHead:]); err == nil && len(x.Entries) == 0 {
		err = fmt.Errorf("%w: %s has none", ErrStretch, path)
	}
	return x, err
}
