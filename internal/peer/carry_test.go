package peer

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// carried notes what a Handler got.
type carried struct {
	raft    []byte
	records Records
	note    Note
	from    uint64
}

func (c *carried) Raft(from uint64, m []byte) { c.raft, c.from = bytes.Clone(m), from }
func (c *carried) Records(from uint64, r Records) {
	r.Data = bytes.Clone(r.Data)
	c.records, c.from = r, from
}

func (c *carried) Note(from uint64, n Note) {
	n.Data = bytes.Clone(n.Data)
	c.note, c.from = n, from
}
func (c *carried) PeerUp(uint64)         {}
func (c *carried) Removed(uint64)        {}
func (c *carried) PeerLost(uint64)       {}
func (c *carried) PeerGone(uint64, bool) {}

// A frame that is carried by hand comes out as it went in; no byte of it can change, and no
// piece of it be missing, without being seen.
func TestCarry(t *testing.T) {
	records, note := Records{Term: 7, Stream: 1 << 40, Data: []byte("records")}, Note{Kind: NoteClock, Clock: -5, Data: []byte("data")}
	for name, frame := range map[string][]byte{
		"raft":    AppendRaft(nil, text("a raft message")),
		"records": AppendRecords(nil, records),
		"note":    AppendNote(nil, note),
	} {
		var c carried
		if err := Deliver(&c, 3, frame); err != nil || c.from != 3 {
			t.Fatalf("%s: %v, from %d", name, err, c.from)
		}
		switch name {
		case "raft":
			if string(c.raft) != "a raft message" {
				t.Errorf("raft message %q", c.raft)
			}
		case "records":
			if c.records.Term != records.Term || c.records.Stream != records.Stream || string(c.records.Data) != "records" {
				t.Errorf("records %+v", c.records)
			}
		case "note":
			if !reflect.DeepEqual(c.note, note) {
				t.Errorf("note %+v", c.note)
			}
		}
		for i := range frame {
			bad := bytes.Clone(frame)
			bad[i] ^= 0x10
			if err := Deliver(&carried{}, 3, bad); !errors.Is(err, ErrFrame) {
				t.Errorf("%s with another byte %d: %v", name, i, err)
			}
			if err := Deliver(&carried{}, 3, frame[:i]); !errors.Is(err, ErrFrame) {
				t.Errorf("%s cut at %d: %v", name, i, err)
			}
		}
	}
}
