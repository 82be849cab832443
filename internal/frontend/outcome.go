package frontend

import (
	"crypto/rand"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// question is a request on $oncemq.outcome. It is accepted once its reply is stored.
type question struct {
	producer    *producer
	delivery    *engine.Delivery // nil where it was sent settled
	replyTo     string
	correlation any
}

// onQuestion takes a request for an outcome or for a token (C3, C4). The reply is checked as the asker's own send.
func (c *Conn) onQuestion(p *producer, d *engine.Delivery, s *amqp.Sections, props *amqp.Properties) {
	replyTo, _ := plain(props.ReplyTo)
	err := checkAddress(replyTo)
	if replyTo == "" {
		err = refuse(amqp.ErrCondInvalidField, "a request has a reply-to")
	}
	if err == nil {
		err = c.allowed(RightSend, replyTo)
	}
	if err != nil {
		c.refuseSend(p, d, err)
		return
	}
	q := &question{producer: p, replyTo: replyTo, correlation: amqp.CloneValue(props.MessageID)}
	if !d.Settled {
		q.delivery = d
	}
	asked, fault := amqp.DecodeApplicationProperties(s.ApplicationProperties, amqp.Limits{})
	d.Payload = nil
	if fault != nil {
		c.replyError(q, amqp.ErrCondDecodeError, fault.Error())
		return
	}
	if v, _ := asked.Lookup("token"); v == true {
		open := command.TokenOpen{Conn: c.id}
		_, _ = rand.Read(open.Nonce[:])
		open.Request = c.expect(answer{kind: answerQuestion, question: q})
		c.gather(&open)
		return
	}
	v, _ := asked.Lookup("tx")
	id, ok := txIDOf(v)
	if !ok {
		c.replyError(q, amqp.ErrCondInvalidField, "tx is neither a binary of 24 bytes nor a string token/n, and token is not true")
		return
	}
	ask := command.Outcome{Conn: c.id, Tx: id, Decide: true}
	if v, ok := asked.Lookup("decide"); ok {
		ask.Decide, _ = v.(bool)
	}
	ask.Request = c.expect(answer{kind: answerQuestion, question: q})
	c.gather(&ask)
}

func txIDOf(v any) (id command.TxID, ok bool) {
	switch x := v.(type) {
	case []byte:
		return id, copy(id[:], x) == len(id) && len(x) == len(id)
	case string:
		id, _, err := command.ParseTokenTx(x)
		return id, err == nil
	}
	return id, false
}

// onOutcome answers a question, or a declare that had to ask.
func (c *Conn) onOutcome(e *command.Effect) {
	a, ok := c.take(e.Request, answerQuestion, answerDeclare)
	switch {
	case !ok:
	case a.kind == answerDeclare:
		c.onNumber(&a, e)
	case e.Refusal != nil:
		c.replyError(a.question, amqp.Symbol(e.Refusal.Condition), e.Refusal.Description)
	default:
		m := amqp.Map{{Key: "outcome", Value: e.Outcome.String()}, {Key: "reason", Value: e.Reason}}
		if e.Civil != 0 {
			m = append(m, amqp.Pair{Key: "decided-at", Value: amqp.Timestamp(e.Civil)})
		}
		c.reply(a.question, m, "")
	}
}

func (c *Conn) onTokenOpened(e *command.Effect) {
	a, ok := c.take(e.Request, answerQuestion)
	switch {
	case !ok:
	case e.Refusal != nil:
		c.replyError(a.question, amqp.Symbol(e.Refusal.Condition), e.Refusal.Description)
	default:
		c.reply(a.question, nil, e.Tx.Session().String())
	}
}

func (c *Conn) replyError(q *question, condition amqp.Symbol, description string) {
	c.reply(q, amqp.Map{{Key: "error", Value: string(condition)}, {Key: "description", Value: description}}, "")
}

// reply sends the answer to the asker's queue, as the asker's own send; a body only for a token.
func (c *Conn) reply(q *question, properties amqp.Map, body string) {
	m := amqp.AppendProperties(nil, &amqp.Properties{To: q.replyTo, CorrelationID: q.correlation})
	if len(properties) > 0 {
		m = amqp.AppendApplicationProperties(m, properties)
	}
	if body != "" {
		m = amqp.AppendAMQPValue(m, body)
	}
	c.make(q.replyTo, command.AnyRouting)
	send := command.Send{Conn: c.id, Link: q.producer.num, Address: q.replyTo, Message: m}
	send.Request = c.expect(answer{kind: answerReply, question: q})
	c.gather(&send)
}

// onReplied answers the request itself.
func (c *Conn) onReplied(q *question, refusal *command.Refusal) {
	if q.delivery == nil {
		return
	}
	if refusal != nil {
		err := amqpError(refusal)
		c.refuseSend(q.producer, q.delivery, &err)
		return
	}
	q.delivery.Dispose(accepted, !q.delivery.Second)
}
