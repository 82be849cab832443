package sim

import (
	"bytes"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// hostile is a client whose bytes are wrong: by a few bits in what a real one says, or altogether. Its node must do no more
// than end its connection (K14); a queue of its own takes what happens to be right.
type hostile struct {
	*foreign
	queue   string
	snd     *engine.Link
	rcv     *engine.Link
	left    int  // connections
	noise   bool // this one carries nothing that makes sense: the node has to end it
	written bool
	quit    bool
}

func (w *world) newHostile(name, queue string, connections int) *hostile {
	h := &hostile{foreign: w.newForeign(name), queue: queue, left: connections}
	h.event, h.reset, h.ended, h.spoil = h.moved, h.forget, h.gone, h.spoiled
	h.forget()
	return h
}

func (h *hostile) forget() {
	h.snd, h.rcv, h.written = nil, nil, false
	h.noise = h.w.chance(25)
	h.patient = h.noise
	if h.left--; h.left <= 0 || h.w.winding {
		h.quit = true
	}
}

// spoiled is what goes out in place of what the engine says.
func (h *hostile) spoiled(out []byte) []byte {
	rng := h.w.rng
	switch {
	case h.noise && h.written:
		return nil
	case h.noise:
		h.w.count("noise from a client")
		h.written = true
		out = make([]byte, 8+rng.IntN(200))
		for i := range out {
			out[i] = byte(rng.Uint32())
		}
		out[0] = 'B' // no protocol header begins so
		return out
	case !h.w.chance(20):
		return out
	}
	h.w.count("frames of a client spoiled")
	out = bytes.Clone(out)
	at := rng.IntN(len(out))
	switch rng.IntN(4) {
	case 0:
		out[at] ^= 1 << rng.IntN(8)
	case 1:
		out[at] = byte(rng.Uint32())
	case 2:
		return append(out[:at:at], out[min(len(out), at+1+rng.IntN(8)):]...)
	default:
		return append(out, out[at:]...)
	}
	return out
}

func (h *hostile) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.SessionBegun:
		var err error
		if h.snd, err = h.sender("out", h.queue); err == nil {
			h.rcv, _ = h.receiver("in", h.queue)
		}
		h.think()
	case engine.Received:
		switch h.w.rng.IntN(3) {
		case 0:
			ev.Delivery.Dispose(&amqp.Accepted{}, h.w.chance(50))
		case 1:
			ev.Delivery.Dispose(&amqp.Released{}, h.w.chance(50))
		default: // it keeps it
		}
	default:
	}
}

func (h *hostile) think() {
	h.soon(h.w.knobs.think, func() {
		switch {
		case h.w.winding || h.w.chance(5):
			h.hangUp()
			return
		case h.snd != nil && h.snd.Credit() > 0 && h.w.chance(60):
			h.w.ops++
			_, _ = h.snd.Send(engine.Transfer{Tag: []byte{byte(h.w.ops)}, Payload: [][]byte{amqp.AppendData(nil, []byte("x"))}})
		case h.rcv != nil:
			_ = h.rcv.SetCredit(uint32(h.w.rng.IntN(8)), h.w.chance(20))
		}
		h.think()
	})
}

// leave does nothing more.
func (h *hostile) leave() { h.quit = true }

func (h *hostile) gone() bool { return h.a.dead || h.quit && h.conn == nil }

// over: it hangs up by itself, but for a connection that carries noise: that is for its node to end, where it hears of it.
func (h *hostile) over() bool {
	s := h.a.sock
	return h.gone() || h.w.winding && (h.conn == nil || s != nil && (s.up.lost || s.down.lost))
}

func (h *hostile) about() string { return h.a.name + " (hostile) has a connection" }
