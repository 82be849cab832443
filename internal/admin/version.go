package admin

import (
	"fmt"
	"net/http"
	"os/user"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// TimeSet says that civil time was set.
type TimeSet struct {
	Entry uint64    `json:"entry"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Node  uint64    `json:"node"` // that was asked
	By    string    `json:"by"`
}

// Finalized is the answer of POST /api/v1/cluster/finalize.
type Finalized struct {
	// Was and Level are the cluster's feature levels before and behind it: alike where there was nothing to raise.
	Was   uint32 `json:"was"`
	Level uint32 `json:"level"`
}

// finalize raises the cluster's feature level by one, if every member knows the next one [7.1].
func (a *api) finalize(w http.ResponseWriter, r *http.Request) {
	c, err := a.members.Cluster(r.Context())
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("finalize: %w; ask again, or another node", err))
		return
	}
	if c.Level >= command.Level {
		writeJSON(w, http.StatusOK, Finalized{Was: c.Level, Level: c.Level}) // this binary knows no higher one
		return
	}
	version := a.node.Status().Version
	version = version[:min(len(version), command.MaxVersion)]
	eff, err := a.node.Request(r.Context(), &command.Finalize{Level: c.Level + 1, Version: version})
	if a.answeredMember(w, "finalize", eff, err) {
		writeJSON(w, http.StatusOK, Finalized{Was: c.Level, Level: c.Level + 1})
	}
}

// setTime sets civil time [4.5].
func (a *api) setTime(w http.ResponseWriter, r *http.Request) {
	var want struct {
		To string `json:"to"`
		By string `json:"by"`
	}
	to := time.Now()
	err := bodyOf(r, &want)
	if err == nil && want.To != "" {
		to, err = time.Parse(time.RFC3339, want.To)
	}
	if err != nil || len(want.By) > command.MaxBy {
		writeError(w, http.StatusBadRequest, fmt.Errorf(`want {"to": "2030-01-02T15:04:05Z", "by": NAME}, both optional, a name of at most %d bytes`, command.MaxBy))
		return
	}
	eff, err := a.node.Request(r.Context(), &command.SetTime{Civil: to.UnixMilli(), By: want.By})
	if a.answeredMember(w, "set-time", eff, err) {
		writeJSON(w, http.StatusOK, TimeSet{
			From: time.UnixMilli(eff.Civil).UTC(), To: to.UTC().Truncate(time.Millisecond), Node: a.node.Status().Node, By: want.By,
		})
	}
}

// WhoAmI is the name of the user who runs this process, for By; empty where the system doesn't say.
func WhoAmI() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username[:min(len(u.Username), command.MaxBy)]
}
