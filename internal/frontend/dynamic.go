package frontend

import (
	"strings"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// checkDynamic refuses the dynamic terminus that there is not, or that the user may not make: the right is asked for with the beginning of
// the names that the state makes. The one lifetime that is offered is delete-on-close, which holds also where none is asked for.
func (c *Conn) checkDynamic(address string, durable amqp.TerminusDurability, properties amqp.Map, capabilities []amqp.Symbol) *amqp.Error {
	switch {
	case address != "":
		return refuse(amqp.ErrCondInvalidField, "a dynamic terminus has no address: the broker makes it")
	case durable != amqp.DurabilityNone:
		return notImplemented("a dynamic node that is durable")
	}
	for _, s := range []amqp.Symbol{amqp.CapTopic, amqp.CapShared, amqp.CapGlobal} {
		if symbolIn(capabilities, s) {
			return notImplemented("a dynamic node with the capability " + string(s))
		}
	}
	if err := checkCapabilities(capabilities, command.TemporaryQueuePrefix); err != nil {
		return err
	}
	if v, _ := properties.Lookup(string(amqp.PropLifetimePolicy)); v != nil {
		switch policy, ok := amqp.LifetimePolicyOf(properties); {
		case !ok:
			return refuse(amqp.ErrCondInvalidField, "the lifetime-policy of the dynamic node is none of AMQP's four")
		case policy != amqp.DeleteOnClose:
			return notImplemented("a lifetime-policy of a dynamic node other than delete-on-close")
		}
	}
	return c.allowed(RightCreate, command.TemporaryQueuePrefix)
}

// lifetime are the properties of every dynamic node.
func lifetime() amqp.Map { return amqp.Map{{Key: amqp.PropLifetimePolicy, Value: amqp.DeleteOnClose}} }

// dynamicQueue is what the state is asked to make for a terminus.
func dynamicQueue(dynamic bool) command.Dynamic {
	if dynamic {
		return command.DynamicQueue
	}
	return command.DynamicNone
}

// temporaryName says whether only the state makes such a name.
func temporaryName(address string) bool {
	return strings.HasPrefix(address, command.TemporaryQueuePrefix) || strings.HasPrefix(address, command.TemporaryTopicPrefix)
}
