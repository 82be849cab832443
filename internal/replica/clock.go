package replica

import (
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// clockSlackMillis is how far civil time may run ahead of the median of the voters' clocks
// [4.5].
const clockSlackMillis = 1000

// clockOff is how far a leader's clock may be from the median before it gives up leadership;
// clockOffEvery is how often it then tries.
const (
	clockOff      = 5 * time.Second
	clockOffEvery = 10 * time.Second
)

// logClock stamps entries with the two times of the log. Neither goes back, but for civil time by a SetTime.
type logClock struct {
	civil, running int64 // the highest stamps seen in the log, ms
	// sets counts the SetTimes that civil takes account of: what was stamped without one
	// doesn't count behind it.
	sets uint64

	runningAt time.Duration // monotonic moment at which running was running
	others    map[uint64]clockSample
	voters    int
	voter     map[uint64]bool // another one
}

// clockSample is another voter's clock, and when it came.
type clockSample struct {
	civil int64
	at    time.Duration
}

// seen notes the stamps of an entry in the log, by whomever.
func (l *logClock) seen(h command.EntryHeader) {
	switch {
	case h.Sets > l.sets:
		l.civil, l.sets = h.Civil, h.Sets
	case h.Sets == l.sets:
		l.civil = max(l.civil, h.Civil)
	}
	l.running = max(l.running, h.Running)
}

// elected starts this node's time as leader: running time stood until now.
func (l *logClock) elected(now time.Duration) { l.runningAt = now }

// sample notes another voter's clock.
func (l *logClock) sample(node uint64, civil int64, now time.Duration) {
	if l.voter[node] {
		l.others[node] = clockSample{civil, now}
	}
}

// setVoters changes whose clocks count.
func (l *logClock) setVoters(voters []uint64, self uint64) {
	l.voters, l.voter = len(voters), map[uint64]bool{}
	for _, id := range voters {
		l.voter[id] = id != self
	}
	for id := range l.others {
		if !l.voter[id] {
			delete(l.others, id)
		}
	}
}

// median is the lower median of the voters' clocks, own included; ok is false while too few
// of them are known to tell a wrong one.
func (l *logClock) median(now time.Duration, own int64) (median int64, ok bool) {
	clocks := []int64{own}
	for _, s := range l.others {
		clocks = append(clocks, s.civil+(now-s.at).Milliseconds())
	}
	slices.Sort(clocks)
	// The lower one of two: a single wrong clock must not win by being alone.
	return clocks[(len(clocks)-1)/2], len(clocks) > l.voters/2
}

// off is how far the own clock is from the median, 0 where that isn't known.
func (l *logClock) off(now time.Duration, own int64) time.Duration {
	median, ok := l.median(now, own)
	if !ok {
		return 0
	}
	return time.Duration(max(own-median, median-own)) * time.Millisecond
}

// times are the two times of the log as a leader would stamp them now: civil time is
// max(last, min(own clock, median of the voters' clocks + 1 s)), running time goes on by
// the monotonic clock.
func (l *logClock) times(now time.Duration, own int64) (civil, running int64) {
	civil = own
	if median, ok := l.median(now, own); ok {
		civil = min(own, median+clockSlackMillis)
	}
	return max(l.civil, civil), l.running + (now - l.runningAt).Milliseconds()
}

// stamp is the header of the next entry.
func (l *logClock) stamp(now time.Duration, own int64) command.EntryHeader {
	civil, running := l.times(now, own)
	l.runningAt += time.Duration(running-l.running) * time.Millisecond
	l.civil, l.running = civil, running
	return command.EntryHeader{Civil: civil, Running: running, Sets: l.sets}
}

// right reports that another voter's clock, as far as it is known, is near the median: a leader whose own isn't need not hand
// over to one that would do the same.
func (l *logClock) right(node uint64, now time.Duration, own int64) bool {
	median, known := l.median(now, own)
	s, sampled := l.others[node]
	off := s.civil + (now - s.at).Milliseconds() - median
	return known && sampled && max(off, -off) < clockOff.Milliseconds()
}

// checkClock makes a leader with a wrong clock give up leadership, to one with a right one [4.5].
func (c *core) checkClock() {
	off := c.clock.off(c.now, c.civil)
	if off < clockOff || c.now < c.clockAlarm+clockOffEvery && c.clockAlarm != 0 {
		return
	}
	c.clockAlarm = c.now
	c.logger.Error("this node's clock differs from the other nodes'; set it right", "by", off)
	c.transfer(func(id uint64) bool { return c.clock.right(id, c.now, c.civil) })
}
