package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/oncemq/oncemq/internal/store"
)

var errExists = errors.New("it exists already; name another file, or remove this one")

// Absent is an error where there is something at path: Save would refuse it, when a node has begun to make the backup.
func Absent(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, errExists)
	}
	return nil
}

// Save writes a backup that comes from r to a new file, which is there when the whole has come and was verified as it came, or not at all.
// Its mode is 0600. room is how many bytes are to stay free of the disk that it lies on. Errors: ErrDamaged (it broke off), of writing.
func Save(r io.Reader, path string, room uint64) (Info, error) {
	if err := Absent(path); err != nil {
		return Info{}, err
	}
	temp := path + ".part"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return Info{}, err
	}
	dir := filepath.Dir(path)
	info, err := read(io.TeeReader(r, &stepped{file: f}), &looker{dir: dir, room: room})
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Link(temp, path) // unlike a renaming it never replaces one that came meanwhile
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s: %w", path, errExists)
		} else if err != nil { // a file system without links
			err = os.Rename(temp, path)
		}
	}
	if err == nil {
		err = syncDir(dir)
	}
	if e := os.Remove(temp); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return info, err
}

// Copy passes a backup from r on to w and verifies it on the way.
func Copy(w io.Writer, r io.Reader) (Info, error) { return read(io.TeeReader(r, w), nowhere{}) }

// nowhere is the target of who wants only the stream.
type nowhere struct{}

func (nowhere) begin(*Info) error  { return nil }
func (nowhere) Write([]byte) error { return nil }
func (nowhere) Done(uint64) error  { return nil }

// looker looks whether there is room, before most of the stream comes.
type looker struct {
	nowhere
	dir  string
	room uint64
}

func (s *looker) begin(info *Info) error {
	need := uint64(info.Manifest.Bytes()) + uint64(info.Manifest.Bytes())/1000 + s.room
	if free, ok := store.FreeBytes(s.dir); ok && free < need {
		return fmt.Errorf("the backup needs %d bytes, %d of them to stay free, and %s has %d; name a file on another disk, or - and send it elsewhere",
			need, s.room, s.dir, free)
	}
	return nil
}

// saveStep is after how many bytes they are synced, so that the last sync isn't a long one for others on the disk.
const saveStep = 32 << 20

// stepped is a file that is synced as it grows.
type stepped struct {
	file    *os.File
	written int64
}

// Write implements io.Writer.
func (s *stepped) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	if before := s.written; err == nil && before/saveStep != (before+int64(n))/saveStep {
		err = s.file.Sync()
	}
	s.written += int64(n)
	return n, err
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
