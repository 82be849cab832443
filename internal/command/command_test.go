package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew: only for a new entry version")

// samples has at least one command of each kind, all fields set.
func samples() []Command {
	session := NewSessionID(5, 3, 77, 2, [4]byte{1, 2, 3, 4})
	nonce := [16]byte{9, 8, 7}
	refs := []DeliveryRef{{Message: 7, Attempt: 1}, {Message: 5, Attempt: 2}, {Message: 1 << 40, Attempt: 1<<32 - 1}}
	known := Known{Through: 900, Unknown: []uint64{3, 899}}
	modified := Disposition{Outcome: Modified, Failed: true, UndeliverableHere: true, Annotations: []byte{0xc1, 1, 0}}
	rejected := Disposition{Outcome: Rejected, Reason: "no such order"}
	settles := []TxSettle{{Link: 1, Ref: refs[0], Settled: true, Disposition: Disposition{Outcome: Accepted}}, {Link: 2, Ref: refs[2], Disposition: modified}}
	conn := ConnID(IndexPlace(1<<40, 6))
	addresses := Addresses{Peer: "10.0.0.2:5673", AMQP: "10.0.0.2:5672", AMQPS: "mq.example:5671", Admin: "127.0.0.1:8161"}
	return []Command{
		&ConnOpen{Local: 4, Principal: "alice", ContainerID: "app", Nonce: nonce, Attempt: 3, SoleConnection: true},
		&ConnEnd{Conn: conn, Cause: EndSilent, Links: []LinkUnwritten{{Link: 1, Received: 300, Unwritten: refs}, {Link: 2, Unwritten: []DeliveryRef{}}}},
		&SessionOpen{Conn: conn, Request: 8, Session: session, Nonce: nonce, Rollback: true},
		&SessionEnd{Conn: conn, Session: session, Known: known},
		&LinkOpen{
			Conn: conn, Request: 8, Link: 3, Session: session, Name: "in", Address: "orders", Create: true, Presettled: true, Resume: true,
			Unsettled: []Unsettled{{Incarnation: 6, Ref: refs[0]}, {Incarnation: 1 << 50, Ref: refs[2]}}, Dynamic: DynamicQueue,
		},
		&LinkEnd{Conn: conn, Link: 3, Closed: true, Received: 1 << 40, Unwritten: refs, Enlisted: refs[1:]},
		&SenderOpen{Conn: conn, Request: 8, Link: 3, Session: session, Name: "out", Address: "orders", Create: true, Numbered: true, Held: []uint64{4, 9}, Dynamic: DynamicQueue},
		&SenderOpen{Conn: conn, Link: 3, Name: "out", Address: "orders", Resends: true},
		&SenderEnd{Conn: conn, Link: 3, Closed: true},
		&Allow{Conn: conn, Link: 3, Messages: 100, Bytes: 1 << 33},
		&Withdraw{Conn: conn, Link: 3, Request: 8, Received: 9, Unwritten: refs},
		&Send{Conn: conn, Link: 3, Request: 8, Number: 5, Target: 6, Address: "orders", Message: []byte("message")},
		&SendForget{Conn: conn, Link: 3, Numbers: []uint64{1, 2, 1 << 60}},
		&Settle{Conn: conn, Link: 3, Request: 8, Keep: true, Disposition: rejected, Refs: refs},
		&Settle{Conn: conn, Link: 3, Disposition: Disposition{Outcome: Released}, Refs: refs[:1]},
		&Forget{Conn: conn, Link: 3, Refs: refs},
		&Commit{
			Conn: conn, Request: 8, Tx: NewTxID(session, 12), Named: true, Operations: 4, Counted: 4, Known: known,
			Sends: []TxSend{{Target: 6, Message: []byte("a")}, {Address: "receipts", Message: []byte("b")}}, Settles: settles,
		},
		&Commit{Conn: conn, Operations: -1, Known: Known{Unknown: []uint64{}}, Sends: []TxSend{}, Settles: []TxSettle{}},
		&Rollback{Conn: conn, Request: 8, Tx: NewTxID(session, 12), Named: true, Reason: ReasonTimeout, Known: known, Settles: settles},
		&Outcome{Conn: conn, Request: 8, Tx: NewTxID(session, 12), Decide: true},
		&TokenOpen{Conn: conn, Request: 8, Nonce: [4]byte{1, 2, 3, 4}},
		&QueueCreate{Conn: conn, Request: 8, Name: "orders"},
		&QueueDelete{Request: 8, Name: "orders"},
		&QueuePurge{Request: 8, Name: "orders"},
		&Part{Command: 3, Offset: 262144, Last: true, Data: []byte("piece")},
		&NodeUp{Node: 2, Nonce: nonce, Announcement: Announcement{Level: 1, Name: "b", Addresses: addresses}},
		&NodeDown{Node: 2, Epoch: 99},
		&Tick{},
		&ClusterInit{Cluster: nonce, History: 5, Voters: []NodeID{1, 2, 7}, Level: 1, Version: "v0.1.0"},
		&Digest{Node: 2, Index: 4096, Sum: 1<<64 - 1},
		&UserPut{Request: 8, Rule: UserNew, Name: "alice", Seed: [32]byte{7, 31: 9}, Keys: sampleKeys()},
		&UserPut{Request: 8, Rule: UserChange, Name: "bob"},
		&UserDelete{Request: 8, Name: "alice"},
		&NodeRoom{Node: 2, Disk: RoomFull, Memory: 1 << 33},
		&TokenPut{Request: 8, Hash: [32]byte{7, 31: 9}, Expires: 1_700_000_000_000, Replace: 3},
		&MemberAdd{Request: 8, Token: [32]byte{7, 31: 9}, Key: [32]byte{1, 31: 2}, Name: "d", Addresses: addresses},
		&MemberRemove{Request: 8, Nodes: []NodeID{2, 3}},
		&Finalize{Request: 8, Level: 2, Version: "v0.2.0"},
		&SetTime{Request: 8, Civil: 1_800_000_000_000, By: "root"},
		&MemberGone{Node: 300},
	}
}

