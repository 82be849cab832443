package frontend

import (
	"strings"

	"github.com/oncemq/oncemq/internal/amqp"
)

// quirks are what a client product needs otherwise than the specification says. They are told apart in quirksOf and
// nowhere else.
type quirks struct {
	// invertedRollback: a discharge rejected with amqp:transaction:rollback is taken for "in doubt", with any other condition
	// for rolled back (Qpid JMS since QPIDJMS-467, amqp.md 0.3).
	invertedRollback bool
	// followsRedirect: after Close(amqp:connection:redirect) it connects to the named node, and to the others where that fails (amqp.md 1.2).
	// Most clients take it for the end: rhea, for one, connects again after amqp:connection:forced alone.
	followsRedirect bool
	// resends: behind a lost connection it attaches its sender links anew under their names, which begin so, and says a send that has no answer
	// again, under the same message-id, which it gives to no other message (amqp.md 2). Empty: it doesn't.
	resends string
}

// quirksOf finds a client's quirks by the product in its Open.
func quirksOf(properties amqp.Map) quirks {
	v, _ := properties.Lookup(string(amqp.PropProduct))
	product, _ := v.(string)
	switch product {
	case "QpidJMS":
		return quirks{invertedRollback: true, followsRedirect: true, resends: "qpid-jms:sender:"}
	}
	return quirks{}
}

// resendsOver says whether the client says sends again over a sender link of that name, once it has attached that anew (C9).
func (q quirks) resendsOver(link string) bool {
	return q.resends != "" && strings.HasPrefix(link, q.resends)
}

// rollback is the condition that says "rolled back" to the client.
func (q quirks) rollback() amqp.Symbol {
	if q.invertedRollback {
		return amqp.ErrCondRolledBack
	}
	return amqp.ErrCondTransactionRollback
}
