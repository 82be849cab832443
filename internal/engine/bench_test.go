package engine

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// BenchmarkTransfer sends 1 KB messages through two engines back to back: send, receive, accept, settled. One operation is
// one message, both ends included; batch is how many go in one write.
func BenchmarkTransfer(b *testing.B) {
	for _, tc := range []struct {
		name    string
		batch   int
		settled bool
	}{{"unsettled/1", 1, false}, {"unsettled/100", 100, false}, {"settled/100", 100, true}} {
		b.Run(tc.name, func(b *testing.B) {
			n := newPair(b, Config{})
			out, in := n.link(amqp.ReceiverSettleFirst)
			ok := &amqp.Accepted{}
			credit := func(l *Link) {
				if l.Credit() < 500 {
					_ = l.SetCredit(1000, false)
				}
			}
			credit(in)
			n.run()
			n.server.onEvent = func(ev Event) bool {
				if ev.Kind == Received {
					ev.Delivery.Dispose(ok, true)
					credit(ev.Link)
					return true
				}
				return false
			}
			n.client.onEvent = func(ev Event) bool { return ev.Kind == Disposed || ev.Kind == Credit }
			payload := make([]byte, 1024)
			pieces := [][]byte{payload[:40], payload[40:]}
			tag := make([]byte, 8)
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				for k := range tag {
					tag[k] = byte(i >> (8 * k))
				}
				if _, err := out.Send(Transfer{Tag: tag, Settled: tc.settled, Payload: pieces}); err != nil {
					b.Fatal(err)
				}
				if i%tc.batch == tc.batch-1 {
					n.run()
				}
			}
			n.run()
			b.StopTimer()
			if out.Unsettled() != 0 {
				b.Fatalf("%d unsettled", out.Unsettled())
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// BenchmarkTransactional is BenchmarkTransfer with a transactional-state on each transfer and disposition.
func BenchmarkTransactional(b *testing.B) {
	n := newPair(b, Config{})
	out, in := n.link(amqp.ReceiverSettleFirst)
	state := &amqp.TransactionalState{TxnID: make([]byte, 24)}
	outcome := &amqp.TransactionalState{TxnID: make([]byte, 24), Outcome: &amqp.Accepted{}}
	_ = in.SetCredit(1000, false)
	n.run()
	n.server.onEvent = func(ev Event) bool {
		if ev.Kind == Received {
			ev.Delivery.Dispose(outcome, true)
			if ev.Link.Credit() < 500 {
				_ = ev.Link.SetCredit(1000, false)
			}
		}
		return ev.Kind == Received
	}
	n.client.onEvent = func(ev Event) bool { return ev.Kind == Disposed || ev.Kind == Credit }
	pieces := [][]byte{make([]byte, 1024)}
	tag := make([]byte, 8)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		tag[0], tag[1], tag[2] = byte(i), byte(i>>8), byte(i>>16)
		if _, err := out.Send(Transfer{Tag: tag, State: state, Payload: pieces}); err != nil {
			b.Fatal(err)
		}
		if i%20 == 19 {
			n.run()
		}
	}
}

// BenchmarkWideDisposition is one frame of 25 bytes that names 2^31 ids, over 10,000 unsettled deliveries that it is no news for.
func BenchmarkWideDisposition(b *testing.B) {
	n := newPair(b, Config{})
	out, in := n.link(amqp.ReceiverSettleFirst)
	_ = in.SetCredit(10_000, false)
	n.run()
	for i := range 10_000 {
		if _, err := out.Send(Transfer{Tag: []byte{byte(i), byte(i >> 8)}}); err != nil {
			b.Fatal(err)
		}
	}
	n.run()
	f := amqp.AppendFrame(nil, 0, &amqp.Disposition{Role: amqp.RoleReceiver, Last: amqp.Some(uint32(1<<31 - 1))}, nil)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := n.client.c.Input(f, time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
}
