package amqp

// knownSymbols saves an allocation for the symbols that clients send all the time. Read only.
var knownSymbols = symbolSet(
	OutcomeAccepted, OutcomeRejected, OutcomeReleased, OutcomeModified,
	ExpiryLinkDetach, ExpirySessionEnd, ExpiryConnectionClose, ExpiryNever, DistributionMove, DistributionCopy,
	CapLocalTransactions, CapMultiTxnsPerSession, CapMultiSessionsPerTxn,
	CapAnonymousRelay, CapDelayedDelivery, CapSharedSubs, CapSoleConnection,
	CapQueue, CapTopic, CapTemporaryQueue, CapTemporaryTopic, CapShared, CapGlobal,
	CapOncemqSession, CapOncemqTx, CapOncemqNumbered,
	PropSession, PropNonce, PropResumed, PropLastNumber, PropProduct, PropVersion, PropPlatform,
	AnnotationNumber, AnnotationKnown, AnnotationUnknown, AnnotationOperations,
	ErrCondTransactionRollback, ErrCondTransactionUnknownID, ErrCondTransactionTimeout, ErrCondTransactionDecided,
	InfoOutcome, InfoReason, "x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-delivery-time",
	"ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512",
)

func symbolSet(names ...Symbol) map[string]Symbol {
	m := make(map[string]Symbol, len(names))
	for _, n := range names {
		m[string(n)] = n
	}
	return m
}
