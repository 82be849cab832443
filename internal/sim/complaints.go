package sim

import (
	"context"
	"log/slog"
	"strings"
)

// complaints takes what a node logs: an error that no fault of this world explains is a violation (K14).
type complaints struct{ n *node }

// explained are the beginnings of errors that clocks and disks of this world give cause for.
var explained = []string{"this node's clock", "this node's disk", "no checkpoint could be made"}

// Enabled implements slog.Handler.
func (c complaints) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle implements slog.Handler.
func (c complaints) Handle(_ context.Context, r slog.Record) error {
	for _, e := range explained {
		if strings.HasPrefix(r.Message, e) {
			c.n.w.count("error logged")
			return nil
		}
	}
	c.n.w.fail("K14", "n%d logs an error: %s", c.n.id, r.Message)
	return nil
}

// WithAttrs and WithGroup implement slog.Handler: only messages are looked at.
func (c complaints) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c complaints) WithGroup(string) slog.Handler      { return c }
