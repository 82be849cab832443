package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncemq/oncemq"
)

// probeEvery is the distance of a probe's sends: small enough for a 99.9th percentile of ten seconds.
const probeEvery = 4 * time.Millisecond

// Probe is what small sends to a queue of their own saw while something else went on. They leave by the clock, whether the former
// are answered or not, and their time counts from the moment at which they should have left.
type Probe struct {
	Sends  int   `json:"sends"`
	P50    int64 `json:"p50_us"`
	P999   int64 `json:"p999_us"`
	Max    int64 `json:"max_us"`
	Errors int   `json:"errors"`
}

// prober sends until it is stopped.
type prober struct {
	client *oncemq.Client
	sender *oncemq.Sender
	stop   context.CancelFunc
	done   chan struct{}
	took   []time.Duration
	errors int
}

// startProbe begins to probe queue.
func startProbe(ctx context.Context, urls, queue string) (*prober, error) {
	cs, err := dial(ctx, urls, 1)
	if err != nil {
		return nil, err
	}
	lanes, err := openLanes(ctx, cs, Config{Queue: queue, Outstanding: 1, Connections: 1})
	if err != nil {
		cs.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &prober{client: cs[0], sender: lanes[0].sender, stop: stop, done: make(chan struct{})}
	flights := make(chan flight, 1<<14) // a minute of silence; then the sends wait, and their time counts
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		p.answers(flights)
	}()
	go func() {
		defer close(p.done)
		p.send(ctx, flights)
		close(flights)
		<-answered
	}()
	return p, nil
}

func (p *prober) send(ctx context.Context, flights chan<- flight) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; due = due.Add(probeEvery) {
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		receipt, err := p.sender.SendAsync(context.WithoutCancel(ctx), oncemq.NewMessage([]byte("probe")))
		if err != nil {
			p.errors++
			return
		}
		flights <- flight{receipt, due}
	}
}

func (p *prober) answers(flights <-chan flight) {
	for f := range flights {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		err := f.receipt.Wait(ctx)
		cancel()
		if err != nil {
			p.errors++
			continue
		}
		p.took = append(p.took, time.Since(f.since))
	}
}

// end stops probing and says what was seen.
func (p *prober) end() (Probe, error) {
	p.stop()
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	seen := Probe{Sends: len(p.took), Errors: p.errors}
	if len(p.took) > 0 {
		slices.Sort(p.took)
		seen.P50 = p.took[len(p.took)/2].Microseconds()
		seen.P999 = p.took[len(p.took)*999/1000].Microseconds()
		seen.Max = p.took[len(p.took)-1].Microseconds()
	}
	if err := p.client.Close(ctx); err != nil {
		return seen, fmt.Errorf("closing the probe's connection: %w", err)
	}
	return seen, nil
}
