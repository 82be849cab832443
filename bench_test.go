package oncemq

import "testing"

// BenchmarkSendAsync is the send path with a window of 500 sends, over an in-memory socket; the broker's half of it is the test's own.
func BenchmarkSendAsync(b *testing.B) {
	n := newNode(b)
	c, err := Dial(b.Context(), "amqp://a", &Config{DialContext: n.dial})
	if err != nil {
		b.Fatal(err)
	}
	s, err := c.OpenSession(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	out, err := s.NewSender(b.Context(), "discard", nil)
	if err != nil {
		b.Fatal(err)
	}
	m := NewMessage(make([]byte, 100))
	var window [500]*Receipt
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if r := window[i%len(window)]; r != nil {
			if err := r.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if window[i%len(window)], err = out.SendAsync(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	_ = c.Close(b.Context())
	n.kill()
	n.wg.Wait()
}
