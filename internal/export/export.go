package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
)

// Result is how far an export or an import has come.
type Result struct {
	// Messages is how many.
	Messages uint64
	// Position is the last message's: of an export its position in the queue, of an import the line that it stands in, from 1.
	Position uint64
}

// askAgain is how long an export goes on asking a node that doesn't answer.
const askAgain = 30 * time.Second

// Export writes the messages of a queue behind position after to w, a line each, in the queue's order. What consumers hold is among
// them; what is settled meanwhile may be missing, and what comes meanwhile may be there. The result says how far it came, also
// with an error: *admin.StatusError where the queue is gone.
func Export(ctx context.Context, addr, queue string, after uint64, w io.Writer) (r Result, err error) {
	out := bufio.NewWriterSize(w, 256<<10)
	r.Position = after
	var life uint64
	for began := time.Now(); ; {
		slice, err := admin.Browse(ctx, addr, queue, life, after, func(m *admin.Message) error {
			text, err := line{Queue: queue, Position: m.Position, DeliveryCount: m.Count, Held: m.Held}.write(m.Encoded, m.Overlay)
			if err != nil {
				return fmt.Errorf("message %d: %w", m.Position, err)
			}
			if _, err := out.Write(append(text, '\n')); err != nil {
				return &writeError{err}
			}
			r.Messages, r.Position = r.Messages+1, m.Position
			after = m.Position
			return nil
		})
		var failed *writeError
		var said *admin.StatusError
		switch {
		case err == nil:
			if life, after, began = slice.Life, slice.Next, time.Now(); !slice.More {
				return r, out.Flush()
			}
			continue
		case errors.As(err, &failed), errors.Is(err, errValue), ctx.Err() != nil, errors.As(err, &said) && said.Code < 500, time.Since(began) > askAgain:
			return r, errors.Join(err, out.Flush())
		}
		if err := pause(ctx); err != nil {
			return r, errors.Join(err, out.Flush())
		}
	}
}

// writeError is an error of the output.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// pause is between two tries.
func pause(ctx context.Context) error {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
