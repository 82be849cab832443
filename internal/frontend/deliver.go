package frontend

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// outputRoom is how much the engine may hold before deliveries wait here, where "unwritten" is known.
const outputRoom = 128 << 10

// out is a delivery that the engine has: what its Data points to.
type out struct {
	k *consumer
	d *engine.Delivery
	h handed
	// proposed: a plain outcome of it stands in a record. tx and place: it is enlisted in a transaction.
	proposed bool
	tx       *tx
	place    int
	// acquired is the live transaction in which the message was handed out (4.4.3), nil where it was handed out plainly.
	acquired *tx
	written  bool
	buf      []byte // of the message, when it was read from the store
	header   [32]byte
}

// onDeliver queues a message that the state has handed out.
func (c *Conn) onDeliver(e *command.Effect) {
	k := c.consumers[e.Link]
	if k == nil || k.detached {
		return // the link's end, on its way through the log, returns it
	}
	k.received++
	if k.withdrawing {
		return // it returns when the Withdraw is applied [3.4]; given to the client now it would overtake what was withdrawn
	}
	k.queue.push(handed{
		ref: e.Ref, inc: e.Incarnation, count: e.Count, size: e.Size, first: e.FirstAcquirer,
		overlay: e.Overlay, payload: e.Payload,
	})
	k.queueBytes += int(e.Size)
	if k.allowed > 0 {
		k.allowed--
		k.allowedBytes = max(0, k.allowedBytes-int(e.Size))
	}
	c.ready1(k)
}

// ready1 puts a consumer among those that the pump serves.
func (c *Conn) ready1(k *consumer) {
	if !k.inReady && k.queue.len() > 0 {
		k.inReady = true
		c.ready = append(c.ready, k)
	}
}

// TakeOutput hands over bytes to be written at once: it checks the lease and moves deliveries to the engine. spare, if it
// has capacity, becomes the next buffer. Nil or empty: nothing to write.
func (c *Conn) TakeOutput(spare []byte, now time.Time) []byte {
	c.now = now
	if len(c.ready) > 0 || len(c.busy) > 0 {
		if c.log.LeaseUntil().After(now) && c.node.life.Load() == c.life { // in this order: see Node.EpochEnded
			c.pump()
		} else {
			for _, k := range c.busy {
				c.recall(k)
			}
			c.wakeBy(now.Add(soonTick))
		}
	}
	if cap(spare) == 0 {
		spare, c.spare = c.spare, nil
	}
	if c.quiet() {
		c.spare = spare
		return nil
	}
	b := c.eng.TakeOutput(spare, now)
	if len(b) > 0 && len(c.busy) > 0 {
		c.noteWritten()
	}
	return b
}

// pump gives handed-out messages to the engine, from each consumer in turn, while the engine has little to write.
func (c *Conn) pump() {
	if c.phase != phaseOpen {
		return
	}
	for len(c.ready) > 0 && c.eng.Pressing() < outputRoom {
		c.turn %= len(c.ready)
		k := c.ready[c.turn]
		if !k.detached && k.queue.len() > 0 && k.link.Credit() > 0 && k.link.Session().Window() > 0 && c.give(k) {
			c.turn++
			continue
		}
		k.inReady = false
		c.ready = append(c.ready[:c.turn], c.ready[c.turn+1:]...)
		c.touch(k)
	}
}

