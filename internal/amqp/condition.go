package amqp

// Error conditions for everything (2.8.15).
const (
	ErrCondInternalError         Symbol = "amqp:internal-error"
	ErrCondNotFound              Symbol = "amqp:not-found"
	ErrCondUnauthorizedAccess    Symbol = "amqp:unauthorized-access"
	ErrCondDecodeError           Symbol = "amqp:decode-error"
	ErrCondResourceLimitExceeded Symbol = "amqp:resource-limit-exceeded"
	ErrCondNotAllowed            Symbol = "amqp:not-allowed"
	ErrCondInvalidField          Symbol = "amqp:invalid-field"
	ErrCondNotImplemented        Symbol = "amqp:not-implemented"
	ErrCondResourceLocked        Symbol = "amqp:resource-locked"
	ErrCondPreconditionFailed    Symbol = "amqp:precondition-failed"
	ErrCondResourceDeleted       Symbol = "amqp:resource-deleted"
	ErrCondIllegalState          Symbol = "amqp:illegal-state"
	ErrCondFrameSizeTooSmall     Symbol = "amqp:frame-size-too-small"
)

// Error conditions of a connection (2.8.16).
const (
	ErrCondConnectionForced   Symbol = "amqp:connection:forced"
	ErrCondFramingError       Symbol = "amqp:connection:framing-error"
	ErrCondConnectionRedirect Symbol = "amqp:connection:redirect"
)

// Error conditions of a session (2.8.17).
const (
	ErrCondWindowViolation  Symbol = "amqp:session:window-violation"
	ErrCondErrantLink       Symbol = "amqp:session:errant-link"
	ErrCondHandleInUse      Symbol = "amqp:session:handle-in-use"
	ErrCondUnattachedHandle Symbol = "amqp:session:unattached-handle"
)

// Error conditions of a link (2.8.18).
const (
	ErrCondDetachForced          Symbol = "amqp:link:detach-forced"
	ErrCondTransferLimitExceeded Symbol = "amqp:link:transfer-limit-exceeded"
	ErrCondMessageSizeExceeded   Symbol = "amqp:link:message-size-exceeded"
	ErrCondLinkRedirect          Symbol = "amqp:link:redirect"
	ErrCondStolen                Symbol = "amqp:link:stolen"
)

// Error conditions of transactions (4.5.8); the last is ours: the transaction of that number is already decided.
const (
	ErrCondTransactionUnknownID Symbol = "amqp:transaction:unknown-id"
	ErrCondTransactionRollback  Symbol = "amqp:transaction:rollback"
	ErrCondTransactionTimeout   Symbol = "amqp:transaction:timeout"
	ErrCondTransactionDecided   Symbol = "oncemq:transaction:decided"
)

// Conditions of ours: a delivery that a receiver accepted had gone elsewhere; a rollback as Qpid JMS has to be told it
// (amqp.md 0.3); an End that asks to keep the session's outcomes.
const (
	ErrCondDeliveryLost    Symbol = "oncemq:delivery:lost"
	ErrCondRolledBack      Symbol = "oncemq:transaction:rolled-back"
	ErrCondOutcomesUnknown Symbol = "oncemq:outcomes-unknown"
)

// Transaction capabilities of a coordinator (4.5.7).
const (
	CapLocalTransactions       Symbol = "amqp:local-transactions"
	CapDistributedTransactions Symbol = "amqp:distributed-transactions"
	CapPromotableTransactions  Symbol = "amqp:promotable-transactions"
	CapMultiTxnsPerSession     Symbol = "amqp:multi-txns-per-ssn"
	CapMultiSessionsPerTxn     Symbol = "amqp:multi-ssns-per-txn"
)

// Capabilities that clients ask for in Open or Attach.
const (
	CapAnonymousRelay  Symbol = "ANONYMOUS-RELAY"
	CapDelayedDelivery Symbol = "DELAYED_DELIVERY"
	CapSharedSubs      Symbol = "SHARED-SUBS"
	CapSoleConnection  Symbol = "sole-connection-for-container"
	CapQueue           Symbol = "queue"
	CapTopic           Symbol = "topic"
	CapTemporaryQueue  Symbol = "temporary-queue"
	CapTemporaryTopic  Symbol = "temporary-topic"
	CapShared          Symbol = "shared"
	CapGlobal          Symbol = "global"
)

// Our own capabilities: resumable sessions (Begin), named transactions (coordinator), numbered sends (Attach).
const (
	CapOncemqSession  Symbol = "oncemq:session-1"
	CapOncemqTx       Symbol = "oncemq:tx-1"
	CapOncemqNumbered Symbol = "oncemq:numbered-1"
	// CapOncemqClient is asked for in Open: a client that can resume and is told that we live while an answer is due.
	CapOncemqClient Symbol = "oncemq:client-1"
)

// Keys of Begin.Properties in resumable sessions.
const (
	PropSession    Symbol = "oncemq:session"
	PropNonce      Symbol = "oncemq:nonce"
	PropResumed    Symbol = "oncemq:resumed"
	PropLastNumber Symbol = "oncemq:last-number"
	// PropRollback asks for OnFailover Rollback. PropAttempt stands in Open.Properties, beside PropNonce.
	PropRollback Symbol = "oncemq:rollback"
	PropAttempt  Symbol = "oncemq:attempt"
)

// Keys of the message annotations on declare and discharge.
const (
	AnnotationNumber     Symbol = "x-opt-oncemq-number"
	AnnotationKnown      Symbol = "x-opt-oncemq-known"
	AnnotationUnknown    Symbol = "x-opt-oncemq-unknown"
	AnnotationOperations Symbol = "x-opt-oncemq-operations"
)

// Keys of Open.Properties and of error infos.
const (
	PropProduct                     Symbol = "product"
	PropVersion                     Symbol = "version"
	PropPlatform                    Symbol = "platform"
	PropQueuePrefix                 Symbol = "queue-prefix"
	PropTopicPrefix                 Symbol = "topic-prefix"
	PropConnectionEstablishmentFail Symbol = "amqp:connection-establishment-failed"
	PropFailoverServerList          Symbol = "failover-server-list"
	InfoInvalidField                Symbol = "invalid-field"
	InfoContainerID                 Symbol = "container-id"
	InfoNetworkHost                 Symbol = "network-host"
	InfoPort                        Symbol = "port"
	InfoHostname                    Symbol = "hostname"
	InfoScheme                      Symbol = "scheme"
	InfoPath                        Symbol = "path"
	InfoOutcome                     Symbol = "outcome"
	InfoReason                      Symbol = "reason"
	InfoDeliveryTag                 Symbol = "delivery-tag"
)

// Filters: the numeric and the symbolic descriptors that clients use for the same thing.
const (
	FilterSelectorCode uint64 = 0x0000468C00000004
	FilterNoLocalCode  uint64 = 0x0000468C00000003
	FilterSelector     Symbol = "apache.org:selector-filter:string"
	FilterNoLocal      Symbol = "apache.org:no-local-filter:list"
	FilterKeyJMS       Symbol = "jms-selector"
)
