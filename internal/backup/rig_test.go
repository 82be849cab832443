package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Of the source that backups are made of.
const (
	sourceHistory = 4
	sourceTerm    = 7
	// sourceMessages have 1 KiB each: several blocks in several tables.
	sourceMessages = 1200
)

// source is a node's state on a disk in memory.
type source struct {
	dir   *store.Dir
	state *store.State
	index uint64
	m     *state.Machine
}

func newSource(t testing.TB) *source {
	t.Helper()
	d, err := store.Open(store.Options{Dir: "/source", FS: store.NewMemFS(), Node: 3, Cluster: [16]byte{8}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetCluster([16]byte{8}, sourceHistory); err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenState(store.StateOptions{Group: replica.Group, SpillInApply: true})
	if err != nil {
		t.Fatal(err)
	}
	src := &source{dir: d, state: s, m: state.New(replica.Group)}
	t.Cleanup(func() { s.Close(); d.Close() })
	src.apply(t, 0,
		&command.ClusterInit{Cluster: [16]byte{8}, History: sourceHistory, Level: command.Level, Voters: []command.NodeID{1, 2, 3}},
		&command.NodeUp{Node: 3, Nonce: [16]byte{1}, Announcement: command.Announcement{Level: command.Level}})
	src.apply(t, 3,
		&command.UserPut{Request: 1, Rule: command.UserNew, Name: "alice", Seed: [32]byte{5}},
		&command.QueueCreate{Request: 2, Name: "orders"},
		&command.ConnOpen{Local: 1, Principal: "alice", ContainerID: "app"})
	conn := src.m.Connections()[0].Conn
	for i := range sourceMessages {
		src.apply(t, 3, &command.Send{Conn: conn, Link: 1, Request: 1, Address: "orders", Message: message(i)})
		if i%500 == 0 {
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return src
}

func message(i int) []byte {
	return []byte(fmt.Sprintf("%08d", i) + strings.Repeat(string(rune('a'+i%26)), 1016))
}

// apply applies an entry of one record.
func (s *source) apply(t testing.TB, node command.NodeID, cs ...command.Command) {
	t.Helper()
	r := command.Record{Node: node}
	if node != 0 {
		r.Epoch, r.Number = s.m.Epoch(node)
	}
	for _, c := range cs {
		r.Body = command.Append(r.Body, c)
	}
	s.index++
	b := s.state.NewBatch()
	entry := command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{Civil: int64(s.index), Running: int64(s.index)}), r)
	if _, err := s.m.Apply(s.index, entry, b, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.state.Apply(b, s.index); err != nil {
		t.Fatal(err)
	}
}

// checkpoint makes what a node backs up.
func (s *source) checkpoint(t testing.TB) *store.Checkpoint {
	t.Helper()
	digest := s.m.Digest()
	c, err := s.dir.MakeBackup(s.state, func(m *store.Manifest, _ *store.State) error {
		m.Term, m.Digest, m.Voters = sourceTerm, digest, []uint64{1, 2, 3}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// backup is a whole backup of s.
func (s *source) backup(t testing.TB) []byte {
	t.Helper()
	c := s.checkpoint(t)
	defer c.Remove()
	var b bytes.Buffer
	if err := Write(context.Background(), &b, &c.Manifest, c, time.UnixMilli(1_700_000_000_123), 0); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// block is where a block of a stream lies.
type block struct {
	from, to int
	kind     byte
}

// blocks are those of a stream.
func blocks(t testing.TB, b []byte) (all []block) {
	t.Helper()
	for at := headerBytes; at < len(b); {
		n := int(b[at+4]) | int(b[at+5])<<8 | int(b[at+6])<<16 | int(b[at+7])<<24
		all = append(all, block{at, at + blockHead + n, b[at+8]})
		at += blockHead + n
	}
	if len(all) < 12 || all[len(all)-1].to != len(b) {
		t.Fatalf("%d blocks in %d bytes", len(all), len(b))
	}
	return all
}

// contents are the keys and values of a restored directory's state, and checks what else belongs to it.
func contents(t testing.TB, files store.FS, dir string, node uint64, voters []uint64, index uint64) map[string]string {
	t.Helper()
	d, err := store.Open(store.Options{Dir: dir, FS: files, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if s := d.Stamp(); s.History != sourceHistory+1 || s.Cluster != [16]byte{} || s.Node != node {
		t.Errorf("stamp %+v", s)
	}
	if got, err := d.Voters(); err != nil || !slices.Equal(got, voters) {
		t.Errorf("voters %v, %v; want %v", got, err, voters)
	}
	l, err := d.OpenLog(store.LogOptions{Group: replica.Group})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := d.OpenState(store.StateOptions{Group: replica.Group})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start, err := store.Begin(l, s)
	if want := (store.HardState{Term: sourceTerm, Commit: index}); err != nil || start.State != want || start.First != index+1 || start.Last != index || start.Applied != index {
		t.Errorf("the start is %+v, %v; want %+v behind entry %d", start, err, want, index)
	}
	if term, err := l.Term(index); err != nil || term != sourceTerm {
		t.Errorf("term of the log's base: %d, %v", term, err)
	}
	return values(t, s)
}

// values are a state's keys and values.
func values(t testing.TB, s *store.State) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := s.IterateRange(nil, []byte{0xFF, 0xFF}, func(k, v []byte) bool { all[string(k)] = string(v); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// slow is a reader that gives a byte at a time.
type slow struct{ io.Reader }

func (s slow) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), 1)]) }
