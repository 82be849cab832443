package amqp

// The numeric descriptors of the specification; domain 0 throughout.
const (
	codeOpen                      = 0x10
	codeBegin                     = 0x11
	codeAttach                    = 0x12
	codeFlow                      = 0x13
	codeTransfer                  = 0x14
	codeDisposition               = 0x15
	codeDetach                    = 0x16
	codeEnd                       = 0x17
	codeClose                     = 0x18
	codeError                     = 0x1d
	codeReceived                  = 0x23
	codeAccepted                  = 0x24
	codeRejected                  = 0x25
	codeReleased                  = 0x26
	codeModified                  = 0x27
	codeSource                    = 0x28
	codeTarget                    = 0x29
	codeDeleteOnClose             = 0x2b
	codeDeleteOnNoLinks           = 0x2c
	codeDeleteOnNoMessages        = 0x2d
	codeDeleteOnNoLinksOrMessages = 0x2e
	codeCoordinator               = 0x30
	codeDeclare                   = 0x31
	codeDischarge                 = 0x32
	codeDeclared                  = 0x33
	codeTransactionalState        = 0x34
	codeSASLMechanisms            = 0x40
	codeSASLInit                  = 0x41
	codeSASLChallenge             = 0x42
	codeSASLResponse              = 0x43
	codeSASLOutcome               = 0x44
	codeHeader                    = 0x70
	codeDeliveryAnnotations       = 0x71
	codeMessageAnnotations        = 0x72
	codeProperties                = 0x73
	codeApplicationProperties     = 0x74
	codeData                      = 0x75
	codeAMQPSequence              = 0x76
	codeAMQPValue                 = 0x77
	codeFooter                    = 0x78

	// codePrepare stands for symPrepare, which has no number of its own; it can't come from the wire (see descriptor).
	codePrepare = 1 << 63
	// codeUnknown is what any other descriptor is read as.
	codeUnknown = 1<<63 + 1
)

const symPrepare Symbol = "oncemq:prepare:list"

// codeOfSymbol maps symbolic descriptors, whole and never by prefix, to the numeric ones. Read only.
var codeOfSymbol = map[string]uint64{
	"amqp:open:list":                           codeOpen,
	"amqp:begin:list":                          codeBegin,
	"amqp:attach:list":                         codeAttach,
	"amqp:flow:list":                           codeFlow,
	"amqp:transfer:list":                       codeTransfer,
	"amqp:disposition:list":                    codeDisposition,
	"amqp:detach:list":                         codeDetach,
	"amqp:end:list":                            codeEnd,
	"amqp:close:list":                          codeClose,
	"amqp:error:list":                          codeError,
	"amqp:received:list":                       codeReceived,
	"amqp:accepted:list":                       codeAccepted,
	"amqp:rejected:list":                       codeRejected,
	"amqp:released:list":                       codeReleased,
	"amqp:modified:list":                       codeModified,
	"amqp:source:list":                         codeSource,
	"amqp:target:list":                         codeTarget,
	"amqp:delete-on-close:list":                codeDeleteOnClose,
	"amqp:delete-on-no-links:list":             codeDeleteOnNoLinks,
	"amqp:delete-on-no-messages:list":          codeDeleteOnNoMessages,
	"amqp:delete-on-no-links-or-messages:list": codeDeleteOnNoLinksOrMessages,
	"amqp:coordinator:list":                    codeCoordinator,
	"amqp:declare:list":                        codeDeclare,
	"amqp:discharge:list":                      codeDischarge,
	"amqp:declared:list":                       codeDeclared,
	"amqp:transactional-state:list":            codeTransactionalState,
	"amqp:sasl-mechanisms:list":                codeSASLMechanisms,
	"amqp:sasl-init:list":                      codeSASLInit,
	"amqp:sasl-challenge:list":                 codeSASLChallenge,
	"amqp:sasl-response:list":                  codeSASLResponse,
	"amqp:sasl-outcome:list":                   codeSASLOutcome,
	"amqp:header:list":                         codeHeader,
	"amqp:delivery-annotations:map":            codeDeliveryAnnotations,
	"amqp:message-annotations:map":             codeMessageAnnotations,
	"amqp:properties:list":                     codeProperties,
	"amqp:application-properties:map":          codeApplicationProperties,
	"amqp:data:binary":                         codeData,
	"amqp:amqp-sequence:list":                  codeAMQPSequence,
	"amqp:amqp-value:*":                        codeAMQPValue,
	"amqp:footer:map":                          codeFooter,
	string(symPrepare):                         codePrepare,
}
