package frontend

import (
	"encoding/binary"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// consumer is a client's receiving link: our sending one.
type consumer struct {
	s    *session
	link *engine.Link
	num  uint32
	// presettled: we send settled, and report what was written, which consumes it (C13).
	presettled bool
	// keeps: settlement has three steps [3.3].
	keeps bool
	// byDefault is the outcome of a delivery that is settled without one.
	byDefault amqp.DeliveryState
	filters   filters
	// asks: there is no source; it gets nothing and is there to be told of a subscription, and to end it.
	asks bool
	// cursor makes it a browser; nil: messages are handed out to it.
	cursor *cursor
	// dynamic: the link has made its queue, which goes with it.
	dynamic bool
	// acquires is the transaction in which messages are handed out to the link, nil for none.
	acquires *tx

	open bool
	// received counts what the state has handed out to the link (command.LinkUnwritten).
	received uint64
	// detached: the link is gone, but settlements still count. over: nothing counts any more. gone: the state has ended the
	// link by itself.
	detached, over, gone bool
	closed               bool // by the client: a durable subscription ends with it

	// Handed out and not yet given to the engine, oldest first.
	queue      queue
	queueBytes int
	// In the engine and not sent to the last frame.
	sending      []*out
	sendingBytes int
	// written on a pre-settled link and not reported yet.
	report []command.DeliveryRef

	// The allowance that the state has, as far as we know: every Allow proposed, less what was handed out.
	allowed      int
	allowedBytes int
	withdrawing  bool
	// allows counts the Allows, confirmed those that are known to be applied.
	allows, confirmed int
	surplus           time.Time // since when the allowance exceeds the credit

	drain          drain
	inDirty        bool
	inReady, inUse bool
}

// outcomes are those that every source of ours knows.
var outcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeRejected, amqp.OutcomeReleased, amqp.OutcomeModified}

// handed is a message that the state has handed out to a link.
type handed struct {
	ref         command.DeliveryRef
	inc         command.Incarnation
	count, size uint32
	first       bool
	resumed     bool // the client has it already: only its tag is sent
	overlay     []byte
	payload     []byte
}

// queue is a FIFO that can also take back what was its front.
type queue struct {
	items []handed
	head  int
}

func (q *queue) len() int       { return len(q.items) - q.head }
func (q *queue) front() *handed { return &q.items[q.head] }

func (q *queue) push(h handed) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, h)
}

func (q *queue) pop() {
	q.items[q.head] = handed{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// unpop puts h back in front of everything.
func (q *queue) unpop(h handed) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = h
		return
	}
	q.items = append(q.items, handed{})
	copy(q.items[1:], q.items)
	q.items[0] = h
}

func (c *Conn) attachConsumer(s *session, l *engine.Link, a *amqp.Attach) *amqp.Error {
	if a.Source == nil {
		return c.attachAsking(s, l, a)
	}
	name, routing, err := c.checkSource(a.Source)
	if err != nil {
		return err
	}
	f, err := filter(a.Source.Filter)
	if err != nil {
		return err
	}
	if a.Source.DistributionMode == amqp.DistributionCopy && routing != command.Multicast && !a.Source.Dynamic {
		c.attachBrowser(s, l, a, name, f)
		return nil
	}
	k := &consumer{s: s, link: l, filters: f, num: c.nextLink(), byDefault: a.Source.DefaultOutcome, dynamic: a.Source.Dynamic}
	k.presettled = a.SenderSettleMode == amqp.SenderSettleSettled
	k.keeps = !s.id.IsZero() && !k.presettled && a.ReceiverSettleMode == amqp.ReceiverSettleSecond
	if k.byDefault == nil || !amqp.IsOutcome(k.byDefault) {
		k.byDefault = &amqp.Released{}
	}
	if len(a.Unsettled) > 0 && s.id.IsZero() {
		return notImplemented("resuming unsettled deliveries on a session without " + string(amqp.CapOncemqSession))
	}
	open := command.LinkOpen{
		Conn: c.id, Link: k.num, Session: s.id, Name: a.Name, Address: name, Routing: routing,
		Create:     !a.Source.Dynamic && c.node.Allow(c.opts.Principal, RightCreate, name),
		Presettled: k.presettled, Resume: !s.id.IsZero() && a.Unsettled != nil,
		Filter: f.parsed, Subscription: subscription(a.Name, a.Source, f.noLocal != nil), Dynamic: dynamicQueue(a.Source.Dynamic),
	}
	for i := range a.Unsettled {
		u, ok := parseTag(a.Unsettled[i].Tag)
		if !ok {
			return refuse(amqp.ErrCondInvalidField, "a tag of the unsettled map is none of ours")
		}
		open.Unsettled = append(open.Unsettled, u)
	}
	c.openConsumer(k, &open)
	return nil
}

