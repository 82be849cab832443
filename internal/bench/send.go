package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncemq/oncemq"
)

// Send measures plain sends: from the call to the answer that it is on the disks of a
// majority, Outstanding of them under way over Connections.
func Send(ctx context.Context, c Config) (Result, error) {
	cs, err := dial(ctx, c.URLs, min(c.Connections, c.Outstanding))
	if err != nil {
		return Result{}, err
	}
	defer cs.close()
	lanes, err := openLanes(ctx, cs, c)
	if err != nil {
		return Result{}, err
	}
	begin := time.Now().Add(warmUp)
	end := begin.Add(c.Duration)
	all := make([]*samples, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		all[i] = &l.samples
		wg.Go(func() { l.run(ctx, begin, end, -1) })
	}
	wg.Wait()
	return result(fmt.Sprintf("send %d", c.Outstanding), all, c.Duration), ctx.Err()
}

// fill puts n messages into c.Queue as fast as it can.
func fill(ctx context.Context, c Config, n int) error {
	c.Outstanding = 256
	cs, err := dial(ctx, c.URLs, 4)
	if err != nil {
		return err
	}
	defer cs.close()
	lanes, err := openLanes(ctx, cs, c)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	far := time.Now().Add(24 * time.Hour)
	for _, l := range lanes {
		wg.Go(func() { l.run(ctx, far, far, n/len(lanes)+1) })
	}
	wg.Wait()
	for _, l := range lanes {
		if l.failed != nil {
			return fmt.Errorf("filling %s: %w", c.Queue, l.failed)
		}
	}
	time.Sleep(settle)
	return ctx.Err()
}

// lane is one sender with a window of sends under way.
type lane struct {
	samples
	sender *oncemq.Sender
	window int
	body   []byte
	// addresses get the messages in turn where the sender is an anonymous one; nil: it isn't.
	addresses []string
	failed    error // the first error
}

// flight is one send under way.
type flight struct {
	receipt *oncemq.Receipt
	since   time.Time
}

// openLanes opens one sender on each connection.
func openLanes(ctx context.Context, cs clients, c Config) ([]*lane, error) {
	var lanes []*lane
	for _, client := range cs {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		session, err := client.OpenSession(call, nil)
		if err != nil {
			return nil, fmt.Errorf("opening a session: %w", err)
		}
		sender, err := session.NewSender(call, c.Queue, nil)
		if err != nil {
			return nil, fmt.Errorf("attaching to %s: %w", c.Queue, err)
		}
		lanes = append(lanes, &lane{sender: sender, window: max(1, c.Outstanding/len(cs)), body: make([]byte, c.Size)})
	}
	return lanes, nil
}

// run sends until end, or count messages where that isn't negative, and keeps what
// was answered between begin and end.
func (l *lane) run(ctx context.Context, begin, end time.Time, count int) {
	if l.window == 1 {
		l.repeat(ctx, func(ctx context.Context) error {
			return l.sender.Send(ctx, oncemq.NewMessage(l.body))
		}, begin, end)
		return
	}
	places := make(chan struct{}, l.window)
	flights := make(chan flight, l.window)
	var wg sync.WaitGroup
	wg.Go(func() { l.answers(ctx, flights, places, begin, end) })
	for n := 0; n != count && ctx.Err() == nil && time.Now().Before(end); n++ {
		places <- struct{}{}
		since := time.Now()
		m := oncemq.NewMessage(l.body)
		if l.addresses != nil {
			m.To = l.addresses[n%len(l.addresses)]
		}
		receipt, err := l.sender.SendAsync(ctx, m)
		if err != nil {
			l.failed = err
			break
		}
		flights <- flight{receipt, since}
	}
	close(flights)
	wg.Wait()
}

// answers waits for the sends under way, in order.
func (l *lane) answers(ctx context.Context, flights <-chan flight, places <-chan struct{}, begin, end time.Time) {
	for f := range flights {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := f.receipt.Wait(call)
		cancel()
		now := time.Now()
		<-places
		switch {
		case now.Before(begin) || now.After(end):
		case err != nil:
			l.errors++
		default:
			l.add(now.Sub(f.since))
		}
	}
}
