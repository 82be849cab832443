package amqp

// Role is the end of a link that sends a frame: the receiver is true on the wire (2.8.1).
type Role bool

// The two roles.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// String is "sender" or "receiver".
func (r Role) String() string {
	if r == RoleReceiver {
		return "receiver"
	}
	return "sender"
}

// SenderSettleMode is the settlement policy of a sender (2.8.2). The specification's default is SenderSettleMixed, which is
// not the zero value.
type SenderSettleMode uint8

// The sender settle modes.
const (
	SenderSettleUnsettled SenderSettleMode = 0
	SenderSettleSettled   SenderSettleMode = 1
	SenderSettleMixed     SenderSettleMode = 2
)

// ReceiverSettleMode is the settlement policy of a receiver (2.8.3); first is the default.
type ReceiverSettleMode uint8

// The receiver settle modes.
const (
	ReceiverSettleFirst  ReceiverSettleMode = 0
	ReceiverSettleSecond ReceiverSettleMode = 1
)

// TerminusDurability says what of a terminus outlives its link (3.5.5); none is the default.
type TerminusDurability uint32

// The terminus durabilities.
const (
	DurabilityNone           TerminusDurability = 0
	DurabilityConfiguration  TerminusDurability = 1
	DurabilityUnsettledState TerminusDurability = 2
)

// Expiry policies of a terminus (3.5.6). An empty policy is written as the default, session-end.
const (
	ExpiryLinkDetach      Symbol = "link-detach"
	ExpirySessionEnd      Symbol = "session-end"
	ExpiryConnectionClose Symbol = "connection-close"
	ExpiryNever           Symbol = "never"
)

// Distribution modes of a source (3.5.7).
const (
	DistributionMove Symbol = "move"
	DistributionCopy Symbol = "copy"
)

// The symbols that name outcomes in Source.Outcomes (3.5.3).
const (
	OutcomeAccepted Symbol = "amqp:accepted:list"
	OutcomeRejected Symbol = "amqp:rejected:list"
	OutcomeReleased Symbol = "amqp:released:list"
	OutcomeModified Symbol = "amqp:modified:list"
)

// SASLCode is the result in a SASLOutcome (5.3.3.6).
type SASLCode uint8

// The SASL codes. Qpid JMS stops its reconnection on every one but OK and SysTemp.
const (
	SASLCodeOK      SASLCode = 0
	SASLCodeAuth    SASLCode = 1
	SASLCodeSys     SASLCode = 2
	SASLCodeSysPerm SASLCode = 3
	SASLCodeSysTemp SASLCode = 4
)
