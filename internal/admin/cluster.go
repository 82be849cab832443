package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// Members is the cluster's membership as the API needs it. All methods are safe for concurrent use. A refusal is in
// the effect; errors are about getting an answer at all.
type Members interface {
	// Cluster is what the replicated state says of the members, behind a read barrier.
	Cluster(ctx context.Context) (Cluster, error)
	// Token makes a one-time token that lives for a time, with which a node joins; replace, where it isn't 0, leaves once
	// that has caught up. ErrNoJoining: no node can join this one.
	Token(ctx context.Context, lifetime time.Duration, replace uint64) (JoinToken, command.Effect, error)
	// Remove says that members are to leave, all in one step.
	Remove(ctx context.Context, nodes []uint64) (command.Effect, error)
}

// Leadership is who leads the cluster. All methods are safe for concurrent use.
type Leadership interface {
	// Transfer moves leadership to a node, 0: to the one that is best for it, and waits until it is there. ErrNotMoved: it is still
	// where it was.
	Transfer(ctx context.Context, to uint64) error
	// Quorum says whether this node may stop without the cluster losing its majority.
	Quorum(ctx context.Context) (Quorum, error)
}

// Service is the node's service to clients. All methods are safe for concurrent use.
type Service interface {
	// Service says how it stands.
	Service() NodeService
	// Drain begins to move leadership and clients to other nodes, evenly over a time; the node isn't ready and lets nobody in until
	// Revive, or a restart.
	Drain(over time.Duration) NodeService
	// Revive opens the node to clients again.
	Revive() NodeService
	// Rebalance begins to close this node's connections above the average of the nodes that are up.
	Rebalance(ctx context.Context, over time.Duration) (Rebalanced, error)
}

// The errors of Members and Leadership.
var (
	// ErrNoJoining: this node has no certificates for other nodes, so none can join it.
	ErrNoJoining = errors.New(`oncemq: this cluster was not made by "oncemq cluster init", so its nodes have no certificates for each other`)
	// ErrNotMoved: leadership is still where it was.
	ErrNotMoved = errors.New("oncemq: leadership has not moved")
)

// Cluster is the answer of GET /api/v1/cluster.
type Cluster struct {
	ID      string   `json:"cluster"`
	History uint16   `json:"history"`
	Node    uint64   `json:"node"`   // that answered
	Leader  uint64   `json:"leader"` // 0: none known
	Members []Member `json:"members"`
	// Level is the feature level at which the state is, LevelBy the version that raised it, Supported the highest level that every
	// member's binary knows: where it is above Level, finalize may raise that.
	Level     uint32 `json:"level"`
	LevelBy   string `json:"level_by"`
	Supported uint32 `json:"supported"`
	// Skipped are the indexes of entries that were passed over; TimeSet is the last setting of civil time, absent where there was none.
	Skipped []uint64 `json:"skipped,omitempty"`
	TimeSet *TimeSet `json:"time_set,omitempty"`
	// Tokens are those that nobody has used yet.
	Tokens []OpenToken `json:"tokens"`
}

// Member is a member of the cluster.
type Member struct {
	Node uint64 `json:"node"`
	Name string `json:"name"`
	// Role is voter, learner (it catches up), or joining (not in raft's configuration yet).
	Role string `json:"role"`
	// Leaving says that it goes as soon as that is safe.
	Leaving bool `json:"leaving"`
	// Up says that it takes part now.
	Up bool `json:"up"`
	// Connections counts the clients that are connected there.
	Connections uint64 `json:"connections"`
	// Level is the feature level that its binary knows.
	Level uint32 `json:"level"`
	// Peer, AMQP, AMQPS and Admin are its addresses as others reach them, empty where there is none.
	Peer  string    `json:"peer"`
	AMQP  string    `json:"amqp"`
	AMQPS string    `json:"amqps"`
	Admin string    `json:"admin"`
	Added time.Time `json:"added"`
}

// OpenToken is a token that can still be used; its secret is nowhere.
type OpenToken struct {
	Expires time.Time `json:"expires"`
	Replace uint64    `json:"replace"` // 0: nobody
}

// JoinToken is the answer of POST /api/v1/cluster/tokens. Token is a secret.
type JoinToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Quorum is the answer of GET /api/v1/node/quorum.
type Quorum struct {
	// MayStop says that the cluster keeps its majority without this node.
	MayStop bool `json:"may_stop"`
	// Why says it in words.
	Why string `json:"why"`
}

// NodeService is the answer of /api/v1/node, drain and revive.
type NodeService struct {
	Node        uint64 `json:"node"`
	Drained     bool   `json:"drained"`
	Leads       bool   `json:"leads"`
	Connections int    `json:"connections"`
}

// Rebalanced is the answer of POST /api/v1/node/rebalance.
type Rebalanced struct {
	// Connections are this node's, Average those of each node that is up, rounded up, Closing how many are being closed.
	Connections int `json:"connections"`
	Average     int `json:"average"`
	Closing     int `json:"closing"`
}

