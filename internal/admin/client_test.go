package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestCall: what a caller gets of each answer, and that ctx bounds a node that says nothing.
func TestCall(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a body of type %q", r.Header.Get("Content-Type"))
		}
		writeJSON(w, http.StatusCreated, Queue{Name: "q", Depth: 5})
	})
	mux.HandleFunc("/no", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusConflict, errors.New("because"))
	})
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, maxAnswer+1)) })
	mux.HandleFunc("/hung", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := httptest.NewServer(mux)
	defer s.Close()
	addr := s.Listener.Addr().String()
	var q Queue
	if err := Call(t.Context(), addr, http.MethodPut, "/ok", map[string]int{"a": 1}, &q); err != nil || q.Depth != 5 {
		t.Errorf("%+v, %v", q, err)
	}
	for path, want := range map[string]StatusError{"/no": {409, "because"}, "/html": {502, "502 Bad Gateway"}} {
		said := (*StatusError)(nil)
		if err := Call(t.Context(), addr, http.MethodGet, path, nil, nil); !errors.As(err, &said) || *said != want {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if err := Call(t.Context(), addr, http.MethodGet, "/long", nil, nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long answer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Call(ctx, addr, http.MethodGet, "/hung", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hung node: %v", err)
	}
}
