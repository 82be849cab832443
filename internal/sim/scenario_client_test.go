package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// person is a Go client with one session, which does what a story tells it to.
type person struct {
	*goClient
	stage     *stage
	name      string
	senders   map[string]*client.Sender
	receivers map[string]*client.Receiver
	number    int // of transactions
}

// person starts a Go client that goes to the node first, and waits until its session is open.
func (s *stage) person(name string, at *node) *person {
	p := s.stranger(name, at)
	s.until(name+" has a session", func() bool { return p.s.ID() != client.SessionID{} })
	return p
}

// stranger starts one and doesn't wait.
func (s *stage) stranger(name string, at *node) *person {
	p := &person{stage: s, name: name, senders: map[string]*client.Sender{}, receivers: map[string]*client.Receiver{}}
	s.world.home = at.id
	p.goClient = s.newGoClient(name, false, func() {})
	s.people = append(s.people, p)
	return p
}

// at is the node that the client's socket goes to, nil for none.
func (p *person) at() *node {
	if p.a.sock == nil {
		return nil
	}
	return p.a.sock.node
}

func (p *person) sender(queue string) *client.Sender {
	if p.senders[queue] == nil {
		p.senders[queue] = p.s.NewSender(queue, "")
	}
	return p.senders[queue]
}

// listen attaches a receiver; prefetch is how many messages it holds at a time.
func (p *person) listen(queue string, prefetch int) *client.Receiver {
	if p.receivers[queue] == nil {
		r := p.s.NewReceiver(queue, "", prefetch)
		p.k.available[r] = func() {}
		p.receivers[queue] = r
		p.a.pump()
	}
	return p.receivers[queue]
}

// sending is a plain send and what its client knows of it.
type sending struct {
	m *message
	x *client.Send
}

// send sends a message.
func (p *person) send(queue string) *sending { return p.sendOf(queue, 0) }

// sendOf sends a message that is that large, and more.
func (p *person) sendOf(queue string, size int) *sending {
	m := p.w.newMessage(queue)
	p.w.say("%s sends %s to queue %s", p.name, m.id, queue)
	return p.hand(p.sender(queue), m, padded(m, size))
}

// hand gives a message to a sender, and notes what the client is told of it.
func (p *person) hand(snd *client.Sender, m *message, payload []byte) *sending {
	m.producer, m.n, m.begun = p.name, len(p.w.history.list), true
	x := &sending{m: m, x: snd.Send(payload)}
	p.k.then(&x.x.Op, func() {
		switch err := x.x.Err(); {
		case err == nil:
			m.sent = done
			p.w.say("%s is told: %s is stored", p.name, m.id)
		case !errors.Is(err, client.ErrUnknown):
			m.sent = undone
			p.w.say("%s is told: %s is refused", p.name, m.id)
		default:
			p.w.say("%s is told: whether %s is stored is unknown", p.name, m.id)
		}
	})
	p.a.pump()
	return x
}

// stores sends a message and waits for the answer.
func (p *person) stores(queue string) *message {
	x := p.send(queue)
	p.stage.until(x.m.id+" is stored", x.x.Done)
	return x.m
}

// padded is a message on the wire of about that size.
func padded(m *message, size int) []byte {
	var b []byte
	if size > 0 {
		b = amqp.AppendApplicationProperties(nil, amqp.Map{{Key: "padding", Value: make([]byte, size)}})
	}
	return append(b, m.payload()...)
}

// taking is a delivery in a client's hands.
type taking struct {
	m    *message
	d    *client.Delivery
	x    *client.Settlement
	told bool
	err  error
}

// take waits until a message has come, and takes it into the hand.
func (p *person) take(queue string) *taking {
	var t *taking
	r := p.listen(queue, 1)
	p.stage.within(100*time.Second, p.name+" gets a message of queue "+queue, func() bool {
		if t == nil {
			if t = p.got(r, queue); t == nil {
				p.a.pump()
			}
		}
		return t != nil
	})
	return t
}

// got is a message that is there, or nil.
func (p *person) got(r *client.Receiver, queue string) *taking {
	d := r.Take()
	if d == nil {
		return nil
	}
	m := p.w.delivered(p.name, queue, d.Payload)
	p.w.say("%s gets %s, hand-out %d", p.name, m.id, d.Attempt())
	p.a.pump()
	return &taking{m: m, d: d}
}

