package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
)

// findLeader asks the admin ports which of them is the leader's.
func findLeader(ctx context.Context, admins []string) (string, error) {
	var errs []error
	for _, addr := range admins {
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		var st admin.Status
		err := admin.Call(call, addr, http.MethodGet, "/api/v1/status", nil, &st)
		cancel()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("admin port %s: %w", addr, err))
		case st.Role == "leader":
			return addr, nil
		}
	}
	return "", fmt.Errorf("%w: --admin %v: the leader isn't among them; allowed: the admin ports of all nodes, comma between them: %w", ErrConfig, admins, errors.Join(errs...))
}

// postRaw runs the raw benchmark at the leader.
func postRaw(ctx context.Context, leader string, c Config) (res Result, err error) {
	query := url.Values{
		"writers":  {fmt.Sprint(c.Outstanding)},
		"size":     {fmt.Sprint(c.Size)},
		"duration": {c.Duration.String()},
	}
	err = admin.Call(ctx, leader, http.MethodPost, "/api/v1/bench/raw?"+query.Encode(), nil, &res)
	if err != nil {
		err = fmt.Errorf("raw at the leader's admin port %s: %w (it needs --dev)", leader, err)
	}
	return res, err
}

// forget deletes the queues that a run used, so that the next one begins with none.
func forget(ctx context.Context, admins []string, queues ...string) error {
	var err error
	for _, queue := range queues {
		for _, addr := range admins {
			err = admin.Call(ctx, addr, http.MethodDelete, "/api/v1/queues/"+url.PathEscape(queue), nil, nil)
			if status := (*admin.StatusError)(nil); err == nil || errors.As(err, &status) && status.Code == http.StatusNotFound {
				err = nil
				break
			}
		}
		if err != nil {
			return fmt.Errorf("deleting queue %s: %w", queue, err)
		}
	}
	return nil
}
