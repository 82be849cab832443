package store

import (
	"bytes"
	"maps"
	"testing"
)

// The list of members comes back as it was written; one that was damaged is passed over, with a word.
func TestMembersFile(t *testing.T) {
	files := NewMemFS()
	d, err := Open(Options{Dir: "/data", FS: files, Node: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := d.Members(); got != nil || err != nil {
		t.Fatalf("before: %v, %v", got, err)
	}
	want := map[uint64]string{1: "10.0.0.1:5673", 2: "", 11: "mq.example:5673"}
	for range 2 {
		if err := d.SetMembers(want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Members(); err != nil || !maps.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"a\nb", "a b", string(bytes.Repeat([]byte("x"), maxLineBytes+1))} {
		if err := d.SetMembers(map[uint64]string{1: bad}); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
	enc := encodeMembers(want)
	for i := range enc {
		bad := bytes.Clone(enc)
		bad[i] ^= 4
		if got, ok := decodeMembers(bad); ok {
			t.Fatalf("byte %d changed is taken: %v", i, got)
		}
		if got, ok := decodeMembers(enc[:i]); ok {
			t.Fatalf("the first %d bytes are taken: %v", i, got)
		}
	}
	if err := replaceFile(d.fs, d.path, membersName, enc[1:]); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Members(); got != nil || err == nil {
		t.Fatalf("%v, %v", got, err)
	}
}
