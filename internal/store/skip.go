package store

import (
	"fmt"
	"slices"
)

// skipName is the file that lists the entries that this node passes over [4.4].
const skipName = "SKIP"

// Skip names an entry that a node passes over: the one of that index and term, and no other, since only that is the same
// on all nodes.
type Skip struct{ Index, Term uint64 }

// Skips are those that SetSkips wrote; nil where there are none. A list that can't be read is ErrCorrupt.
func (d *Dir) Skips() (skips []Skip, err error) {
	lines, found, ok, err := d.readSealed(skipName)
	if err != nil || !found {
		return nil, err
	}
	for _, line := range lines {
		var s Skip
		n, err := fmt.Sscanf(line, "index %d term %d", &s.Index, &s.Term)
		ok = ok && err == nil && n == 2
		skips = append(skips, s)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s is not a list of entries with the right checksum; remove it and run \"oncemq recover skip\" again", ErrCorrupt, d.Path(skipName))
	}
	return skips, nil
}

// SetSkips writes the list, atomically and synced; an empty one takes the file away.
func (d *Dir) SetSkips(skips []Skip) error {
	if len(skips) == 0 {
		if err := d.fs.RemoveAll(d.Path(skipName)); err != nil {
			return fmt.Errorf("%w: removing %s: %w", ErrDisk, d.Path(skipName), err)
		}
		return syncDir(d.fs, d.path)
	}
	skips = slices.Clone(skips)
	slices.SortFunc(skips, func(a, b Skip) int {
		if a.Index != b.Index {
			return int(int64(a.Index) - int64(b.Index))
		}
		return int(int64(a.Term) - int64(b.Term))
	})
	var lines []byte
	for _, s := range slices.Compact(skips) {
		lines = fmt.Appendf(lines, "index %d term %d\n", s.Index, s.Term)
	}
	return replaceFile(d.fs, d.path, skipName, seal(lines))
}