// give gives the oldest message of a consumer to the engine; false if it can't be given now.
func (c *Conn) give(k *consumer) bool {
	h := k.queue.front()
	o := &out{k: k, h: *h}
	var pieces [3][]byte
	var tag [tagSize]byte
	t := engine.Transfer{Tag: appendTag(tag[:0], h.inc, h.ref), Settled: k.presettled, Resume: h.resumed, State: k.state()}
	if k.cursor != nil {
		t.Tag, t.Settled = appendCopyTag(tag[:0], h.inc, h.ref.Message), true // where its mode lets us
	}
	if !h.resumed {
		payload := h.payload
		if payload == nil {
			var err error
			if payload, err = c.read(o); err != nil {
				c.drop(k, err)
				return true
			}
		}
		t.Payload = o.message(pieces[:0], payload)
	}
	d, err := k.link.Send(t)
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrTooLarge):
		c.recycle(o)
		c.undeliverable(k, h)
		return true
	default: // no credit, too many unsettled, or gone: it waits
		c.recycle(o)
		return false
	}
	d.Data = o
	o.d = d
	k.acquired(o)
	o.h.payload = nil // the engine has it now; recall reads it anew if it must
	k.queueBytes -= int(h.size)
	k.sendingBytes += int(h.size)
	k.queue.pop()
	k.sending = append(k.sending, o)
	if !k.inUse {
		k.inUse = true
		c.busy = append(c.busy, k)
	}
	return true
}

// read fetches a message from the store.
func (c *Conn) read(o *out) ([]byte, error) {
	if n := len(c.buffers); n > 0 {
		o.buf = c.buffers[n-1]
		c.buffers = c.buffers[:n-1]
	}
	b, err := c.log.Message(o.buf[:0], o.h.inc, o.h.ref.Message)
	if cap(b) > 0 {
		o.buf = b
	}
	return b, err
}

// recycle keeps a buffer for the next message.
func (c *Conn) recycle(o *out) {
	if cap(o.buf) > 0 && cap(o.buf) <= 64<<10 && len(c.buffers) < 64 {
		c.buffers = append(c.buffers, o.buf)
	}
	o.buf = nil
}

// drop skips a message that can't be read: it is gone (its queue was purged or deleted), which the state knows; anything
// else is this node's trouble, and the client is to go to another.
func (c *Conn) drop(k *consumer, err error) {
	if !errors.Is(err, ErrNoMessage) {
		c.force("this node can't read a message: connect to another node", command.EndForced)
		return
	}
	k.queueBytes -= int(k.queue.front().size)
	k.queue.pop()
	c.touch(k)
}

// undeliverable returns a message that is larger than the link takes. A browser passes over it.
func (c *Conn) undeliverable(k *consumer, h *handed) {
	if k.inState() {
		s := &c.scratch.settle
		*s = command.Settle{
			Conn: c.id, Link: k.num, Refs: append(c.scratch.refs[:0], h.ref),
			Disposition: command.Disposition{Outcome: command.Modified, UndeliverableHere: true},
		}
		c.gather(s)
		c.scratch.refs = s.Refs
	}
	k.queueBytes -= int(h.size)
	k.queue.pop()
}

// recall takes back what the engine has and has not begun to write, so that it waits here again.
func (c *Conn) recall(k *consumer) {
	n := len(k.sending)
	for n > 0 && !k.sending[n-1].d.Started() {
		n--
		o := k.sending[n]
		if !o.d.Abort() {
			n++
			break
		}
		c.recycle(o)
		o.forgetAcquired()
		k.queue.unpop(o.h)
		k.sendingBytes -= int(o.h.size)
		k.queueBytes += int(o.h.size)
	}
	if n < len(k.sending) {
		clear(k.sending[n:])
		k.sending = k.sending[:n]
		c.ready1(k)
	}
}

// noteWritten looks which deliveries have been taken for the socket.
func (c *Conn) noteWritten() {
	kept := c.busy[:0]
	for _, k := range c.busy {
		rest := k.sending[:0]
		for _, o := range k.sending {
			if !o.written && o.d.Written() {
				o.written = true
				if k.presettled {
					k.report = append(k.report, o.h.ref)
				}
			}
			if o.written && o.d.Sent() {
				k.sendingBytes -= int(o.h.size)
				c.recycle(o)
				o.h.overlay = nil
				continue
			}
			rest = append(rest, o)
		}
		clear(k.sending[len(rest):])
		k.sending = rest
		if len(k.report) > 0 {
			c.settleReport(k)
		}
		if len(rest) > 0 {
			kept = append(kept, k)
		} else {
			k.inUse = false
		}
		c.touch(k)
	}
	clear(c.busy[len(kept):])
	c.busy = kept
}

