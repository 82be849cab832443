package client

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// addressOutcome is asked for outcomes; replies come to a queue of this client, replyPrefix and its container-id.
const (
	addressOutcome = "$oncemq.outcome"
	replyPrefix    = "reply."
)

// Query is one question to $oncemq.outcome.
type Query struct {
	// Op ends with the answer, or an error.
	Op
	// ID is the transaction. Decide rolls an undecided one back first (C3), else it is only looked at.
	ID     TxID
	Decide bool
	// State is committed, rolled-back, prepared, open or expired; Reason and DecidedAt as the broker gave them.
	State, Reason string
	DecidedAt     time.Time

	key string
}

// asker is the internal session with which the client asks. It is opened with the first question.
type asker struct {
	core    *Core
	session *Session
	sender  *Sender
	replies *Receiver
	open    []*Query // in order, those without an answer
	made    uint64
	tries   int // how often it began anew since the last reply
}

// Ask begins a query.
func (c *Core) Ask(q *Query) {
	if c.phase == phaseOver || c.closing {
		c.finish(&q.Op, c.overErr())
		return
	}
	if c.asker == nil {
		c.asker = &asker{core: c}
	}
	c.asker.ask(q)
}

// Forget takes a query back whose caller no longer waits.
func (c *Core) Forget(q *Query) {
	if c.asker != nil {
		c.asker.remove(q)
	}
}

func (a *asker) ask(q *Query) {
	a.made++
	q.key = hex.EncodeToString(a.core.cfg.Nonce[:8]) + "-" + strconv.FormatUint(a.made, 10)
	a.open = append(a.open, q)
	if a.broken() {
		a.start()
		return
	}
	if a.ready() {
		a.send(q)
	}
}

// broken says that the session or a link is of no more use.
func (a *asker) broken() bool {
	return a.session == nil || a.session.err != nil || a.sender != nil && a.sender.err != nil || a.replies != nil && a.replies.err != nil
}

// again asks everything anew over a new session, since a link or the session failed; not for ever.
func (a *asker) again(err error) {
	if a.tries++; a.tries > maxRefusals || a.core.phase == phaseOver || a.core.closing {
		a.fail(err)
		return
	}
	a.start()
}

func (a *asker) ready() bool {
	return a.replies != nil && a.replies.Attaching.done && a.sender.Attaching.done && a.sender.err == nil && a.replies.err == nil
}

// start opens session and links, then sends what waits.
func (a *asker) start() {
	old := a.session
	s := a.core.OpenSession(false)
	a.session, a.sender, a.replies = s, nil, nil
	if old != nil {
		old.Close()
	}
	s.Opening.then = func() {
		if a.session != s {
			return
		}
		if s.Opening.err != nil {
			a.fail(s.Opening.err)
			return
		}
		a.replies = s.NewReceiver(replyPrefix+a.core.cfg.ContainerID, "", 0)
		a.sender = s.NewSender(addressOutcome, "")
		a.replies.Attaching.then = a.attached
		a.sender.Attaching.then = a.attached
		a.attached()
	}
	if s.Opening.done && s.Opening.err != nil {
		a.fail(s.Opening.err)
	}
}

func (a *asker) attached() {
	if a.sender == nil || a.replies == nil {
		return
	}
	for _, err := range []error{a.sender.err, a.replies.err} {
		if err != nil {
			a.session.Close()
			a.fail(err)
			return
		}
	}
	if !a.ready() {
		return
	}
	for _, q := range append([]*Query(nil), a.open...) {
		a.send(q)
	}
}

// send sends one question. Outcomes are idempotent, so that one whose send is unknown is simply asked again.
func (a *asker) send(q *Query) {
	payload := amqp.AppendProperties(nil, &amqp.Properties{MessageID: q.key, To: addressOutcome, ReplyTo: a.replies.address})
	payload = amqp.AppendApplicationProperties(payload, amqp.Map{{Key: "tx", Value: q.ID[:]}, {Key: "decide", Value: q.Decide}})
	payload = amqp.AppendAMQPValue(payload, nil)
	x := &Send{sender: a.sender}
	x.payload[0] = payload
	x.then = func() {
		switch {
		case x.err == nil, a.sender != x.sender: // a later sender asks again
		case a.broken():
			a.again(x.err)
		case !isRefusal(x.err):
			a.send(q)
		default:
			a.remove(q)
			a.core.finish(&q.Op, x.err)
		}
	}
	a.sender.put(x)
}

func isRefusal(err error) bool {
	var no *amqp.Error
	return errors.As(err, &no) && !errors.Is(err, ErrUnknown)
}

// take reads the replies that have come. The core calls it for its own receiver instead of telling the driver.
func (a *asker) take() {
	for d := a.replies.Take(); d != nil; d = a.replies.Take() {
		a.reply(d)
		x := d.Settle(&amqp.Accepted{})
		if !x.done {
			x.then = func() {}
		}
	}
	if a.replies.err != nil && len(a.open) > 0 {
		a.again(a.replies.err)
	}
}

func (a *asker) reply(d *Delivery) {
	s, err := amqp.ParseSections(d.Payload, amqp.Limits{})
	if err != nil {
		return
	}
	p, err := amqp.DecodeProperties(s.Properties, amqp.Limits{})
	if err != nil {
		return
	}
	key, _ := p.CorrelationID.(string)
	for _, q := range a.open {
		if q.key != key {
			continue
		}
		m, err := amqp.DecodeApplicationProperties(s.ApplicationProperties, amqp.Limits{})
		if err == nil {
			err = q.read(m)
		}
		if err == nil {
			a.core.seen(q)
		}
		a.tries = 0
		a.remove(q)
		a.core.finish(&q.Op, err)
		return
	}
}

// seen: a caller is about to have a definite result, so that it may be acknowledged (C2).
func (c *Core) seen(q *Query) {
	if q.State != "committed" && q.State != "rolled-back" {
		return
	}
	for _, s := range c.sessions {
		if s.id == SessionID(q.ID[:16]) {
			s.known.seen(binary.BigEndian.Uint64(q.ID[16:]))
		}
	}
}

// read takes the answer from a reply's application-properties.
func (q *Query) read(m amqp.Map) error {
	if v, ok := m.Lookup("error"); ok {
		e := &amqp.Error{Condition: amqp.Symbol(text(v))}
		v, _ = m.Lookup("description")
		e.Description = text(v)
		return e
	}
	v, _ := m.Lookup("outcome")
	q.State = text(v)
	v, _ = m.Lookup("reason")
	q.Reason = text(v)
	v, _ = m.Lookup("decided-at")
	switch at := v.(type) {
	case amqp.Timestamp:
		q.DecidedAt = time.UnixMilli(int64(at))
	case int64:
		q.DecidedAt = time.UnixMilli(at)
	}
	if q.State == "" {
		return ErrBadReply
	}
	return nil
}

func text(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case amqp.Symbol:
		return string(s)
	}
	return ""
}

func (a *asker) remove(q *Query) {
	for i, other := range a.open {
		if other == q {
			a.open = append(a.open[:i], a.open[i+1:]...)
			return
		}
	}
}

// fail ends all questions; the next one opens a new session.
func (a *asker) fail(err error) {
	open := a.open
	a.open, a.session, a.sender, a.replies = nil, nil, nil, nil
	for _, q := range open {
		a.core.finish(&q.Op, err)
	}
}
