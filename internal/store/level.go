package store

import (
	"fmt"
	"strconv"
)

// levelName is the file that says at which feature level the state is [7.1], for a program that must not touch
// what it doesn't know.
const levelName = "LEVEL"

// SetLevel writes down the feature level to which the named version raised the state, atomically and synced, where it
// isn't written already. Call it before any change of that level gets into the state.
func (d *Dir) SetLevel(level uint32, version string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == level && d.levelRead {
		return nil
	}
	if err := replaceFile(d.fs, d.path, levelName, encodeLevel(level, version)); err != nil {
		return err
	}
	d.level, d.levelRead = level, true
	return nil
}

// checkLevel has the opener look at the level. A file that isn't whole says nothing: the state itself has the level, and the
// file is written anew when that is loaded.
func (d *Dir) checkLevel(check func(level uint32, version string) error) error {
	lines, found, ok, err := d.readSealed(levelName)
	if err != nil || !found || !ok {
		return err
	}
	level, version, ok := decodeLevel(lines)
	if !ok {
		return nil
	}
	d.level, d.levelRead = level, true
	if check == nil {
		return nil
	}
	if err := check(level, version); err != nil {
		return fmt.Errorf("%w: %s: %w; nothing was written", ErrVersion, d.Path(levelName), err)
	}
	return nil
}

func encodeLevel(level uint32, version string) []byte {
	return seal(fmt.Appendf(nil, "level %d\nversion %s\n", level, strconv.Quote(version)))
}

func decodeLevel(lines []string) (level uint32, version string, ok bool) {
	if len(lines) != 2 {
		return 0, "", false
	}
	var quoted string
	if _, err := fmt.Sscanf(lines[0], "level %d", &level); err != nil {
		return 0, "", false
	}
	if _, err := fmt.Sscanf(lines[1], "version %s", &quoted); err != nil {
		return level, "", true
	}
	version, _ = strconv.Unquote(lines[1][len("version "):])
	return level, version, true
}
