package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// The allowance policy [3.4].
const (
	// maxAllowed bounds the messages that one link's allowance is topped up to.
	maxAllowed = 1000
	// maxUnwritten bounds the bytes that are allowed to a link or handed out to it and not written.
	maxUnwritten = 8 << 20
	// surplusTime is how long an allowance may exceed the link's credit [4.6].
	surplusTime = time.Second
	// stuckTime is how long a write may wait, or the replica lag, before allowances are withdrawn [3.4, 3.5].
	stuckTime = 2 * time.Second
)

// touch has a consumer's allowance and drain looked at in the next Flush.
func (c *Conn) touch(k *consumer) {
	if !k.inDirty {
		k.inDirty = true
		c.dirty = append(c.dirty, k)
	}
}

// review looks at the consumers that were touched.
func (c *Conn) review() {
	for i := 0; i < len(c.dirty); i++ {
		k := c.dirty[i]
		k.inDirty = false
		if k.detached || c.ended {
			continue
		}
		if k.cursor != nil {
			c.browse(k)
			continue
		}
		if !k.open || k.asks {
			continue
		}
		c.allow(k)
		c.drained(k)
	}
	c.dirty = c.dirty[:0]
}

// holding says that nothing is to be allowed now: the socket is stuck, or this replica lags.
func (c *Conn) holding() bool {
	return !c.stuckSince.IsZero() && c.now.Sub(c.stuckSince) > stuckTime || c.log.Lag() > stuckTime
}

// onWindow: a session takes more transfers.
func (c *Conn) onWindow(s *engine.Session) {
	for _, k := range inOrder(c.consumers) {
		if k.s.eng == s {
			c.ready1(k)
			c.touch(k)
		}
	}
}

// takes is how many deliveries the client takes on the link now, as far as its credit and its session's window say.
func (k *consumer) takes() int { return int(min(k.link.Credit(), k.link.Session().Window())) }

// room is how many more unsettled deliveries the link may have.
func (k *consumer) room() int {
	return maxUnsettled - k.link.Unsettled() - len(k.sending) - k.queue.len()
}

// wants is how many messages and bytes the link's allowance may be.
func (k *consumer) wants() (messages, bytes int) {
	messages = min(min(k.takes(), maxAllowed)-k.queue.len(), k.room())
	bytes = maxUnwritten - k.queueBytes - k.sendingBytes
	return max(0, messages), max(0, bytes)
}

// noteSurplus notes since when the state may hand out, or has handed out, more than the client takes.
func (c *Conn) noteSurplus(k *consumer) {
	messages, _ := k.wants()
	switch {
	case k.allowed <= messages && k.queue.len() <= k.takes():
		k.surplus = time.Time{}
	case k.surplus.IsZero():
		k.surplus = c.now
		c.wakeBy(c.now.Add(surplusTime))
	}
}

// allow tops a link's allowance up at half. A drain tops it up to the whole: it asks for all that there is.
func (c *Conn) allow(k *consumer) {
	messages, bytes := k.wants()
	c.noteSurplus(k)
	if k.withdrawing || messages == 0 || bytes == 0 || c.holding() {
		return
	}
	full := k.drain.on
	more, moreBytes := max(0, messages-k.allowed), max(0, bytes-k.allowedBytes)
	enough := k.allowed > messages/2 || more == 0
	enoughBytes := k.allowedBytes > bytes/2 || moreBytes == 0
	if full {
		enough, enoughBytes = more == 0, k.allowedBytes > 0 || moreBytes == 0
	}
	if enough && enoughBytes {
		return
	}
	k.allows++
	k.allowed += more
	k.allowedBytes += moreBytes
	a := &c.scratch.allow
	*a = command.Allow{Conn: c.id, Link: k.num, Messages: uint32(more), Bytes: uint64(moreBytes)}
	c.gather(a)
	if full {
		c.fence(k)
	}
}

// withdraw takes a link's allowance back, and returns what can still be withheld from the client.
func (c *Conn) withdraw(k *consumer) {
	if k.withdrawing || !k.open || k.detached || c.ended {
		return
	}
	c.recall(k)
	w := &c.scratch.withdraw
	refs := c.scratch.refs[:0]
	kept := k.queue.items[:0]
	for _, h := range k.queue.items[k.queue.head:] {
		if h.resumed {
			kept = append(kept, h)
		} else {
			refs = append(refs, h.ref)
		}
	}
	clear(k.queue.items[len(kept):])
	k.queue, k.queueBytes = queue{items: kept}, 0
	k.withdrawing = true
	*w = command.Withdraw{Conn: c.id, Link: k.num, Received: k.received, Unwritten: refs}
	w.Request = c.expect(answer{kind: answerWithdraw, consumer: k})
	c.gather(w)
	c.scratch.refs = refs
}

// onWithdrawn: the state has no allowance of the link any more.
func (c *Conn) onWithdrawn(e *command.Effect) {
	a, ok := c.take(e.Request, answerWithdraw)
	if !ok {
		return
	}
	k := a.consumer
	k.withdrawing = false
	k.allowed, k.allowedBytes, k.surplus = 0, 0, time.Time{}
	c.touch(k)
}

// audit withdraws what must not stay with the links, and says when to look again; the zero time means never.
func (c *Conn) audit() (next time.Time) {
	hold := c.holding()
	for _, k := range inOrder(c.consumers) {
		if !k.open || k.detached {
			continue
		}
		if k.cursor != nil {
			c.touch(k)
			c.ready1(k)
			continue
		}
		c.noteSurplus(k)
		switch {
		case hold && (k.allowed > 0 || k.queue.len() > 0):
			c.withdraw(k)
		case hold, k.surplus.IsZero(), k.withdrawing:
		case !k.surplus.Add(surplusTime).After(c.now):
			c.withdraw(k)
		default:
			next = earliest(next, k.surplus.Add(surplusTime))
		}
		if k.allowed == 0 || k.drain.on {
			c.touch(k)
		}
		c.ready1(k)
	}
	return next
}

// earliest is the earlier of two moments, the zero time being none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
