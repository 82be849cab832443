package state

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// The costs [8.5] are what things take, or up to two and a half times that: what is counted too low ends nodes for want of memory, what is counted much
// too high refuses messages that there is room for. Slices and maps double as they grow, and need both at that moment, so they aren't to be close.
// Each row fills a machine with one kind of thing, and compares what is counted with what is given back when the machine goes.
func TestCostsAreWhatThingsTake(t *testing.T) {
	const many = 20_000
	for _, tt := range []struct {
		name string
		fill func(b *bundle)
	}{
		{"messages", func(b *bundle) { b.stock("q", many*4) }},
		{"messages of many queues", func(b *bundle) {
			for i := range many / 100 {
				b.stock(fmt.Sprint("q", i), 64)
			}
		}},
		{"messages in hands", func(b *bundle) {
			p := b.connect(1, "c")
			p.receiver(1, "q", many)
			b.stock("q", many)
		}},
		{"messages given back", func(b *bundle) {
			p := b.connect(1, "c")
			p.receiver(1, "q", many)
			b.stock("q", many)
			b.do(1, &command.ConnEnd{Conn: p.id})
			b.tick(1)
		}},
		{"dead letters", func(b *bundle) {
			p := b.connect(1, "c")
			p.receiver(1, "q", many)
			for range many / 1000 {
				b.stock("q", 1000)
				p.settle(1, command.Rejected, b.refs()...)
			}
		}},
		{"queues", func(b *bundle) {
			for i := range many / 10 {
				b.do(1, &command.QueueCreate{Request: 1, Name: fmt.Sprint("queue.of.some.name.", i)})
			}
		}},
		{"connections with links", func(b *bundle) {
			for i := range many / 20 {
				p := b.connect(1, fmt.Sprint("client-", i))
				p.receiver(1, "q", 10)
			}
		}},
		{"clients that can resume", func(b *bundle) {
			for i := range many / 20 {
				p := b.connectGo(1, fmt.Sprint("client-", i), 1, 1)
				id := p.session(command.SessionOpen{Nonce: [16]byte{byte(i)}})
				p.numbered(id)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBundle(t)
			b.single = true
			before := b.m.memoryUsed()
			tt.fill(b)
			m := b.m
			counted := int64(m.memoryUsed() - before)
			*b = bundle{} // the machine alone stays
			with := int64(heap())
			runtime.KeepAlive(m)
			m = nil
			taken := with - int64(heap())
			t.Logf("counted %d, taken %d: %.2f", counted, taken, float64(counted)/float64(taken))
			if counted < taken || counted > 5*taken/2 {
				t.Errorf("%d bytes are counted, and %d taken", counted, taken)
			}
		})
	}
}

// stock sends messages to a queue, a thousand an entry.
func (b *bundle) stock(queue string, messages int) {
	b.Helper()
	b.do(1, &command.QueueCreate{Request: 1, Name: queue})
	p := b.connect(1, "stock")
	var effects []command.Effect
	for left := messages; left > 0; left -= 1000 {
		var cs []command.Command
		for range min(left, 1000) {
			cs = append(cs, &command.Send{Conn: p.id, Link: 99, Request: p.next(), Address: queue, Message: []byte("m")})
		}
		effects = append(effects, b.do(1, cs...)...)
	}
	b.do(1, &command.ConnEnd{Conn: p.id})
	b.effects, b.all = effects, nil
}
