package sim

import "time"

// socketBytes is what a socket takes while its other side reads nothing.
const socketBytes = 64 << 10

// socket is a TCP connection between a client and a node.
type socket struct {
	w        *world
	id       int
	name     string // for the transcript
	node     *node
	up, down *pipe // to the node, to the client
}

// pipe is one direction of a socket: bytes in order, until its end. What is written in one piece may arrive in several.
type pipe struct {
	w     *world
	got   func(b []byte) // at the reader
	ended func(reset bool)
	room  func() // the writer may write again

	pieces    [][]byte // written and not arrived, in order
	held      int      // pieces whose time came while the direction was jammed
	bytes     int      // written and not arrived
	full      bool     // the writer was told so
	arrives   time.Duration
	jammed    bool // nothing moves until it is released
	delayed   bool // it was jammed
	lost      bool // nothing arrives any more, and nobody is told
	closing   bool // an end is on its way
	over      bool
	resetting bool
}

// connect makes a socket; the caller sets the pipes' functions.
func (w *world) connect(name string) *socket {
	w.sockets++
	s := &socket{w: w, id: w.sockets, name: name, up: &pipe{w: w}, down: &pipe{w: w}}
	w.open = append(w.open, s)
	return s
}

// write sends bytes; false: the socket is full now, though it has taken them, and room will be called.
func (p *pipe) write(b []byte) bool {
	if p.over || p.closing || p.lost || len(b) == 0 {
		return true
	}
	p.bytes += len(b)
	p.carry(append([]byte(nil), b...))
	if p.bytes > socketBytes {
		p.full = true
		return false
	}
	return true
}

// carry lets bytes arrive, in one or two pieces.
func (p *pipe) carry(b []byte) {
	if len(b) > 1 && p.w.chance(p.w.knobs.split) {
		at := 1 + p.w.rng.IntN(len(b)-1)
		p.send(b[:at])
		b = b[at:]
	}
	p.send(b)
}

func (p *pipe) send(b []byte) {
	p.pieces = append(p.pieces, b)
	p.move()
}

// move plans the arrival of one piece: of the first that is there then, for bytes never overtake each other.
func (p *pipe) move() {
	p.arrives = max(p.arrives, p.w.now+p.w.between(p.w.knobs.clientDelay[0], p.w.knobs.clientDelay[1]))
	p.w.after(p.arrives-p.w.now, p.arrive)
}

func (p *pipe) arrive() {
	if p.over || p.lost || len(p.pieces) == 0 {
		return
	}
	if p.jammed {
		p.held++
		return
	}
	b := p.pieces[0]
	p.pieces = p.pieces[1:]
	p.bytes -= len(b)
	p.w.mix(b)
	p.got(b)
	if p.full && p.bytes <= socketBytes {
		p.full = false
		if p.room != nil {
			p.room()
		}
	}
}

// end closes the direction behind what was written; reset drops that.
func (p *pipe) end(reset bool) {
	if p.over || p.closing {
		return
	}
	p.closing, p.resetting = true, reset
	if p.lost || p.jammed && !reset {
		return
	}
	p.finish()
}

func (p *pipe) finish() {
	p.arrives = max(p.arrives, p.w.now+p.w.between(p.w.knobs.clientDelay[0], p.w.knobs.clientDelay[1]))
	p.w.after(p.arrives-p.w.now, func() {
		if p.over || p.lost || p.jammed && !p.resetting { // release will do it
			return
		}
		p.over = true
		p.ended(p.resetting)
	})
}

// release lets a jammed direction go on with what has gathered.
func (p *pipe) release() {
	if !p.jammed {
		return
	}
	p.jammed, p.delayed = false, true
	held := p.held
	p.held = 0
	for range held {
		p.move()
	}
	if p.closing {
		p.finish()
	}
}

// cut breaks a socket: both sides are told.
func (s *socket) cut() {
	for _, p := range []*pipe{s.up, s.down} {
		p.jammed, p.pieces, p.held = false, nil, 0
		p.closing = false
		p.end(true)
	}
}

// vanish loses everything from now on, without a word.
func (p *pipe) vanish() { p.lost, p.pieces, p.held = true, nil, 0 }

// dead says that neither direction carries anything any more.
func (s *socket) dead() bool {
	return (s.up.over || s.up.lost) && (s.down.over || s.down.lost)
}

// late says that what a client gets may have been written long ago: also where its node is gone and it doesn't know.
func (s *socket) late() bool { return s.down.jammed || s.down.delayed || s.down.lost }
