package demo

import (
	"fmt"

	"github.com/oncemq/oncemq"
)

// The queues of the workload.
const (
	ordersQueue   = "orders"
	debitQueue    = "ledger.debit"
	creditQueue   = "ledger.credit"
	receiptsQueue = "receipts"
)

var allQueues = []string{ordersQueue, debitQueue, creditQueue, receiptsQueue}

// record is what any message of the workload carries: orders and ledger entries have
// no worker and receipt number.
type record struct {
	id              OrderID
	amount          int64
	worker, receipt int
}

// message writes the record as text, so that a person who looks into a queue can read it.
func (r record) message() *oncemq.Message {
	return oncemq.NewMessage(fmt.Appendf(nil, "producer %d number %d amount %d worker %d receipt %d",
		r.id.Producer, r.id.Number, r.amount, r.worker, r.receipt))
}

// readRecord reads what message wrote.
func readRecord(m *oncemq.Message) (record, error) {
	var r record
	_, err := fmt.Sscanf(string(m.Data), "producer %d number %d amount %d worker %d receipt %d",
		&r.id.Producer, &r.id.Number, &r.amount, &r.worker, &r.receipt)
	if err != nil {
		return record{}, fmt.Errorf("reading a message of the workload %.100q: %w", m.Data, err)
	}
	return r, nil
}
