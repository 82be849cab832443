package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// fakeCluster is Members, Leadership and Service in one; it keeps what it was asked.
type fakeCluster struct {
	asked  string
	effect command.Effect
	err    error
}

func (f *fakeCluster) ask(format string, args ...any) { f.asked = fmt.Sprintf(format, args...) }

func (f *fakeCluster) Cluster(context.Context) (Cluster, error) {
	return Cluster{ID: "ab", Leader: 1, Members: []Member{{Node: 1, Role: "voter"}}}, f.err
}

func (f *fakeCluster) Token(_ context.Context, lifetime time.Duration, replace uint64) (JoinToken, command.Effect, error) {
	f.ask("token %s %d", lifetime, replace)
	return JoinToken{Token: "secret"}, f.effect, f.err
}

func (f *fakeCluster) Remove(_ context.Context, nodes []uint64) (command.Effect, error) {
	f.ask("remove %v", nodes)
	return f.effect, f.err
}

func (f *fakeCluster) Transfer(_ context.Context, to uint64) error {
	f.ask("transfer %d", to)
	return f.err
}

func (f *fakeCluster) Quorum(context.Context) (Quorum, error) {
	return Quorum{MayStop: true, Why: "alone"}, f.err
}

func (f *fakeCluster) Service() NodeService { return NodeService{Node: 1, Connections: 3} }

func (f *fakeCluster) Drain(over time.Duration) NodeService {
	f.ask("drain %s", over)
	return NodeService{Drained: true}
}

func (f *fakeCluster) Revive() NodeService {
	f.ask("revive")
	return NodeService{}
}

func (f *fakeCluster) Rebalance(_ context.Context, over time.Duration) (Rebalanced, error) {
	f.ask("rebalance %s", over)
	return Rebalanced{Closing: 2}, f.err
}

func (f *fakeCluster) do(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8161"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	Handler(Config{Node: &fakeNode{status: Status{Leader: 2}}, Members: f, Leadership: f, Service: f}).ServeHTTP(w, r)
	answer := map[string]any{}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %d: body %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, answer
}

// TestClusterRequests: what each request asks for, and what it answers.
func TestClusterRequests(t *testing.T) {
	for _, tc := range []struct {
		method, path, body string
		code               int
		asked              string
		key                string
		value              any
	}{
		{"GET", "/api/v1/cluster", "", 200, "", "cluster", "ab"},
		{"POST", "/api/v1/cluster/tokens", "", 201, "token 24h0m0s 0", "token", "secret"},
		{"POST", "/api/v1/cluster/tokens", `{"lifetime": "2h", "replace": 3}`, 201, "token 2h0m0s 3", "token", "secret"},
		{"POST", "/api/v1/cluster/remove", `{"nodes": [3, 2]}`, 200, "remove [3 2]", "leaving", []any{3.0, 2.0}},
		{"POST", "/api/v1/cluster/transfer", `{"to": 2}`, 200, "transfer 2", "leader", 2.0},
		{"POST", "/api/v1/cluster/step-down", "", 200, "transfer 0", "leader", 2.0},
		{"GET", "/api/v1/node", "", 200, "", "connections", 3.0},
		{"GET", "/api/v1/node/quorum", "", 200, "", "may_stop", true},
		{"POST", "/api/v1/node/drain", "", 200, "drain 10s", "drained", true},
		{"POST", "/api/v1/node/drain", `{"over": "0s"}`, 200, "drain 0s", "drained", true},
		{"POST", "/api/v1/node/revive", "", 200, "revive", "drained", false},
		{"POST", "/api/v1/node/rebalance", `{"over": "1m"}`, 200, "rebalance 1m0s", "closing", 2.0},
	} {
		f := &fakeCluster{}
		code, answer := f.do(t, tc.method, tc.path, tc.body)
		if code != tc.code || f.asked != tc.asked || !reflect.DeepEqual(answer[tc.key], tc.value) {
			t.Errorf("%s %s %s: %d, asked %q, %v", tc.method, tc.path, tc.body, code, f.asked, answer)
		}
	}
}

// TestClusterRefusals: nothing is asked for by a body that isn't understood, and a refusal is told as what it is.
func TestClusterRefusals(t *testing.T) {
	for _, tc := range []struct{ path, body string }{
		{"/api/v1/cluster/tokens", `{"lifetime": "1s"}`},
		{"/api/v1/cluster/tokens", `{"lifetime": "9000h"}`},
		{"/api/v1/cluster/tokens", `{"lifetim": "1h"}`},
		{"/api/v1/cluster/tokens", `{} {}`},
		{"/api/v1/cluster/tokens", `[]`},
		{"/api/v1/cluster/remove", ``},
		{"/api/v1/cluster/remove", `{"nodes": []}`},
		{"/api/v1/cluster/remove", `{"nodes": ["a"]}`},
		{"/api/v1/cluster/transfer", ``},
		{"/api/v1/cluster/transfer", `{"to": 0}`},
		{"/api/v1/node/drain", `{"over": "-1s"}`},
		{"/api/v1/node/drain", `{"over": "2h"}`},
		{"/api/v1/node/rebalance", `{"over": 5}`},
	} {
		f := &fakeCluster{}
		if code, answer := f.do(t, "POST", tc.path, tc.body); code != 400 || f.asked != "" || !strings.Contains(answer["error"].(string), "want") {
			t.Errorf("%s %s: %d, asked %q, %v", tc.path, tc.body, code, f.asked, answer)
		}
	}
	refused := command.Effect{Refusal: &command.Refusal{Condition: "amqp:not-allowed", Description: "two voters"}}
	for _, tc := range []struct {
		f          fakeCluster
		path, body string
		code       int
		says       string
	}{
		{fakeCluster{effect: refused}, "/api/v1/cluster/remove", `{"nodes": [1]}`, 403, "two voters"},
		{fakeCluster{err: ErrNoJoining}, "/api/v1/cluster/tokens", "", 409, "cluster init"},
		{fakeCluster{err: errors.New("no majority")}, "/api/v1/cluster/tokens", "", 503, "may have taken effect"},
		{fakeCluster{err: ErrNotMoved}, "/api/v1/cluster/step-down", "", 409, "has not moved"},
		{fakeCluster{err: errors.New("no majority")}, "/api/v1/node/rebalance", "", 503, "ask again"},
	} {
		if code, answer := tc.f.do(t, "POST", tc.path, tc.body); code != tc.code || !strings.Contains(answer["error"].(string), tc.says) {
			t.Errorf("%s: %d, %v", tc.path, code, answer)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8161/api/v1/cluster/remove", strings.NewReader(`{"nodes": [1]}`))
	r.Header.Set("Content-Type", "text/plain") // as a form of a web page could send it
	w, f := httptest.NewRecorder(), &fakeCluster{}
	Handler(Config{Node: &fakeNode{}, Members: f}).ServeHTTP(w, r)
	if w.Code != 400 || f.asked != "" {
		t.Errorf("%d, asked %q", w.Code, f.asked)
	}
}
