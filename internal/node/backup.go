package node

import (
	"context"
	"io"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/backup"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// backups is the replica as package admin wants it for backups.
type backups struct{ replica *replica.Replica }

// Backup implements admin.Backups.
func (b backups) Backup(ctx context.Context, stale bool) (admin.Backup, error) {
	c, err := b.replica.Backup(ctx, stale)
	if err != nil {
		return nil, err
	}
	return &cut{c, time.Now()}, nil
}

// cut is a checkpoint that is to be written.
type cut struct {
	checkpoint *store.Checkpoint
	made       time.Time
}

// WriteTo implements admin.Backup.
func (c *cut) WriteTo(ctx context.Context, w io.Writer, rate int64) error {
	return backup.Write(ctx, w, &c.checkpoint.Manifest, c.checkpoint, c.made, rate)
}

// Close implements admin.Backup.
func (c *cut) Close() error { return c.checkpoint.Remove() }