// openConsumer proposes a link.
func (c *Conn) openConsumer(k *consumer, open *command.LinkOpen) {
	k.link.Data = k
	c.consumers[k.num] = k
	open.Request = c.expect(answer{kind: answerLink, consumer: k})
	c.gather(open)
}

// attachAsking is for an attach without a source: is there a subscription of that name? Whoever closes the link then ends it (amqp.md 1.4).
func (c *Conn) attachAsking(s *session, l *engine.Link, a *amqp.Attach) *amqp.Error {
	if len(a.Unsettled) > 0 {
		return refuse(amqp.ErrCondInvalidField, "a link without a source has no deliveries")
	}
	k := &consumer{s: s, link: l, num: c.nextLink(), byDefault: &amqp.Released{}, asks: true}
	c.openConsumer(k, &command.LinkOpen{Conn: c.id, Link: k.num, Name: a.Name, Subscription: find(a)})
	return nil
}

// checkSource refuses what is not supported, or not permitted, and says where it is.
func (c *Conn) checkSource(a *amqp.Source) (name string, routing command.Routing, refused *amqp.Error) {
	if a.Dynamic {
		return "", 0, c.checkDynamic(a.Address.V, a.Durable, a.DynamicNodeProperties, a.Capabilities)
	}
	if refused = checkCapabilities(a.Capabilities, a.Address.V); refused != nil {
		return "", 0, refused
	}
	if a.Address.V == addressOutcome || a.Address.V == addressTx {
		return "", 0, refuse(amqp.ErrCondNotAllowed, "nothing is stored at a reserved address, so nothing can be received")
	}
	if name, routing, refused = place(a.Address.V, a.Capabilities); refused != nil {
		return "", 0, refused
	}
	if refused = checkAddress(name); refused != nil {
		return "", 0, refused
	}
	if temporaryName(name) {
		return name, routing, nil // the state lets its owner receive, and nobody else
	}
	return name, routing, c.allowed(RightConsume, name)
}

// onLinkOpened answers the attach; deliveries that the link holds follow as effects.
func (c *Conn) onLinkOpened(e *command.Effect) {
	a, ok := c.take(e.Request, answerLink)
	if !ok || a.consumer.over || a.consumer.detached {
		return
	}
	k := a.consumer
	detail, ok := e.Detail.(*command.LinkOpened)
	if e.Refusal != nil || !ok {
		err := amqp.Error{Condition: amqp.ErrCondInternalError, Description: "the link can't be attached"}
		if e.Refusal != nil {
			err = amqpError(e.Refusal)
		}
		k.over = true
		delete(c.consumers, k.num)
		c.forgetName(k.link)
		_ = k.link.Refuse(err)
		return
	}
	in := k.link.Remote()
	source := found(detail)
	if !k.asks {
		source = k.source(detail.Routing)
	}
	if k.dynamic {
		source.Address, source.DynamicNodeProperties = amqp.Some(detail.Address), lifetime()
		source.ExpiryPolicy, source.Timeout = amqp.ExpiryLinkDetach, 0
	}
	c.acceptConsumer(k, source, k.resume(detail, in.Unsettled != nil))
}

// source is the link's, as the answer to its attach says it.
func (k *consumer) source(is command.Routing) amqp.Source {
	source := *k.link.Remote().Source
	source.Filter, source.DynamicNodeProperties = k.filters.honoured(is), nil
	source.Capabilities = offered(source.Capabilities)
	return source
}

