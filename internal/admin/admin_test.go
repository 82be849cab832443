package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncemq/oncemq/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a Node whose answers a test sets.
type fakeNode struct {
	status  Status
	live    error
	ready   error
	queue   Queue
	err     error
	effect  command.Effect
	request command.Command // the last one
	hang    bool
}

func (n *fakeNode) Status() Status { return n.status }
func (n *fakeNode) Live() error    { return n.live }
func (n *fakeNode) Ready() error   { return n.ready }

func (n *fakeNode) Request(ctx context.Context, cmd command.Command) (command.Effect, error) {
	n.request = cmd
	if n.hang {
		<-ctx.Done()
		return command.Effect{}, ctx.Err()
	}
	return n.effect, n.err
}

func (n *fakeNode) Queue(context.Context, string) (Queue, error) { return n.queue, n.err }

func do(t *testing.T, n *fakeNode, method, path string, set func(*http.Request)) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8161"+path, nil)
	if set != nil {
		set(r)
	}
	w := httptest.NewRecorder()
	Handler(Config{Node: n, RequestTimeout: 50 * time.Millisecond}).ServeHTTP(w, r)
	body := map[string]any{}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil && method != http.MethodHead {
		t.Fatalf("%s %s: %d: body %q isn't a JSON object: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, body
}

func TestStatusHasExactlyTheDocumentedFields(t *testing.T) {
	n := &fakeNode{status: Status{
		Node: 1, Leader: 2, Role: "follower", Term: 3, AppliedIndex: 9, PID: 4, Version: "v1", Safety: "on", LagMillis: 7,
		Room:   Room{Cluster: "low", Disks: "ok", Memory: "low", MemoryUsed: 8, MemoryBudget: 10, Disk: "full", DiskFree: 1, DiskTotal: 2, DiskReserve: 3, DiskReserveHeld: true, Waiting: true},
		Alarms: []string{"a"}, Scrub: Scrub{Passes: 11, Bytes: 12, Damage: "d"},
	}}
	code, body := do(t, n, "GET", "/api/v1/status", nil)
	got, _ := json.Marshal(body)
	want := `{"alarms":["a"],"applied_index":9,"lag_ms":7,"leader":2,"node":1,"pid":4,"role":"follower",` +
		`"room":{"cluster":"low","disk":"full","disk_free_bytes":1,"disk_reserve_bytes":3,"disk_reserve_held":true,"disk_total_bytes":2,` +
		`"disk_waiting":true,"disks":"ok","memory":"low","memory_budget_bytes":10,"memory_used_bytes":8},"safety":"on","scrub":{"bytes":12,"damage":"d","passes":11},"term":3,"version":"v1"}`
	if code != 200 || string(got) != want {
		t.Fatalf("%d %s\nwant 200 %s", code, got, want)
	}
}

func TestRequests(t *testing.T) {
	notFound := command.Effect{Refusal: &command.Refusal{Condition: "amqp:not-found", Description: "no such queue"}}
	long := strings.Repeat("n", 256)
	for _, tc := range []struct {
		name, method, path string
		node               fakeNode
		code               int
		says               string // in the error
		asks               command.Command
	}{
		{name: "live", method: "GET", path: "/livez", code: 200},
		{name: "not live", method: "GET", path: "/livez", node: fakeNode{live: errors.New("disk stuck")}, code: 503, says: "disk stuck"},
		{name: "ready", method: "GET", path: "/readyz", code: 200},
		{name: "head", method: "HEAD", path: "/readyz", code: 200},
		{name: "not ready", method: "GET", path: "/readyz", node: fakeNode{ready: errors.New("no leader")}, code: 503, says: "no leader"},
		{name: "create", method: "PUT", path: "/api/v1/queues/orders", code: 201, asks: &command.QueueCreate{Name: "orders"}},
		{name: "create again", method: "PUT", path: "/api/v1/queues/orders", node: fakeNode{effect: command.Effect{Existed: true}}, code: 200},
		{name: "slash in the name", method: "PUT", path: "/api/v1/queues/a%2Fb", code: 201, asks: &command.QueueCreate{Name: "a/b"}},
		{name: "delete", method: "DELETE", path: "/api/v1/queues/orders", code: 200, asks: &command.QueueDelete{Name: "orders"}},
		{name: "delete unknown", method: "DELETE", path: "/api/v1/queues/x", node: fakeNode{effect: notFound}, code: 404, says: "no such queue"},
		{name: "purge", method: "POST", path: "/api/v1/queues/orders/purge", node: fakeNode{effect: command.Effect{Number: 7}}, code: 200, asks: &command.QueuePurge{Name: "orders"}},
		{name: "purge by GET", method: "GET", path: "/api/v1/queues/orders/purge", code: 405, says: "allowed: POST"},
		{name: "read unknown", method: "GET", path: "/api/v1/queues/x", node: fakeNode{err: ErrNoQueue}, code: 404, says: "PUT makes it"},
		{name: "read without quorum", method: "GET", path: "/api/v1/queues/x", node: fakeNode{err: errors.New("no quorum")}, code: 503, says: "no quorum"},
		{name: "request that hangs", method: "PUT", path: "/api/v1/queues/x", node: fakeNode{hang: true}, code: 503, says: "safe to ask again"},
		{name: "reserved name", method: "PUT", path: "/api/v1/queues/$oncemq.tx", code: 400, says: "broker's own"},
		{name: "long name", method: "PUT", path: "/api/v1/queues/" + long, code: 400, says: "256 bytes"},
		{name: "control character", method: "PUT", path: "/api/v1/queues/a%0Ab", code: 400, says: "control"},
		{name: "not UTF-8", method: "PUT", path: "/api/v1/queues/a%ff", code: 400, says: "UTF-8"},
		{name: "unknown path", method: "GET", path: "/api/v2/status", code: 404, says: "no such path"},
		{name: "wrong method", method: "POST", path: "/api/v1/queues/orders", code: 405, says: "DELETE, GET, PUT"},
		{name: "no profiles without dev", method: "GET", path: "/debug/pprof/", code: 404, says: "no such path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, body := do(t, &tc.node, tc.method, tc.path, nil)
			if code != tc.code {
				t.Fatalf("status %d, want %d (%v)", code, tc.code, body)
			}
			says, _ := body["error"].(string)
			if (tc.says != "") != (says != "") || !strings.Contains(says, tc.says) {
				t.Errorf("error %q, want one that says %q", says, tc.says)
			}
			if tc.code >= 400 && tc.code < 404 && tc.node.request != nil {
				t.Errorf("%T was proposed for a request that is refused", tc.node.request)
			}
			if tc.asks != nil && string(command.Append(nil, tc.asks)) != string(command.Append(nil, tc.node.request)) {
				t.Errorf("proposed %+v, want %+v", tc.node.request, tc.asks)
			}
		})
	}
}

