package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
)

// held is a frame between nodes that a scenario has taken off the wire.
type held struct {
	l      *link
	stream int
	frame  []byte
}

// carry lets the frame arrive now, whatever became of the stream that brought it: a network that isn't TCP, or a frame that an
// operating system had in hand.
func (h *held) carry() {
	n := h.l.to
	h.l.w.after(h.l.w.knobs.nodeDelay[0], func() {
		n.run(n.life, func() {
			_ = n.step.Receive(uint64(h.l.from.id), h.frame)
			n.kick()
		})
	})
}

// frame is what a scenario can know of one.
type frame struct {
	records []command.Record // of a home
	note    *peer.Note
	raft    bool // it is raft's
}

// has says that a record has a command of that kind.
func (f *frame) has(kind command.Kind) bool {
	return slices.ContainsFunc(f.records, func(r command.Record) bool {
		var d command.Decoder
		d.Reset(r.Body)
		for c := d.Next(); c != nil; c = d.Next() {
			if c.Kind() == kind {
				return true
			}
		}
		return false
	})
}

// reader takes a frame apart as the peer that it is for would.
type reader struct{ f frame }

func (r *reader) Raft(uint64, []byte) { r.f.raft = true }
func (r *reader) Records(_ uint64, x peer.Records) {
	for data := bytes.Clone(x.Data); len(data) > 0; {
		rec, rest, err := command.DecodeRecord(data)
		if err != nil {
			panic(err)
		}
		r.f.records, data = append(r.f.records, rec), rest
	}
}
func (r *reader) Note(_ uint64, n peer.Note) { r.f.note = &n }
func (r *reader) PeerUp(uint64)              {}
func (r *reader) PeerLost(uint64)            {}
func (r *reader) PeerGone(uint64, bool)      {}
func (r *reader) Removed(uint64)             {}

// onFrame calls f for every frame between nodes; where it is true the frame is kept, and the scenario has it.
func (s *stage) onFrame(f func(h *held, x *frame) bool) {
	s.sent = func(l *link, stream int, b []byte) bool {
		var r reader
		if err := peer.Deliver(&r, uint64(l.from.id), b); err != nil {
			s.stop("a frame from n%d to n%d: %v", l.from.id, l.to.id, err)
		}
		return f(&held{l, stream, b}, &r.f)
	}
}

// once calls f for the first frame of records with such a command from a node; true keeps the frame.
func (s *stage) once(from *node, kind command.Kind, f func(h *held) bool) {
	did := false
	s.onFrame(func(h *held, x *frame) bool {
		if did || h.l.from != from || !x.has(kind) {
			return false
		}
		did = true
		return f(h)
	})
}

// onEffect calls f once, when a node has applied an entry and has an effect of that kind for a connection that nobody has
// heard of.
func (s *stage) onEffect(n *node, kind command.EffectKind, f func()) {
	did := false
	s.handed = func(at *node, effects []command.Effect) {
		for i := range effects {
			if !did && at == n && effects[i].Kind == kind {
				did = true
				f()
			}
		}
	}
}

// soon does something as soon as the step that is under way has ended.
func (s *stage) soon(f func()) { s.after(0, f) }

const (
	ms     = time.Millisecond
	second = time.Second
)
