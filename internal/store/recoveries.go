package store

import (
	"fmt"
	"strconv"
	"time"
)

// recoveriesName is the file that counts recoveries that followed on each other.
const recoveriesName = "RECOVERIES"

// recoveryLasts is for how long a directory has to be whole so that its recovery counts no more.
const recoveryLasts = 10 * time.Minute

// Recoveries is how often the directory has recovered without staying whole for long, up to nowMillis, ms since 1970. A file that can't be read
// says 0: it is about pauses only.
func (d *Dir) Recoveries(nowMillis int64) int {
	lines, found, ok, err := d.readSealed(recoveriesName)
	if err != nil || !found || !ok || len(lines) != 1 {
		return 0
	}
	var n int
	var at int64
	if _, err := fmt.Sscanf(lines[0], "recoveries %d until %d", &n, &at); err != nil || n < 0 {
		return 0
	}
	if since := nowMillis - at; since < 0 || since > recoveryLasts.Milliseconds() {
		return 0
	}
	return n
}

// NoteRecovery counts one more. An error is ErrDisk.
func (d *Dir) NoteRecovery(nowMillis int64) error {
	n := d.Recoveries(nowMillis) + 1
	line := "recoveries " + strconv.Itoa(n) + " until " + strconv.FormatInt(nowMillis, 10) + "\n"
	return replaceFile(d.fs, d.path, recoveriesName, seal([]byte(line)))
}
