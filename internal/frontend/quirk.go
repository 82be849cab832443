package frontend

import "github.com/oncemq/oncemq/internal/amqp"

// quirks are what a client product needs otherwise than the specification says. They are told apart in quirksOf and
// nowhere else.
type quirks struct {
	// invertedRollback: a discharge rejected with amqp:transaction:rollback is taken for "in doubt", with any other condition
	// for rolled back (Qpid JMS since QPIDJMS-467, amqp.md 0.3).
	invertedRollback bool
	// followsRedirect: after Close(amqp:connection:redirect) it connects to the named node, and to the others where that fails (amqp.md 1.2).
	// Most clients take it for the end: rhea, for one, connects again after amqp:connection:forced alone.
	followsRedirect bool
}

// quirksOf finds a client's quirks by the product in its Open.
func quirksOf(properties amqp.Map) quirks {
	v, _ := properties.Lookup(string(amqp.PropProduct))
	product, _ := v.(string)
	switch product {
	case "QpidJMS":
		return quirks{invertedRollback: true, followsRedirect: true}
	}
	return quirks{}
}

// rollback is the condition that says "rolled back" to the client.
func (q quirks) rollback() amqp.Symbol {
	if q.invertedRollback {
		return amqp.ErrCondRolledBack
	}
	return amqp.ErrCondTransactionRollback
}
