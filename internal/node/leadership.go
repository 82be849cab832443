package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
)

// leadership is who leads the cluster: it implements admin.Leadership.
type leadership struct{ node *Node }

// Transfer implements admin.Leadership.
func (l *leadership) Transfer(ctx context.Context, to uint64) error {
	r := l.node.replica
	before := r.Status().Leader
	err := r.Transfer(ctx, command.NodeID(to))
	if errors.Is(err, replica.ErrNotLeading) {
		return fmt.Errorf("%w: %w", admin.ErrNotMoved, err)
	}
	if err == nil {
		l.node.opts.Logger.Info("leadership was moved", "from", before, "to", r.Status().Leader)
	}
	return err
}

// Quorum implements admin.Leadership.
func (l *leadership) Quorum(context.Context) (admin.Quorum, error) {
	st := l.node.replica.Status()
	return admin.Quorum{MayStop: st.MayStop, Why: st.Stop}, nil
}

// handOver moves leadership away from this node where it has it, as far as that is possible now.
func (n *Node) handOver(ctx context.Context) {
	if st := n.replica.Status(); st.Leader != st.Node || st.Alone {
		return
	}
	if err := n.replica.StepDown(ctx); err != nil {
		n.opts.Logger.Debug("leadership stays for now", "error", err)
	}
}
