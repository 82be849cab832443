package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Manifest says what a checkpoint is and which files it has. docs/format/log.md draws its bytes.
type Manifest struct {
	// ID is drawn when the checkpoint is made: no two have the same.
	ID [16]byte
	// Cluster, History and Node are those of the directory that it was made in.
	Cluster [16]byte
	History uint16
	Node    uint64
	// Index is the applied index of the state, Term that entry's.
	Index, Term uint64
	// Digest is the state's, as package state computes it.
	Digest uint64
	// Voters are the ids of the cluster's nodes at Index, ascending.
	Voters []uint64
	// Files are those of the Pebble database, in the order of their names.
	Files []CheckpointFile
}

// CheckpointFile is one file of a checkpoint.
type CheckpointFile struct {
	// Name is that of a file in one flat directory: letters, digits, '.', '-' and '_', at most 64 of them.
	Name string
	// Bytes is its length, Sum the xxHash64 of what is in it.
	Bytes int64
	Sum   uint64
}

const (
	manifestMagic   = 0x0A31504B43514D4F // "OMQCKP1\n"
	manifestVersion = 1
	// MaxManifestBytes is the longest encoding that is read.
	MaxManifestBytes = 8 << 20
	maxFiles         = 1 << 16
	maxFileBytes     = 1 << 44
	maxVoters        = 64
)

// Bytes is the length of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Bytes
	}
	return n
}

// Encode returns the manifest's bytes.
func (m *Manifest) Encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 16, 256+64*len(m.Files))
	le.PutUint64(b, manifestMagic)
	le.PutUint32(b[12:], manifestVersion)
	b = append(append(b, m.ID[:]...), m.Cluster[:]...)
	for _, v := range []uint64{uint64(m.History), m.Node, m.Index, m.Term} {
		b = binary.AppendUvarint(b, v)
	}
	b = le.AppendUint64(b, m.Digest)
	b = binary.AppendUvarint(b, uint64(len(m.Voters)))
	for _, v := range m.Voters {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Files)))
	for i := range m.Files {
		f := &m.Files[i]
		b = append(binary.AppendUvarint(b, uint64(len(f.Name))), f.Name...)
		b = binary.AppendUvarint(b, uint64(f.Bytes))
		b = le.AppendUint64(b, f.Sum)
	}
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

// DecodeManifest reads what Encode made, from wherever it comes: nothing in it is trusted. Errors: ErrFetched, ErrVersion.
func DecodeManifest(b []byte) (m Manifest, err error) {
	le := binary.LittleEndian
	bad := func(what string) (Manifest, error) {
		return Manifest{}, fmt.Errorf("%w: its manifest of %d bytes has %s", ErrFetched, len(b), what)
	}
	if len(b) < 16 || len(b) > MaxManifestBytes || le.Uint64(b) != manifestMagic || le.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return bad("a wrong length or checksum")
	}
	if v := le.Uint32(b[12:]); v > manifestVersion {
		return Manifest{}, fmt.Errorf("%w: the manifest of a checkpoint has format %d, this program knows %d; run the same release on all nodes", ErrVersion, v, manifestVersion)
	}
	d := manifestReader{b: b[16:]}
	copy(m.ID[:], d.take(16))
	copy(m.Cluster[:], d.take(16))
	history := d.uint(1<<16 - 1)
	m.History, m.Node, m.Index, m.Term, m.Digest = uint16(history), d.uint(0), d.uint(0), d.uint(0), d.fixed()
	for range d.uint(maxVoters) {
		m.Voters = append(m.Voters, d.uint(0))
	}
	for n := d.uint(maxFiles); n > 0 && !d.bad; n-- {
		f := CheckpointFile{Name: string(d.take(int(d.uint(maxNameBytes)))), Bytes: int64(d.uint(maxFileBytes)), Sum: d.fixed()}
		if !flatName(f.Name) || len(m.Files) > 0 && f.Name <= m.Files[len(m.Files)-1].Name {
			return bad(fmt.Sprintf("the file name %q where it can't be", f.Name))
		}
		m.Files = append(m.Files, f)
	}
	if d.bad || len(d.b) > 0 || m.Index == 0 || m.Term == 0 || len(m.Files) == 0 {
		return bad("fields that can't be")
	}
	return m, nil
}

const maxNameBytes = 64

// flatName reports that a name is that of a file that a checkpoint may bring: nothing that leads out of its directory, and
// not the lock.
func flatName(name string) bool {
	if name == "" || len(name) > maxNameBytes || name[0] == '.' || name == lockName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// manifestReader reads the fields of a manifest; the first fault sticks.
type manifestReader struct {
	b   []byte
	bad bool
}

func (d *manifestReader) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad, d.b = true, nil
		return make([]byte, 0)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// uint reads a number of at most limit, 0: any.
func (d *manifestReader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || limit > 0 && v > limit {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *manifestReader) fixed() uint64 {
	if b := d.take(8); len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
