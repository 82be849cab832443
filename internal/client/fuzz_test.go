package client

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// FuzzCore: whatever a broker sends, in whatever state of the client, it doesn't panic, and consumes or waits.
func FuzzCore(f *testing.F) {
	for stage := range byte(4) {
		f.Add(stage, []byte{0, 0, 0, 8, 2, 0, 0, 0}, []byte("AMQP\x00\x01\x00\x00"))
		x := fuzzed(f, stage)
		in := x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now)
		f.Add(stage, in, in)
		f.Add(stage, in[:len(in)/2], in[len(in)/2:])
	}
	f.Fuzz(func(t *testing.T, stage byte, a, b []byte) {
		x := fuzzed(t, stage)
		for _, p := range [][]byte{a, b} {
			serial, _ := x.core.Socket()
			x.core.TakeOutput(serial, nil, x.now)
			for len(p) > 0 {
				n, wanted := x.core.Input(serial, p, x.now)
				if n < 0 || n > len(p) {
					t.Fatalf("consumed %d of %d", n, len(p))
				}
				p = p[n:]
				if n == 0 || !wanted {
					break
				}
			}
			for ev, ok := x.core.Next(); ok; ev, ok = x.core.Next() {
				_ = ev
			}
			for _, s := range x.core.sessions {
				_, _ = s.Begin()
			}
			x.now = x.now.Add(time.Second)
			x.core.Tick(x.now)
		}
		x.core.Lost(x.core.serial, errCut, x.now)
		x.core.Close(x.now)
		x.core.Abort()
		if !x.core.Over() {
			t.Fatal("not over after Abort")
		}
	})
}

// fuzzed is a client in one of four states: nothing read, everything idle, much under way, and much to resume.
func fuzzed(t testing.TB, stage byte) *transfer {
	stage %= 4
	if stage == 0 {
		x := &transfer{rig: newRig(t)}
		x.move()
		return x
	}
	x := newTransfer(t, false)
	if stage == 1 {
		return x
	}
	x.conn.mute = true
	x.out.Send(data("plain"))
	x.core.Ask(&Query{ID: x.s.txID(1)})
	x.run()
	x.work()
	if d := x.in.Take(); d != nil {
		d.Settle(&amqp.Accepted{})
	}
	x.tx.Commit()
	x.core.TakeOutput(x.serial, nil, x.now)
	if stage == 3 {
		x.cut()
		for range 3 {
			x.move()
		}
	}
	return x
}

func (s *Session) txID(n uint64) TxID { return txID(s.id, n) }
