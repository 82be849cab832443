package replica

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// scrubbing makes a node read all that it has on disk again and again.
func scrubbing(o *Options) {
	manySegments(o)
	o.Limits.OfferFor = time.Second
	o.Limits.ScrubEvery, o.Limits.ScrubBytes = 50*time.Millisecond, 1<<30
}

// flipLog flips a bit of each segment of a node that runs; which of them are in use may just be changing, but for the active one.
func (c *cluster) flipLog(id command.NodeID, at int64) {
	c.t.Helper()
	for _, path := range c.files(id, "log/*.seg") {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var b [1]byte
		if err == nil {
			_, err = f.ReadAt(b[:], at)
		}
		if err == nil {
			b[0] ^= 4
			_, err = f.WriteAt(b[:], at)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		f.Close()
	}
}

// TestScrub: damage that nobody has met is found, and mended with the help of the others (C14; fault 56).
func TestScrub(t *testing.T) {
	c := newCluster(t, 3, scrubbing)
	c.fill("before")
	for i, at := range []int64{20, 4096 + 60} { // in the header, and in the first batch
		m := c.follower()
		c.wait("all is read once", func() bool { return m.ScrubStatus().Passes > 0 })
		if s := m.ScrubStatus(); s.Damage != "" || s.Bytes == 0 {
			t.Fatalf("%+v", s)
		}
		c.flipLog(m.id, at)
		select {
		case err := <-m.ran:
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("the node ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("nobody has found the bit at %d", at)
		}
		delete(c.nodes, m.id)
		m, _ = c.comesBack(m.id)
		c.write(m, "through the node that recovered")
		c.digests()
		if i == 0 {
			c.fill("again")
		}
	}
}

// TestScrubAlone: a lone node has nobody to recover from: it says what it found, and goes on.
func TestScrubAlone(t *testing.T) {
	c := newCluster(t, 1, scrubbing)
	c.fill("before")
	m := c.leader()
	c.flipLog(m.id, 4096+60)
	c.wait("the damage is shown", func() bool { return m.ScrubStatus().Damage != "" })
	c.write(m, "it goes on")
}
