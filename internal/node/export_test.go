package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/export"
)

// TestExportAndImport: what is exported and imported into another queue is what it was, byte for byte, more than a transaction of
// it; the first queue keeps it, what a consumer has among it; and an import that broke off goes on.
func TestExportAndImport(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	nodes, urls := serveAll(t, filepath.Join(dir, "n"), 1)
	nodes[0].want(t, 201, "PUT", "/api/v1/users/alice", fmt.Sprintf(`{"password":%q}`, alicePassword))
	addr := nodes[0].admin.Addr().String()
	c, s := alice(t, urls)
	const count = 2500
	sender, err := s.NewSender(ctx, "from", nil)
	if err != nil {
		t.Fatal(err)
	}
	var receipts []*oncemq.Receipt
	for i := range count {
		if i%500 == 0 {
			continue
		}
		b := amqp.AppendValue(nil, &amqp.Described{Descriptor: uint64(0x70), Value: amqp.List{true, uint8(i % 10)}})
		b = amqp.AppendValue(b, &amqp.Described{Descriptor: uint64(0x74), Value: amqp.Map{{Key: "n", Value: int8(i)}, {Key: "big", Value: uint64(1<<63) + uint64(i)}}})
		for range i%3 + 1 {
			b = amqp.AppendValue(b, &amqp.Described{Descriptor: uint64(0x75), Value: bytes.Repeat([]byte{byte(i)}, i)})
		}
		m, err := oncemq.ParseMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sender.SendAsync(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	for _, r := range receipts {
		if err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	in, err := s.NewReceiver(ctx, "from", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	r, err := export.Export(ctx, addr, "from", 0, &lines)
	if err != nil || r.Messages != count-5 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !strings.Contains(strings.SplitN(lines.String(), "\n", 2)[0], `"held":true`) {
		t.Errorf("the first line: %.200s", lines.String())
	}
	depth := func(queue string) uint64 {
		var q admin.Queue
		if err := admin.Call(ctx, addr, http.MethodGet, "/api/v1/queues/"+queue, nil, &q); err != nil {
			t.Fatal(err)
		}
		return q.Depth
	}
	if n := depth("from"); n != count-5 {
		t.Errorf("%d messages are left", n)
	}
	var seen []uint64
	half := bytes.Join(bytes.SplitAfter(lines.Bytes(), []byte("\n"))[:1700], nil)
	done, err := export.Import(ctx, c, "to", bytes.NewReader(append(half, `{"broken`...)), 0, func(r export.Result) { seen = append(seen, r.Position) })
	if err == nil || !slices.Equal(seen, []uint64{1000}) || done.Position != 1000 || depth("to") != 1000 {
		t.Fatalf("committed %v, %+v, %v, %d", seen, done, err, depth("to"))
	}
	if done, err = export.Import(ctx, c, "to", bytes.NewReader(lines.Bytes()), done.Position, nil); err != nil || done.Position != count-5 || done.Messages != count-5-1000 {
		t.Fatalf("%+v, %v", done, err)
	}
	var again bytes.Buffer
	if _, err := export.Export(ctx, addr, "to", 0, &again); err != nil {
		t.Fatal(err)
	}
	a, b := bare(t, lines.Bytes()), bare(t, again.Bytes())
	if len(a) != count-5 || !slices.Equal(a, b) {
		t.Errorf("%d messages were exported, %d are there, or they differ", len(a), len(b))
	}
	var tail bytes.Buffer
	if r, err := export.Export(ctx, addr, "to", r.Position, &tail); err != nil || r.Messages > count-5 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := export.Export(ctx, addr, "none", 0, &tail); !strings.Contains(fmt.Sprint(err), "no such queue") {
		t.Errorf("a queue that isn't there: %v", err)
	}
}

// bare are lines without what says where their messages were.
func bare(t *testing.T, lines []byte) (all []string) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(lines)); d.More(); {
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"queue", "position", "held", "delivery-count"} {
			delete(m, key)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}
