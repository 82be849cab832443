package cluster

import (
	"net"
	"time"
)

// Conditions are what happens to bytes in one direction of a Proxy. The zero value
// lets them pass.
type Conditions struct {
	// Jam holds all bytes until the condition is lifted; then they arrive, late.
	Jam bool
	// Delay is how much later each byte arrives.
	Delay time.Duration
	// Rate is how many bytes a second pass, over all connections together; 0: no limit.
	Rate int
	// Flip changes one bit of the next piece that is long enough to be more than a
	// sign of life, and then clears itself.
	Flip bool
}

// weather is the conditions of one direction in force; guarded by Proxy.mu.
type weather struct {
	Conditions
	lifted chan struct{} // closed when the jam ends
	free   time.Time     // when a piece may begin to pass, under a Rate
}

const (
	// piecesUnderway is how many pieces may wait in the proxy, in each direction of each
	// connection; beyond that the sender is held back, as by a full socket.
	piecesUnderway = 64
	// pieceSize bounds a piece in bytes, and what the kernel holds back for the proxy:
	// with a Rate a full proxy means a wait of seconds, not of minutes.
	pieceSize    = 4 << 10
	kernelBuffer = 64 << 10
	// flipFrom is the length in bytes from which a piece is worth a flipped bit.
	flipFrom = 200
)

// piece is what one read gave.
type piece struct {
	at    time.Time
	bytes []byte
	// charged: the Rate has been applied, and at is when the piece has passed, less the
	// Delay.
	charged bool
}

// Set puts conditions on one direction, for present and future connections.
func (p *Proxy) Set(server bool, c Conditions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.weather[direction(server)]
	if w.Jam && !c.Jam {
		close(w.lifted)
	}
	if c.Jam && !w.Jam {
		w.lifted = make(chan struct{})
	}
	w.Conditions = c
}

// Flipped reports whether the bit that Set was to change has been changed.
func (p *Proxy) Flipped(server bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.weather[direction(server)].Flip
}

// read reads from one side until it ends, or the pair is closed.
func (p *Proxy) read(c *pair, from net.Conn, pieces chan<- piece, server bool) {
	defer close(pieces)
	for {
		buf := make([]byte, pieceSize)
		n, err := from.Read(buf)
		if n > 0 {
			p.wait(server, n)
			select {
			case pieces <- piece{at: time.Now(), bytes: buf[:n]}:
			case <-c.done:
				p.wait(server, -n)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await returns when b may go on, changed where it has to be; false: the pair was closed.
func (p *Proxy) await(c *pair, server bool, b piece) bool {
	for {
		p.mu.Lock()
		w := &p.weather[direction(server)]
		jam, lifted, due := w.Jam, w.lifted, time.Until(b.at.Add(w.Delay))
		if !jam && due <= 0 && w.Rate > 0 && !b.charged {
			w.charge(&b)
			p.mu.Unlock()
			continue
		}
		if !jam && due <= 0 {
			if w.Flip && len(b.bytes) >= flipFrom {
				b.bytes[len(b.bytes)/2] ^= 0x10
				w.Flip = false
			}
			p.mu.Unlock()
			return true
		}
		p.mu.Unlock()
		var late <-chan time.Time
		if !jam {
			lifted = nil // closed by an earlier jam, if there was one
			timer := time.NewTimer(due)
			defer timer.Stop() // at most a few rounds: each waits for its whole delay
			late = timer.C
		}
		select {
		case <-lifted:
		case <-late:
		case <-c.done:
			return false
		}
	}
}

// charge lets a piece that is due pass at the Rate, behind those before it.
func (w *weather) charge(b *piece) {
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(len(b.bytes)) * time.Second / time.Duration(w.Rate))
	b.at, b.charged = w.free.Add(-w.Delay), true
}
