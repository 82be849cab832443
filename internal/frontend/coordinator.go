package frontend

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// controlCredit is what a coordinator link has at most: Qpid JMS pipelines two, others more.
const controlCredit = 200

// coordinator is a client's control link (AMQP 4.2).
type coordinator struct {
	s    *session
	link *engine.Link
	// tagged: the link has oncemq:tx-1, and its transactions live with their session instead of with the link.
	tagged bool
	over   bool
}

// attachCoordinator answers at once: there is nothing to ask the log. Capabilities are those that are real (T1).
func (c *Conn) attachCoordinator(s *session, l *engine.Link, a *amqp.Attach) *amqp.Error {
	k := &coordinator{s: s, link: l}
	caps := []amqp.Symbol{amqp.CapLocalTransactions, amqp.CapMultiTxnsPerSession, amqp.CapMultiSessionsPerTxn}
	if !s.id.IsZero() && symbolIn(a.Coordinator.Capabilities, amqp.CapOncemqTx) || !s.id.IsZero() && symbolIn(a.DesiredCapabilities, amqp.CapOncemqTx) {
		k.tagged = true
		caps = append(caps, amqp.CapOncemqTx)
	}
	l.Data = k
	reply := amqp.Attach{
		SenderSettleMode: a.SenderSettleMode, ReceiverSettleMode: a.ReceiverSettleMode,
		Source: a.Source, Coordinator: &amqp.Coordinator{Capabilities: caps},
	}
	if k.tagged {
		reply.OfferedCapabilities = []amqp.Symbol{amqp.CapOncemqTx}
	}
	if reply.Source == nil {
		reply.Source = &amqp.Source{}
	}
	if err := l.Accept(reply); err != nil {
		return refuse(amqp.ErrCondInternalError, err.Error())
	}
	_ = l.SetCredit(controlCredit, false)
	return nil
}

// onControl takes a declare or a discharge (T2: unsettled, one amqp-value; other sections are ignored).
func (c *Conn) onControl(k *coordinator, d *engine.Delivery) {
	if k.over {
		return
	}
	if k.link.Credit() <= controlCredit/2 {
		_ = k.link.SetCredit(controlCredit, false)
	}
	if d.Settled {
		c.detach(k.link, *refuse(amqp.ErrCondNotAllowed, "declare and discharge are sent unsettled"))
		return
	}
	if _, transacted := d.State.(*amqp.TransactionalState); transacted {
		c.reject(k, d, refuse(amqp.ErrCondNotAllowed, "no transactional work on a control link"))
		return
	}
	sections, err := parse(d)
	if err != nil {
		c.reject(k, d, err)
		return
	}
	value, fault := sections.Value(amqp.Limits{})
	if fault != nil {
		c.reject(k, d, refuse(amqp.ErrCondDecodeError, fault.Error()))
		return
	}
	notes, fault := amqp.DecodeMessageAnnotations(sections.MessageAnnotations, amqp.Limits{})
	if fault != nil {
		c.reject(k, d, refuse(amqp.ErrCondDecodeError, fault.Error()))
		return
	}
	switch x := value.(type) {
	case *amqp.Declare:
		c.onDeclare(k, d, x, notes)
	case *amqp.Discharge:
		c.onDischarge(k, d, x, notes)
	case *amqp.Prepare:
		c.reject(k, d, notImplemented("prepare"))
	default:
		c.reject(k, d, refuse(amqp.ErrCondInvalidField, "a coordinator takes declare and discharge"))
	}
}

// reject is the transaction error of T4: rejected where the link's source knows that, else Detach with the error.
func (c *Conn) reject(k *coordinator, d *engine.Delivery, err *amqp.Error) {
	if k.over {
		return
	}
	if !takesRejected(k.link.Remote().Source) {
		c.detach(k.link, *err)
		return
	}
	d.Dispose(&amqp.Rejected{Error: err}, true)
}

// terminate ends a control link with amqp:transaction:rollback (T10, T14), and with it its untagged transactions.
func (c *Conn) terminate(k *coordinator, why string) {
	if k != nil && !k.over {
		c.detach(k.link, *refuse(amqp.ErrCondTransactionRollback, why))
	}
}

// knownOf reads which outcomes the client knows (C2): x-opt-oncemq-known and -unknown.
func knownOf(notes amqp.Map) (known command.Known, ok bool) {
	v, ok := notes.Lookup(string(amqp.AnnotationKnown))
	if !ok {
		return known, false
	}
	known.Through, _ = unsigned(v)
	v, _ = notes.Lookup(string(amqp.AnnotationUnknown))
	var items []any
	switch x := v.(type) {
	case amqp.Array:
		items = x.Items
	case *amqp.Array:
		items = x.Items
	case amqp.List:
		items = x
	case nil:
	default:
		items = []any{x}
	}
	for _, it := range items {
		if n, fine := unsigned(it); fine {
			known.Unknown = append(known.Unknown, n)
		}
	}
	slices.Sort(known.Unknown)
	known.Unknown = slices.Compact(known.Unknown)
	if len(known.Unknown) > command.MaxUnknown {
		// What can't be named mustn't be taken for known: then nothing above the last that can.
		known.Through = min(known.Through, known.Unknown[command.MaxUnknown]-1)
		known.Unknown = known.Unknown[:command.MaxUnknown]
	}
	return known, true
}
