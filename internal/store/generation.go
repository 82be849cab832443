package store

import (
	"errors"
	"fmt"
	"io/fs"
)

// Log and state of a directory belong together, so a checkpoint that was fetched brings a new state and a new log at once: a
// generation. Which one counts is a number in the stamp, which is replaced atomically: that one write decides [6.2], as the
// log record would that the interleaving asks for, and besides there is never a start that has to tell which of two logs
// holds it. Generation 0 is what a directory begins with, DIR/log and DIR/state; generation n > 0 lies in DIR/gen-%08x.

// generationName is the directory of a generation above 0.
func generationName(n uint32) string { return fmt.Sprintf("gen-%08x", n) }

// parseGenerationName is its inverse; ok is false for any other name.
func parseGenerationName(name string) (n uint32, ok bool) {
	if _, err := fmt.Sscanf(name, "gen-%08x", &n); err != nil || n == 0 || generationName(n) != name {
		return 0, false
	}
	return n, true
}

// generation is the directory that holds log and state of a generation.
func (d *Dir) generation(n uint32) string {
	if n == 0 {
		return d.path
	}
	return d.Path(generationName(n))
}

// base is the directory that holds the present log and state.
func (d *Dir) base() string { return d.generation(d.Stamp().generation) }

// sweep removes what an installation or a process that died left behind: generations that the stamp doesn't name, and
// checkpoints that were offered, entries that were fetched for a log that is whole by now. Where the generation that the stamp names is not there, nothing is removed: somebody will
// have to look for it.
func (d *Dir) sweep() error {
	now := d.Stamp().generation
	if _, err := d.fs.Stat(d.generation(now)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: the stamp in %s names the generation %s, which isn't there; put it back, or let the node join anew from its peers",
				ErrCorrupt, d.path, generationName(now))
		}
		return fmt.Errorf("looking for %s: %w", d.generation(now), err)
	}
	if err := d.settleVoters(); err != nil {
		return err
	}
	names, err := d.fs.List(d.path)
	if err != nil {
		return fmt.Errorf("listing %s: %w", d.path, err)
	}
	for _, name := range names {
		n, ok := parseGenerationName(name)
		old := ok && n != now || now != 0 && (name == logName || name == stateName) || name == checkpointName || name == mendName
		if !old {
			continue
		}
		if err := d.fs.RemoveAll(d.Path(name)); err != nil {
			return fmt.Errorf("removing %s, which is not in use: %w", d.Path(name), err)
		}
	}
	return nil
}

// DiskBytes is the size of the disk that the directory lies on, and what is free of it for this process; zeros where the
// system doesn't say.
func (d *Dir) DiskBytes() (total, free uint64) {
	usage, err := d.fs.GetDiskUsage(d.path)
	if err != nil {
		return 0, 0
	}
	return usage.TotalBytes, usage.AvailBytes
}