// mountCluster mounts the paths of the cluster and of the node's service.
func (a *api) mountCluster(mux *http.ServeMux, members Members, leadership Leadership, service Service) {
	if members != nil {
		a.route(mux, "/api/v1/cluster", methods{http.MethodGet: a.showCluster})
		a.route(mux, "/api/v1/cluster/tokens", methods{http.MethodPost: a.makeToken})
		a.route(mux, "/api/v1/cluster/finalize", methods{http.MethodPost: a.finalize})
		a.route(mux, "/api/v1/cluster/set-time", methods{http.MethodPost: a.setTime})
		a.route(mux, "/api/v1/cluster/remove", methods{http.MethodPost: a.removeMembers})
	}
	if leadership != nil {
		a.route(mux, "/api/v1/cluster/transfer", methods{http.MethodPost: a.transfer})
		a.route(mux, "/api/v1/cluster/step-down", methods{http.MethodPost: a.stepDown})
		a.route(mux, "/api/v1/node/quorum", methods{http.MethodGet: a.quorum})
	}
	if service != nil {
		a.route(mux, "/api/v1/node", methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, a.service.Service()) }})
		a.route(mux, "/api/v1/node/drain", methods{http.MethodPost: a.drain})
		a.route(mux, "/api/v1/node/revive", methods{http.MethodPost: func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, a.service.Revive()) }})
		a.route(mux, "/api/v1/node/rebalance", methods{http.MethodPost: a.rebalance})
	}
}

func (a *api) showCluster(w http.ResponseWriter, r *http.Request) {
	c, err := a.members.Cluster(r.Context())
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("cluster: %w; ask again, or another node", err))
		return
	}
	if c.Tokens == nil {
		c.Tokens = []OpenToken{}
	}
	writeJSON(w, http.StatusOK, c)
}

const (
	// defaultLifetime and maxLifetime are of a token.
	defaultLifetime = 24 * time.Hour
	maxLifetime     = 30 * 24 * time.Hour
)

func (a *api) makeToken(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Lifetime string `json:"lifetime"`
		Replace  uint64 `json:"replace"`
	}
	lifetime := defaultLifetime
	err := bodyOf(r, &want)
	if err == nil && want.Lifetime != "" {
		lifetime, err = time.ParseDuration(want.Lifetime)
	}
	if err != nil || lifetime < time.Minute || lifetime > maxLifetime {
		writeError(w, http.StatusBadRequest, fmt.Errorf(`want {"lifetime": "24h", "replace": NODE}, both optional, a lifetime of 1m to %s`, maxLifetime))
		return
	}
	token, eff, err := a.members.Token(r.Context(), lifetime, want.Replace)
	if a.answeredMember(w, "a token", eff, err) {
		writeJSON(w, http.StatusCreated, token)
	}
}

func (a *api) removeMembers(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Nodes []uint64 `json:"nodes"`
	}
	if err := bodyOf(r, &want); err != nil || len(want.Nodes) == 0 || len(want.Nodes) > command.MaxRemoved {
		writeError(w, http.StatusBadRequest, fmt.Errorf(`want {"nodes": [NODE, ...]}, 1 to %d of them`, command.MaxRemoved))
		return
	}
	eff, err := a.members.Remove(r.Context(), want.Nodes)
	if a.answeredMember(w, "removing a node", eff, err) {
		writeJSON(w, http.StatusOK, map[string]any{"leaving": want.Nodes})
	}
}

// answeredMember writes the answer for everything but success.
func (a *api) answeredMember(w http.ResponseWriter, what string, eff command.Effect, err error) bool {
	switch {
	case errors.Is(err, ErrNoJoining):
		writeError(w, http.StatusConflict, err)
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("%s: %w; it may have taken effect or not: look at the cluster's status, here or at another node", what, err))
	case eff.Refusal != nil:
		writeError(w, refusalStatus(eff.Refusal), fmt.Errorf("%s: %s (%s)", what, eff.Refusal.Description, eff.Refusal.Condition))
	default:
		return true
	}
	return false
}

func (a *api) transfer(w http.ResponseWriter, r *http.Request) {
	var want struct {
		To uint64 `json:"to"`
	}
	if err := bodyOf(r, &want); err != nil || want.To == 0 {
		writeError(w, http.StatusBadRequest, errors.New(`want {"to": NODE}`))
		return
	}
	a.move(w, r, want.To)
}

func (a *api) stepDown(w http.ResponseWriter, r *http.Request) { a.move(w, r, 0) }

func (a *api) move(w http.ResponseWriter, r *http.Request, to uint64) {
	switch err := a.leadership.Transfer(r.Context(), to); {
	case errors.Is(err, ErrNotMoved):
		writeError(w, http.StatusConflict, err)
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("moving leadership: %w", err))
	default:
		writeJSON(w, http.StatusOK, map[string]any{"leader": a.node.Status().Leader})
	}
}

func (a *api) quorum(w http.ResponseWriter, r *http.Request) {
	q, err := a.leadership.Quorum(r.Context())
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("quorum: %w; ask again", err))
		return
	}
	writeJSON(w, http.StatusOK, q)
}

const (
	// defaultOver is over how long connections are closed, maxOver the longest.
	defaultOver = 10 * time.Second
	maxOver     = time.Hour
)

// overOf reads {"over": "10s"}.
func overOf(r *http.Request) (time.Duration, error) {
	var want struct {
		Over string `json:"over"`
	}
	over := defaultOver
	err := bodyOf(r, &want)
	if err == nil && want.Over != "" {
		over, err = time.ParseDuration(want.Over)
	}
	if err != nil || over < 0 || over > maxOver {
		return 0, fmt.Errorf(`want {"over": "10s"}, optional, at most %s`, maxOver)
	}
	return over, nil
}

func (a *api) drain(w http.ResponseWriter, r *http.Request) {
	over, err := overOf(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, a.service.Drain(over))
}

func (a *api) rebalance(w http.ResponseWriter, r *http.Request) {
	over, err := overOf(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	got, err := a.service.Rebalance(r.Context(), over)
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("rebalance: %w; ask again", err))
		return
	}
	writeJSON(w, http.StatusOK, got)
}

// bodyOf reads a request's JSON object into a struct, none of whose fields is needed; no body is an empty object.
func bodyOf(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) == 0 {
		return err
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return errors.New("a body has Content-Type application/json")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the object")
	}
	return nil
}
