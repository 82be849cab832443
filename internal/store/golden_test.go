package store

import (
	"encoding/hex"
	"testing"
)

// TestGolden: the bytes of docs/format/log.md, for ever.
func TestGolden(t *testing.T) {
	cluster := [16]byte{0xC1, 15: 0xC2}
	head := make([]byte, segmentHeaderBytes)
	(&segmentHeader{
		version: 1, seq: 2, cluster: cluster, node: 3, history: 4, first: 5, prevEnd: position{1, 0x6000},
		prevCRC: 0xDEADBEEF, mark: position{1, 0x5000}, nonce: 7,
	}).encode(head)
	batch := make([]byte, batchHeaderBytes)
	(&batchHeader{mark: position{1, 0x6000}, length: 0x123, records: 3, sum: 9, prev: 0xCAFE}).encode(batch, 2, salt(0x11, 2))
	rec := appendRecord(nil, &record{kind: kindEntry, typ: 2, group: 0x0102, index: 0x0A0B, term: 6, data: []byte("data")}, salt(0x11, 2))
	for _, c := range []struct {
		name, want string
		got        []byte
	}{
		{"stamp", goldenStamp, Stamp{Cluster: cluster, Node: 3, History: 4, SafetyOff: true, hasLog: true}.encode(0x1122334455667788)},
		{"segment header", goldenSegment, head},
		{"batch header", goldenBatch, batch},
		{"record", goldenRecord, rec},
		{"voters", hex.EncodeToString([]byte("1\n2\n3\ncrc32c a1f49d34\n")), encodeVoters([]uint64{1, 2, 3})},
		{"applied key", "ffff610102", appendAppliedKey(nil, 0x0102)},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

const (
	goldenStamp   = "4f4d5153544d503166981b6b01000000c10000000000000000000000000000c20300000000000000887766554433221104000101000000000000000000000000"
	goldenSegment = "4f4d514c4f47310a3d81ad9f010000000200000000000000c10000000000000000000000000000c2030000000000000004000000000000000500000000000000010000000000000000600000efbeadde010000000000000000500000000000000700000000000000"
	goldenBatch   = "4f4d514223541e9f0200000000000000010000000000000000600000230100000300000009000000feca000000000000"
	goldenRecord  = "2acb9fdb0400000001020201000000000b0a000000000000060000000000000064617461"
)