func TestReadQueue(t *testing.T) {
	_, body := do(t, &fakeNode{queue: Queue{Name: "q", Depth: 5, InFlight: 2}}, "GET", "/api/v1/queues/q", nil)
	if got, _ := json.Marshal(body); string(got) != `{"depth":5,"in_flight":2,"name":"q"}` {
		t.Fatalf("got %s", got)
	}
}

// TestPagesOfOthersAreRefused: a browser must not be a way in (name re-binding, cross-site posts).
func TestPagesOfOthersAreRefused(t *testing.T) {
	n := &fakeNode{}
	if code, _ := do(t, n, "GET", "/api/v1/status", func(r *http.Request) { r.Host = "evil.example:8161" }); code != 403 {
		t.Errorf("foreign host: %d, want 403", code)
	}
	cross := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if code, _ := do(t, n, "DELETE", "/api/v1/queues/orders", cross); code != 403 || n.request != nil {
		t.Errorf("cross-site delete: %d, proposed %v, want 403 and nothing", code, n.request)
	}
}

func TestListenRefusesOpenAddress(t *testing.T) {
	if s, err := Listen(Config{Addr: "0.0.0.0:0", Node: &fakeNode{}}); err == nil {
		s.listener.Close()
		t.Fatal("listened on all addresses")
	}
}

func TestRunAnswersAndStops(t *testing.T) {
	routes := map[string]http.Handler{"POST /api/v1/bench/raw": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"per_s": 1})
	})}
	s, err := Listen(Config{Addr: "127.0.0.1:0", Node: &fakeNode{}, Dev: true, Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	base := "http://" + s.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, method := range map[string]string{"/api/v1/status": "GET", "/debug/pprof/cmdline": "GET", "/api/v1/bench/raw": "POST"} {
		req, _ := http.NewRequestWithContext(ctx, method, base+path, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