// reportWritten brings the reports of pre-settled links into the record.
func (c *Conn) reportWritten() {
	if len(c.busy) > 0 {
		c.noteWritten()
	}
}

// settleReport tells that messages of a pre-settled link were written, which consumes them (C13).
func (c *Conn) settleReport(k *consumer) {
	if !k.over && !k.gone {
		s := &c.scratch.settle
		*s = command.Settle{Conn: c.id, Link: k.num, Refs: k.report, Disposition: command.Disposition{Outcome: command.Accepted}}
		c.gather(s)
	}
	k.report = k.report[:0]
}

// message appends the pieces of a delivery: the header anew, then the stored bytes behind the header and the delivery
// annotations; the bare message is never re-encoded.
func (o *out) message(pieces [][]byte, payload []byte) [][]byte {
	header, rest := cut(payload)
	h := amqp.NewHeader()
	if stored, err := amqp.DecodeHeader(header); err == nil {
		h = stored
	}
	h.FirstAcquirer, h.DeliveryCount = o.h.first, o.h.count
	pieces = append(pieces, amqp.AppendHeader(o.header[:0], &h))
	if len(o.h.overlay) > 0 {
		if merged, behind, ok := overlay(rest, o.h.overlay); ok {
			return append(pieces, merged, behind)
		}
	}
	return append(pieces, rest)
}

// The codes of the sections that a broker writes anew, as nearly everybody writes them.
const (
	sectionHeader              = 0x70
	sectionDeliveryAnnotations = 0x71
)

// cut splits a stored message, which was checked when it came, into its header section and what follows the header and the
// delivery annotations.
func cut(payload []byte) (header, rest []byte) {
	rest = payload
	for len(rest) > 3 && rest[0] == 0 && rest[1] == 0x53 && (rest[2] == sectionHeader || rest[2] == sectionDeliveryAnnotations) {
		n, err := amqp.SkipValue(rest, amqp.Limits{})
		if err != nil {
			break
		}
		if rest[2] == sectionHeader {
			header = rest[:n]
		}
		rest = rest[n:]
	}
	if len(rest) > 3 && rest[0] == 0 && rest[1] == 0x53 && rest[2] > sectionDeliveryAnnotations {
		return header, rest
	}
	s, err := amqp.ParseSections(payload, amqp.Limits{}) // other descriptors than the usual ones
	if err != nil {
		return header, rest
	}
	return s.Header, s.Rest
}

// overlay merges annotations over the stored ones (modified's, a dead letter's story).
func overlay(rest, encoded []byte) (merged, behind []byte, ok bool) {
	s, err := amqp.ParseSections(rest, amqp.Limits{})
	if err != nil {
		return nil, nil, false
	}
	v, _, err := amqp.DecodeValue(encoded, amqp.Limits{})
	over, isMap := v.(amqp.Map)
	if err != nil || !isMap {
		return nil, nil, false
	}
	stored, err := amqp.DecodeMessageAnnotations(s.MessageAnnotations, amqp.Limits{})
	if err != nil {
		return nil, nil, false
	}
	all := append(amqp.Map(nil), stored...)
	for _, p := range over {
		replaced := false
		for i := range all {
			if sameKey(all[i].Key, p.Key) {
				all[i].Value, replaced = p.Value, true
				break
			}
		}
		if !replaced {
			all = append(all, p)
		}
	}
	return amqp.AppendMessageAnnotations(nil, all), rest[len(s.MessageAnnotations):], true
}

// sameKey compares keys of annotations, which are symbols or numbers; others may not even be comparable.
func sameKey(a, b any) bool {
	switch x := a.(type) {
	case amqp.Symbol:
		y, ok := b.(amqp.Symbol)
		return ok && x == y
	case string:
		y, ok := b.(string)
		return ok && x == y
	case uint64:
		y, ok := b.(uint64)
		return ok && x == y
	}
	return false
}
