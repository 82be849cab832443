package client

import "github.com/oncemq/oncemq/internal/amqp"

// Subscription is what a receiver reads of a topic (amqp.md 1.4).
type Subscription struct {
	// Name is that of a durable or shared one, unique in the client's container or, where it is Global, among all of the user's.
	Name string
	// Durable: it stays when its receivers go. Shared: its receivers get each message together once.
	Durable, Shared, Global bool
	// NoLocal: what connections of the container send isn't for it.
	NoLocal bool
}

// linkName is the link's: it is how a subscription is named; a shared one's links have more behind a bar.
func (x *Subscription) linkName(made string) string {
	switch {
	case x.Shared:
		return x.Name + "|" + made
	case x.Durable:
		return x.Name
	}
	return made
}

// ask makes the source say it.
func (x *Subscription) ask(source *amqp.Source) {
	source.DistributionMode = amqp.DistributionCopy
	source.Capabilities = append(source.Capabilities, amqp.CapTopic)
	if x.Shared {
		source.Capabilities = append(source.Capabilities, amqp.CapShared)
	}
	if x.Global {
		source.Capabilities = append(source.Capabilities, amqp.CapGlobal)
	}
	if x.Durable {
		source.Durable, source.ExpiryPolicy = amqp.DurabilityUnsettledState, amqp.ExpiryNever
	}
	if x.NoLocal {
		source.Filter = append(source.Filter, amqp.Pair{
			Key: amqp.FilterNoLocal, Value: &amqp.Described{Descriptor: amqp.FilterNoLocal, Value: amqp.List{}},
		})
	}
}

// ignored is what the broker's answer leaves out of what was asked for and decides which messages come.
func (r *Receiver) ignored(source *amqp.Source) string {
	honoured := 0
	if source != nil {
		honoured = len(source.Filter)
	}
	noLocal := r.subscription != nil && r.subscription.NoLocal
	switch {
	case r.selector != "" && noLocal && honoured < 2:
		return "selector or no-local"
	case r.selector != "" && honoured == 0:
		return "selector"
	case noLocal && honoured == 0:
		return "no-local"
	case r.subscription != nil && r.subscription.Durable && (source == nil || source.Durable == amqp.DurabilityNone):
		return "durable subscription"
	}
	return ""
}

// End closes the receiver, and its durable subscription with it, if no other reads that.
func (r *Receiver) End() {
	r.ends = true
	r.Close()
}
