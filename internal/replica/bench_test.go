package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkRaw writes 1 KB commands straight into the leader of three nodes in this
// process, synced, and waits for each.
func BenchmarkRaw(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			c := newCluster(b, 3, nil)
			w := c.leader().RawWriter()
			text := strings.Repeat("x", 1000)
			var left atomic.Int64
			left.Store(int64(b.N))
			var mu sync.Mutex
			var took []time.Duration
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					var own []time.Duration
					for left.Add(-1) >= 0 {
						at := time.Now()
						if err := w.Write(context.Background(), body(text)); err != nil {
							b.Error(err)
							return
						}
						own = append(own, time.Since(at))
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, own...)
				})
			}
			wg.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