func sampleKeys() ScramKeys {
	return ScramKeys{
		Iterations: 50_000, Salt: [16]byte{1, 15: 2}, Stored256: [32]byte{3, 31: 4}, Server256: [32]byte{5, 31: 6},
		Stored512: [64]byte{7, 63: 8}, Server512: [64]byte{9, 63: 10},
	}
}

// TestKeysAreNeverPrinted: neither by themselves nor within a command.
func TestKeysAreNeverPrinted(t *testing.T) {
	c := &UserPut{Keys: sampleKeys()}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{c.Keys, &c.Keys, c} {
			if text := fmt.Sprintf(format, v); !strings.Contains(text, "keys hidden") || strings.Contains(text, "Stored256") {
				t.Errorf("%s of %T prints %.200s", format, v, text)
			}
		}
	}
}

// TestKeysRoundTrip: every byte counts, and another version is refused.
func TestKeysRoundTrip(t *testing.T) {
	want := sampleKeys()
	enc := AppendScramKeys(nil, &want)
	if got, err := DecodeScramKeys(enc); err != nil || got != want {
		t.Fatalf("%v; equal %v", err, got == want)
	}
	if got, err := DecodeScramKeys(nil); err != nil || !got.None() {
		t.Errorf("no keys: %v %v", got, err)
	}
	newer := bytes.Clone(enc)
	newer[0] = 2
	for name, bad := range map[string][]byte{
		"newer version": newer, "cut": enc[:len(enc)-1], "longer": append(bytes.Clone(enc), 0), "no iterations": append([]byte{1, 0}, make([]byte, 208)...),
	} {
		if _, err := DecodeScramKeys(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryKindHasASample(t *testing.T) {
	seen := make(map[Kind]bool)
	for _, c := range samples() {
		seen[c.Kind()] = true
	}
	for k := Kind(1); k < kindEnd; k++ {
		if !seen[k] {
			t.Errorf("kind %d has no sample", k)
		}
		if got := newCommand(k).Kind(); got != k {
			t.Errorf("kind %d makes a command of kind %d", k, got)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	var body []byte
	all := samples()
	for _, c := range all {
		body = Append(body, c)
	}
	var d Decoder
	for range 2 { // the second time over used values
		d.Reset(body)
		for i, want := range all {
			if got := d.Next(); !same(got, want) {
				t.Fatalf("%d: got %+v, want %+v", i, got, want)
			}
		}
		if d.Next() != nil || d.Err() != nil {
			t.Fatal(d.Err())
		}
	}
}

// same compares commands; no elements are as good as none.
func same(a, b Command) bool {
	return a != nil && b != nil && a.Kind() == b.Kind() && fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) && bytes.Equal(Append(nil, a), Append(nil, b))
}

// The encodings are stored and replicated: these bytes never change under version 1.
func TestGolden(t *testing.T) {
	const name = "testdata/golden.txt"
	var b strings.Builder
	for _, c := range samples() {
		fmt.Fprintf(&b, "%T %x\n", c, Append(nil, c))
	}
	e := AppendEntry(nil, EntryHeader{Civil: 1_700_000_000_000, Running: 12345})
	e = AppendRecord(e, Record{Node: 2, Epoch: 99, Number: 7, Body: Append(nil, &Tick{})})
	fmt.Fprintf(&b, "entry %x\n", e)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(b.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || got[i] != line {
			t.Errorf("line %d: the encoding has changed:\nwas %s\nis  %s", i+1, line, got[min(i, len(got)-1)])
		}
	}
}

func TestEntryAndRecords(t *testing.T) {
	e := AppendEntry(nil, EntryHeader{Civil: -5, Running: 1 << 40})
	want := []Record{{Node: 1, Epoch: 2, Number: 3, Body: []byte("body")}, {Body: []byte{}}}
	for _, r := range want {
		e = AppendRecord(e, r)
	}
	h, rest, err := DecodeEntry(e)
	if err != nil || h != (EntryHeader{Civil: -5, Running: 1 << 40}) {
		t.Fatalf("%+v %v", h, err)
	}
	for _, w := range want {
		var r Record
		if r, rest, err = DecodeRecord(rest); err != nil || r.Node != w.Node || r.Epoch != w.Epoch || r.Number != w.Number || !bytes.Equal(r.Body, w.Body) {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if len(rest) != 0 {
		t.Fatalf("%x is left", rest)
	}
}

// 7.1: what a newer binary has written, or damage, is an error, never skipped.
func TestFaults(t *testing.T) {
	long := Append(nil, &Send{Message: []byte("message")})
	for name, body := range map[string][]byte{
		"unknown kind":    {byte(kindEnd), 0},
		"kind 0":          {0, 0},
		"no length":       {byte(KindTick)},
		"short":           long[:len(long)-1],
		"bytes behind":    {byte(KindTick), 1, 0},
		"count too high":  {byte(KindForget), 6, 1, 1, 0xff, 0xff, 0xff, 0x0f},
		"bad boolean":     {byte(KindOutcome), 27, 1, 1, 24: 0, 28: 7},
		"unknown outcome": {byte(KindSettle), 6, 1, 1, 0, 0, 9, 0},
	} {
		var d Decoder
		d.Reset(body)
		for d.Next() != nil {
		}
		if !errors.Is(d.Err(), ErrEncoding) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
	for _, e := range [][]byte{nil, {2, 0, 0}, {1}, {1, 0}} {
		if _, _, err := DecodeEntry(e); !errors.Is(err, ErrEncoding) {
			t.Errorf("%x: %v", e, err)
		}
	}
	if _, _, err := DecodeRecord([]byte{1, 1, 1, 5, 0}); !errors.Is(err, ErrEncoding) {
		t.Error(err)
	}
}

func TestIDs(t *testing.T) {
	s := NewSessionID(5, 3, 77, 65535, [4]byte{1, 2, 3, 4})
	if s.String() != "0005000300000000004dffff01020304" || s.History() != 5 || s.Group() != 3 || s.IsZero() {
		t.Error(s)
	}
	tx := NewTxID(s, 12)
	if tx.Session() != s || tx.Number() != 12 || tx.String() != s.String()+"/12" || tx.IsZero() {
		t.Error(tx)
	}
	if i, p := SplitIndexPlace(IndexPlace(1<<47, MaxPlace)); i != 1<<47 || p != MaxPlace {
		t.Error(i, p)
	}
	for spelling, ops := range map[string]int64{tx.String(): -1, tx.String() + "/0": 0, tx.String() + "/7": 7} {
		if got, n, err := ParseTokenTx(spelling); err != nil || got != tx || n != ops {
			t.Errorf("%q: %v %d %v", spelling, got, n, err)
		}
	}
	for _, bad := range []string{
		"", "x", s.String(), s.String() + "/", s.String() + "/0", s.String() + "/-1", s.String() + "/1/", s.String() + "/1/x",
		s.String() + "/1/2/3", "zz05000300000000004dffff01020304/1", s.String()[1:] + "/1", s.String() + "/99999999999999999999",
	} {
		if _, _, err := ParseTokenTx(bad); !errors.Is(err, ErrBadToken) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// BodyConn reads the first field of each command that has a connection.
func TestBodyConn(t *testing.T) {
	for _, c := range samples() {
		want := ConnID(0)
		if f := reflect.ValueOf(c).Elem(); f.NumField() > 0 && f.Type().Field(0).Name == "Conn" {
			want = ConnID(f.Field(0).Uint())
		} else if f.NumField() > 0 {
			for i := range f.NumField() {
				if f.Type().Field(i).Name == "Conn" {
					t.Errorf("%T: Conn isn't its first field", c)
				}
			}
		}
		body := Append(Append(nil, c), &Tick{})
		if got := BodyConn(body); got != want {
			t.Errorf("%T: %x, want %x", c, got, want)
		}
	}
	for _, body := range [][]byte{nil, {byte(KindSend)}, {byte(KindSend), 1, 2, 3, 4}, {byte(KindSend), 1, 2, 3, 4, 0x80}} {
		if got := BodyConn(body); got != 0 {
			t.Errorf("%x: %x", body, got)
		}
	}
}

func TestDecoderDoesNotAllocate(t *testing.T) {
	var body []byte
	refs := []DeliveryRef{{Message: 7, Attempt: 1}, {Message: 8, Attempt: 1}}
	body = Append(body, &Send{Conn: 1, Link: 1, Target: 5, Message: []byte("message")})
	body = Append(body, &Settle{Conn: 1, Link: 1, Disposition: Disposition{Outcome: Accepted}, Refs: refs})
	body = Append(body, &Commit{Conn: 1, Sends: []TxSend{{Target: 5, Message: []byte("m")}}, Settles: []TxSettle{{Link: 1, Ref: refs[0], Disposition: Disposition{Outcome: Accepted}}}})
	var d Decoder
	walk := func() {
		d.Reset(body)
		for d.Next() != nil {
		}
	}
	walk()
	if n := testing.AllocsPerRun(100, walk); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecoder(f *testing.F) {
	for _, c := range samples() {
		f.Add(Append(nil, c))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var d, e Decoder
		d.Reset(body)
		BodyConn(body)
		for c := d.Next(); c != nil; c = d.Next() {
			again := Append(nil, c)
			e.Reset(again)
			if got := e.Next(); e.Err() != nil || !same(got, c) {
				t.Fatalf("%+v became %+v (%v)", c, got, e.Err())
			}
		}
		if d.Err() != nil && !errors.Is(d.Err(), ErrEncoding) {
			t.Fatal(d.Err())
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add(AppendRecord(AppendEntry(nil, EntryHeader{}), Record{Node: 1}))
	f.Fuzz(func(t *testing.T, entry []byte) {
		_, rest, err := DecodeEntry(entry)
		for err == nil && len(rest) > 0 {
			var r Record
			if r, rest, err = DecodeRecord(rest); err == nil {
				if got, _, err := DecodeRecord(AppendRecord(nil, r)); err != nil || !reflect.DeepEqual(got, r) {
					t.Fatalf("%+v became %+v (%v)", r, got, err)
				}
			}
		}
		ParseTokenTx(hex.EncodeToString(entry) + "/1") //nolint:errcheck // it must not panic
	})
}
