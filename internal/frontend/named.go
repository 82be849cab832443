package frontend

import (
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// nameTx takes the send of "token/n" or "token/n/operations" to $oncemq.tx: it names its transaction (C4), and nothing is
// stored. Whether n was used before is seen when the transaction is decided.
func (c *Conn) nameTx(t *tx, s *amqp.Sections) *amqp.Error {
	text, ok := textOf(s)
	if !ok {
		return refuse(amqp.ErrCondInvalidField, "the body is not a string")
	}
	name, operations, err := command.ParseTokenTx(text)
	switch {
	case err != nil:
		return refuse(amqp.ErrCondInvalidField, err.Error())
	case t.tagged:
		return refuse(amqp.ErrCondNotAllowed, "this transaction has its identity by itself")
	case t.named:
		return refuse(amqp.ErrCondNotAllowed, "the transaction is named already")
	}
	t.name, t.named, t.operations = name, true, operations
	return nil
}

// textOf is the body's text: an amqp-value string, or data of one piece.
func textOf(s *amqp.Sections) (string, bool) {
	switch s.BodyKind {
	case amqp.BodyValue:
		v, err := s.Value(amqp.Limits{})
		text, ok := v.(string)
		return text, ok && err == nil
	case amqp.BodyData:
		data := s.Data(nil)
		if len(data) == 1 {
			return string(data[0]), true
		}
	case amqp.BodyNone, amqp.BodySequence:
	}
	return "", false
}
