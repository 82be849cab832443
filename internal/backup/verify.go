package backup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncemq/oncemq/internal/store"
)

// Verify reads a whole backup and checks all of its checksums: those of the stream, and those inside the state's tables, one
// table at a time in a file in a directory of its own under os.TempDir. That the state can be loaded, [Restore] finds out alone. Errors: ErrDamaged, ErrVersion.
func Verify(r io.Reader) (info Info, err error) {
	dir, err := os.MkdirTemp("", "oncemq-verify-")
	if err != nil {
		return info, fmt.Errorf("making a directory for one table at a time: %w", err)
	}
	defer os.RemoveAll(dir)
	v := &verifier{path: filepath.Join(dir, "table.sst")}
	info, err = read(r, v)
	if v.file != nil {
		v.file.Close()
	}
	return info, err
}

// verifier is the target of a verification.
type verifier struct {
	path string
	info *Info
	at   int // the file at hand
	file *os.File
}

func (v *verifier) begin(info *Info) error { v.info = info; return nil }

// name is the file at hand's, ok whether it is a table.
func (v *verifier) name() (name string, ok bool) {
	name = v.info.Manifest.Files[v.at].Name
	return name, strings.HasSuffix(name, ".sst")
}

// Write implements target.
func (v *verifier) Write(b []byte) (err error) {
	if _, ok := v.name(); !ok {
		return nil
	}
	if v.file == nil {
		if v.file, err = os.OpenFile(v.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	if _, err = v.file.Write(b); err != nil {
		return fmt.Errorf("a table of the backup, while it is looked at: %w; TMPDIR names another place for it", err)
	}
	return nil
}

// Done implements target.
func (v *verifier) Done(uint64) error {
	name, ok := v.name()
	v.at++
	if !ok {
		return nil
	}
	if v.file == nil {
		return fmt.Errorf("%w: the table %s is empty", ErrDamaged, name)
	}
	err := v.file.Close()
	v.file = nil
	if err != nil {
		return err
	}
	if err := store.VerifyTable(v.path); err != nil {
		return fmt.Errorf("%w: %s was damaged before the backup was made: %w", ErrDamaged, name, err)
	}
	return nil
}
