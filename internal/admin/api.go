package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
)

// api holds the handlers. It has no state of its own.
type api struct {
	node    Node
	users   Users
	members Members

	leadership Leadership
	service    Service
	timeout    time.Duration
}

type methods map[string]http.HandlerFunc

// route mounts the methods of one path; others get 405 as JSON.
func (a *api) route(mux *http.ServeMux, path string, ms methods) {
	allow := strings.Join(slices.Sorted(maps.Keys(ms)), ", ")
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		h := ms[r.Method]
		if h == nil && r.Method == http.MethodHead {
			h = ms[http.MethodGet]
		}
		if h == nil {
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("method %s on %s; allowed: %s", r.Method, r.URL.Path, allow))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		h(w, r.WithContext(ctx))
	})
}

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, a.node.Status())
}

func (a *api) live(w http.ResponseWriter, _ *http.Request) { answerCheck(w, a.node.Live()) }

func (a *api) ready(w http.ResponseWriter, _ *http.Request) { answerCheck(w, a.node.Ready()) }

func answerCheck(w http.ResponseWriter, err error) {
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *api) createQueue(w http.ResponseWriter, r *http.Request) {
	name, eff, ok := a.request(w, r, func(name string) command.Command { return &command.QueueCreate{Name: name} })
	if !ok {
		return
	}
	code := http.StatusCreated
	if eff.Existed {
		code = http.StatusOK
	}
	writeJSON(w, code, map[string]any{"name": name, "existed": eff.Existed})
}

func (a *api) deleteQueue(w http.ResponseWriter, r *http.Request) {
	name, eff, ok := a.request(w, r, func(name string) command.Command { return &command.QueueDelete{Name: name} })
	if ok {
		writeJSON(w, http.StatusOK, map[string]any{"name": name, "removed": eff.Number})
	}
}

func (a *api) purgeQueue(w http.ResponseWriter, r *http.Request) {
	name, eff, ok := a.request(w, r, func(name string) command.Command { return &command.QueuePurge{Name: name} })
	if ok {
		writeJSON(w, http.StatusOK, map[string]any{"name": name, "removed": eff.Number})
	}
}

func (a *api) readQueue(w http.ResponseWriter, r *http.Request) {
	name, ok := queueName(w, r)
	if !ok {
		return
	}
	q, err := a.node.Queue(r.Context(), name)
	switch {
	case errors.Is(err, ErrNoQueue):
		writeError(w, http.StatusNotFound, fmt.Errorf("queue %q: %w; PUT makes it", name, err))
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("queue %q: %w; ask again, or another node", name, err))
	default:
		writeJSON(w, http.StatusOK, q)
	}
}

// request proposes a queue command and writes the answer for everything but success.
func (a *api) request(w http.ResponseWriter, r *http.Request, build func(name string) command.Command) (string, command.Effect, bool) {
	name, ok := queueName(w, r)
	if !ok {
		return "", command.Effect{}, false
	}
	eff, err := a.node.Request(r.Context(), build(name))
	if err != nil {
		// Whether it was applied isn't known, and needn't be: all three can be repeated.
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("queue %q: %w; it is safe to ask again, here or at another node", name, err))
		return "", command.Effect{}, false
	}
	if eff.Refusal != nil {
		writeError(w, refusalStatus(eff.Refusal), fmt.Errorf("queue %q: %s (%s)", name, eff.Refusal.Description, eff.Refusal.Condition))
		return "", command.Effect{}, false
	}
	return name, eff, true
}

// refusalStatus maps an AMQP error condition to HTTP.
func refusalStatus(r *command.Refusal) int {
	switch r.Condition {
	case "amqp:not-found":
		return http.StatusNotFound
	case "amqp:unauthorized-access", "amqp:not-allowed":
		return http.StatusForbidden
	case "amqp:resource-locked", "amqp:precondition-failed":
		return http.StatusConflict
	case "amqp:resource-limit-exceeded":
		return http.StatusInsufficientStorage
	case "amqp:not-implemented":
		return http.StatusNotImplemented
	case "amqp:internal-error":
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// maxNameBytes bounds a queue's name.
const maxNameBytes = 255

// queueName checks the path's queue name, so that a typing error never becomes an
// entry of the log.
func queueName(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.PathValue("name")
	why := ""
	switch {
	case name == "" || len(name) > maxNameBytes:
		why = fmt.Sprintf("it has %d bytes", len(name))
	case !utf8.ValidString(name):
		why = "it isn't UTF-8"
	case strings.HasPrefix(name, "$"):
		why = "names with $ are the broker's own"
	case strings.ContainsFunc(name, unicode.IsControl):
		why = "it has control characters"
	default:
		return name, true
	}
	writeError(w, http.StatusBadRequest, fmt.Errorf("queue name %.60q: %s; allowed: 1 to %d bytes of UTF-8 without control characters, not beginning with $", name, why, maxNameBytes))
	return "", false
}
