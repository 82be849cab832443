package frontend

import (
	"strings"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// prefixes say in an address what it is; they are no part of its name. They are those of JMS destinations' URIs, STOMP, and the brokers that
// people come from.
var prefixes = []struct {
	text    string
	routing command.Routing
}{
	{"queue://", command.Anycast},
	{"topic://", command.Multicast},
	{"/queue/", command.Anycast},
	{"/topic/", command.Multicast},
	{"jms.queue.", command.Anycast},
	{"jms.topic.", command.Multicast},
}

// plain is an address without its prefix, and what that says.
func plain(address string) (name string, routing command.Routing) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(address, p.text); ok {
			return rest, p.routing
		}
	}
	return address, command.AnyRouting
}

// place is what a terminus says of where it is: by the prefix of its address, and by a capability, which is how JMS clients say it.
func place(address string, capabilities []amqp.Symbol) (name string, routing command.Routing, refused *amqp.Error) {
	name, routing = plain(address)
	for _, s := range capabilities {
		said := command.AnyRouting
		switch s {
		case amqp.CapQueue:
			said = command.Anycast
		case amqp.CapTopic:
			said = command.Multicast
		}
		if said != command.AnyRouting && routing != command.AnyRouting && said != routing {
			return "", 0, refuse(amqp.ErrCondInvalidField, "the address or another capability says "+routing.String()+", the capability "+string(s)+" something else")
		}
		if said != command.AnyRouting {
			routing = said
		}
	}
	return name, routing, nil
}

// subscription is which one a receiver asks for, should its address be a topic (amqp.md 1.4): a durable one by a terminus that never expires, under its
// link's name; of a shared one's links each has its own behind a bar.
func subscription(name string, source *amqp.Source, noLocal bool) command.Subscription {
	s := command.Subscription{
		Durable: source.Durable != amqp.DurabilityNone && source.ExpiryPolicy == amqp.ExpiryNever,
		Shared:  symbolIn(source.Capabilities, amqp.CapShared),
		NoLocal: noLocal,
	}
	if !s.Named() {
		return s
	}
	s.Name = name
	if s.Shared {
		s.Global = symbolIn(source.Capabilities, amqp.CapGlobal)
		s.Name, _, _ = strings.Cut(name, "|")
	}
	return s
}

// find is the subscription that an attach without a source asks about: JMS ends it so. Its capabilities are the link's.
func find(a *amqp.Attach) command.Subscription {
	s := command.Subscription{Durable: true, Name: a.Name}
	s.Shared, s.Global = symbolIn(a.DesiredCapabilities, amqp.CapShared), symbolIn(a.DesiredCapabilities, amqp.CapGlobal)
	if s.Shared {
		s.Name, _, _ = strings.Cut(a.Name, "|")
	}
	return s
}

// found is the source of a subscription that was asked about.
func found(d *command.LinkOpened) amqp.Source {
	source := amqp.Source{
		Address: amqp.Some(d.Address), Durable: amqp.DurabilityUnsettledState, ExpiryPolicy: amqp.ExpiryNever, DistributionMode: amqp.DistributionCopy,
		Capabilities: []amqp.Symbol{amqp.CapTopic},
	}
	if d.Subscription.Shared {
		source.Capabilities = append(source.Capabilities, amqp.CapShared)
	}
	if d.Subscription.Global {
		source.Capabilities = append(source.Capabilities, amqp.CapGlobal)
	}
	return source
}