// acceptConsumer answers the attach of a receiving link.
func (c *Conn) acceptConsumer(k *consumer, source amqp.Source, unsettled []amqp.Unsettled) {
	k.open = true
	in := k.link.Remote()
	source.DefaultOutcome = k.byDefault // the source is ours: its answer says what holds
	if len(source.Outcomes) == 0 {
		source.Outcomes = outcomes
	}
	reply := amqp.Attach{
		SenderSettleMode: in.SenderSettleMode, ReceiverSettleMode: in.ReceiverSettleMode,
		Source: &source, Target: in.Target, Unsettled: unsettled,
	}
	if reply.Target == nil {
		reply.Target = &amqp.Target{}
	}
	if err := k.link.Accept(reply); err != nil {
		c.detach(k.link, amqp.Error{Condition: amqp.ErrCondInternalError, Description: err.Error()})
		return
	}
	c.ready1(k)
	c.touch(k)
	c.wakeBy(c.now.Add(watchTick))
}

// resume makes the unsettled map of the answer, and queues the deliveries that both sides have: each goes on by a
// transfer without payload, which gives it a delivery-id of this session (wire.md).
func (k *consumer) resume(detail *command.LinkOpened, asked bool) []amqp.Unsettled {
	if !asked || k.s.id.IsZero() {
		return nil
	}
	list := []amqp.Unsettled{}
	for i := range detail.Resumed {
		r := &detail.Resumed[i]
		u := amqp.Unsettled{Tag: appendTag(nil, r.Incarnation, r.Ref)}
		switch r.State {
		case command.StillHeld:
			k.queue.push(handed{ref: r.Ref, inc: r.Incarnation, resumed: true})
		case command.WasAccepted:
			u.State = accepted
		case command.WasReturned:
			u.State = &amqp.Released{}
		default: // lost: absent
			continue
		}
		list = append(list, u)
	}
	return list
}

// tagSize is the length of our delivery-tags: incarnation ‖ message ‖ attempt, big-endian (wire.md).
const tagSize = 20

func appendTag(dst []byte, inc command.Incarnation, ref command.DeliveryRef) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(inc))
	dst = binary.BigEndian.AppendUint64(dst, ref.Message)
	return binary.BigEndian.AppendUint32(dst, ref.Attempt)
}

func parseTag(tag []byte) (u command.Unsettled, ok bool) {
	if len(tag) != tagSize {
		return u, false
	}
	u.Incarnation = command.Incarnation(binary.BigEndian.Uint64(tag))
	u.Ref.Message = binary.BigEndian.Uint64(tag[8:])
	u.Ref.Attempt = binary.BigEndian.Uint32(tag[16:])
	return u, true
}

// inState says that the state has the link.
func (k *consumer) inState() bool { return !k.gone && k.cursor == nil }

// unwritten appends what was handed out and can't have been seen.
func (k *consumer) unwritten(refs []command.DeliveryRef) []command.DeliveryRef {
	for _, o := range k.sending {
		if !o.d.Written() && !o.h.resumed {
			refs = append(refs, o.h.ref)
		}
	}
	for i := k.queue.head; i < len(k.queue.items); i++ {
		if h := &k.queue.items[i]; !h.resumed {
			refs = append(refs, h.ref)
		}
	}
	return refs
}

// endConsumer ends a receiving link. Detached without closed, its deliveries stay until they are settled or the session
// ends (amqp.md 0.7); a second call with closed ends that.
func (c *Conn) endConsumer(k *consumer, closed bool) {
	closed = closed || k.dynamic // with its queue goes all that could be settled
	if k.over || k.detached && !closed {
		return
	}
	if k.cursor != nil {
		closed = true // nothing of it can be settled later
		c.endBrowser(k)
	}
	if k.inState() && k.num != 0 {
		end := command.LinkEnd{
			Conn: c.id, Link: k.num, Closed: closed, Terminus: closed && k.closed, Received: k.received, Unwritten: k.unwritten(nil), Enlisted: c.enlisted(k),
		}
		c.reportWritten()
		c.gather(&end)
	}
	k.detached = true
	k.queue, k.sending, k.queueBytes, k.sendingBytes = queue{}, nil, 0, 0
	if k.drain.on {
		c.due--
	}
	k.drain.on = false
	if closed {
		k.over = true
		delete(c.consumers, k.num)
	}
}
