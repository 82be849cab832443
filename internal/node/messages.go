package node

import (
	"context"
	"errors"
	"slices"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// sliceMessages is how many messages one slice has at most [4.7].
const sliceMessages = 256

// messages is the replica as package admin wants it for reading queues.
type messages struct{ replica *replica.Replica }

// Browse implements admin.Messages.
func (m messages) Browse(ctx context.Context, queue string, life, after uint64) (admin.Slice, error) {
	// fn may still run after ctx has ended, so it writes to a variable that nobody reads then.
	type answer struct {
		slice admin.Slice
		ok    bool
	}
	found := make(chan answer, 1)
	err := m.replica.Read(ctx, func(machine *state.Machine) {
		var a answer
		list, of, next, more, ok := machine.Browse(nil, queue, command.Incarnation(life), after, sliceMessages)
		a.slice, a.ok = admin.Slice{Life: uint64(of), Next: next, More: more}, ok
		for i := range list {
			x := &list[i]
			a.slice.Messages = append(a.slice.Messages, admin.Message{Position: x.Position, Count: x.Count, Held: x.Held, Overlay: slices.Clone(x.Overlay)})
		}
		found <- a
	})
	if err != nil {
		return admin.Slice{}, err
	}
	if a := <-found; a.ok {
		return a.slice, nil
	}
	return admin.Slice{}, admin.ErrNoQueue
}

// Message implements admin.Messages.
func (m messages) Message(life, position uint64) ([]byte, error) {
	b, err := m.replica.Message(nil, command.Incarnation(life), position)
	if errors.Is(err, command.ErrNoMessage) {
		err = admin.ErrNoMessage
	}
	return b, err
}
