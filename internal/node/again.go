package node

import (
	"context"
	"errors"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/replica"
)

// Serve runs a node until ctx ends, and then returns nil. A node that was too far behind and has fetched a newer state ends by
// itself, and so does one that has found its directory damaged or has recovered; it is opened again at once at the same addresses: its
// clients were moved on, as by a restart, and only the first life is announced. Any other end is an error.
func Serve(ctx context.Context, opts Options) error {
	for {
		n, err := Open(opts)
		if err != nil {
			return err
		}
		if err = n.Run(ctx); !errors.Is(err, replica.ErrInstalled) && !errors.Is(err, replica.ErrDamaged) {
			return err
		}
		opts.Logger.Info("the node begins anew", "node", opts.Config.Node, "because", err)
		if ctx.Err() != nil {
			return nil
		}
		if opts.Config.Listen != "" {
			opts.Config.Listen = n.server.Addr().String()
		}
		opts.Config.Admin = n.admin.Addr().String()
		opts.announced = opts.announced || n.announced.Load()
	}
}

// limits are the replica's; what isn't set is its default.
func limits(cfg *config.Serve) replica.Limits {
	s := cfg.Sizes
	m := PlanMemory(s)
	return replica.Limits{
		RetainBytes: s.RetainLog, FetchBytes: s.SnapshotRate, ScrubBytes: s.ScrubRate, SegmentBytes: s.LogSegment, LogFlushBytes: s.FlushLog,
		ScrubEvery: cfg.ScrubEvery, ReserveBytes: s.DiskReserve, StateBytes: m.State, CacheBytes: m.Cache, MemTableBytes: uint64(m.MemTable),
	}
}