// accept settles a message by itself, and doesn't wait.
func (p *person) accept(t *taking) {
	p.w.say("%s accepts %s", p.name, t.m.id)
	h := &holding{m: t.m}
	t.m.settles = append(t.m.settles, h)
	t.x = t.d.Settle(&amqp.Accepted{})
	p.k.then(&t.x.Op, func() {
		t.told, t.err = true, t.x.Err()
		switch {
		case t.err == nil:
			h.took = done
			p.w.say("%s is told: %s is consumed", p.name, t.m.id)
		case errors.Is(t.err, client.ErrDeliveryLost):
			h.took = undone
			p.w.say("%s is told: %s was lost to it", p.name, t.m.id)
		default:
			p.w.say("%s is told: %v", p.name, t.err)
		}
	})
	p.a.pump()
}

// consumes takes a message, accepts it and waits for the answer.
func (p *person) consumes(queue string) *message {
	t := p.take(queue)
	p.accept(t)
	p.stage.until(t.m.id+" is consumed", func() bool { return t.told })
	return t.m
}

// deal is a transaction in a client's hands.
type deal struct {
	p  *person
	tx *client.Tx
	t  *txn

	gaveUp bool // nobody waits for the answer to its commit any more
}

// begin begins a transaction.
func (p *person) begin() *deal {
	tx, err := p.s.Begin()
	if err != nil {
		p.stage.stop("%s can't begin: %v", p.name, err)
	}
	p.number++
	d := &deal{p: p, tx: tx, t: p.w.newTx(fmt.Sprintf("%s/%d", p.name, p.number))}
	d.t.id, d.t.named = tx.ID(), true
	return d
}

// settle accepts a message in the transaction.
func (d *deal) settle(t *taking) {
	d.p.w.say("%s accepts %s in transaction %s", d.p.name, t.m.id, d.t.name)
	h := &holding{m: t.m, tx: d.t}
	t.m.settles, d.t.settles = append(t.m.settles, h), append(d.t.settles, h)
	if err := d.tx.Settle(t.d, &amqp.Accepted{}); err != nil {
		d.p.stage.stop("%s can't enlist %s: %v", d.p.name, t.m.id, err)
	}
	d.p.a.pump()
}

// send sends a message in the transaction.
func (d *deal) send(queue string) *message {
	m := d.p.w.newMessage(queue)
	d.p.w.say("%s sends %s to queue %s in transaction %s", d.p.name, m.id, queue, d.t.name)
	m.tx, d.t.sends = d.t, append(d.t.sends, m)
	if _, err := d.tx.Send(d.p.sender(queue), m.payload()); err != nil {
		d.p.stage.stop("%s can't send: %v", d.p.name, err)
	}
	d.p.a.pump()
	return m
}

// commit asks for the commit, and doesn't wait.
func (d *deal) commit() {
	d.p.w.say("%s asks for the commit of %s", d.p.name, d.t.name)
	d.t.asked = true
	for _, m := range d.t.sends {
		m.begun = true
	}
	d.tx.Commit()
	d.p.k.then(&d.tx.Op, func() {
		if !d.gaveUp {
			d.told(d.tx.Result())
		}
	})
	d.p.a.pump()
}

func (d *deal) told(outcome client.TxOutcome, reason error) {
	because := ""
	if reason != nil {
		because = fmt.Sprintf(" (%v)", reason)
	}
	switch outcome {
	case client.TxCommitted:
		d.p.w.say("%s is told: %s is committed", d.p.name, d.t.name)
		d.t.decide(d.p.w, done, d.p.name)
	case client.TxRolledBack:
		d.p.w.say("%s is told: %s is rolled back%s", d.p.name, d.t.name, because)
		d.t.decide(d.p.w, undone, d.p.name)
	case client.TxUnknown:
		d.p.w.say("%s is told: whether %s is committed is unknown%s", d.p.name, d.t.name, because)
	}
}

// committed waits for the answer, which must be yes.
func (d *deal) committed() {
	d.p.stage.until("the outcome of "+d.t.name+" is known", d.tx.Done)
	outcome, reason := d.tx.Outcome()
	d.p.stage.must(outcome == client.TxCommitted, "%s is %v (%v), not committed", d.t.name, outcome, reason)
}

// rolledBack waits for the answer, which must be no.
func (d *deal) rolledBack() {
	d.p.stage.until("the outcome of "+d.t.name+" is known", d.tx.Done)
	outcome, reason := d.tx.Outcome()
	d.p.stage.must(outcome == client.TxRolledBack, "%s is %v (%v), not rolled back", d.t.name, outcome, reason)
}

// ask asks the log for a transaction's outcome, as another process; decide decides an undecided one first.
func (p *person) ask(id client.TxID, name string, decide bool) string {
	q := &client.Query{ID: id, Decide: decide}
	p.k.c.Ask(q)
	p.a.pump()
	p.stage.until(p.name+" has an answer", q.Done)
	p.w.say("%s asks the log for %s: %s", p.name, name, q.State)
	if q.Err() != nil {
		p.stage.stop("%s asks for %s: %v", p.name, name, q.Err())
	}
	return q.State
}
