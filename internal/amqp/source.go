package amqp

// Source is the end of a link that messages come from (3.5.3).
type Source struct {
	// Address of the node; unset for a dynamic one or where there is none.
	Address Opt[string]
	// Durable says what outlives the link. ExpiryPolicy says what starts the expiry timer; empty is the default,
	// session-end, which stands here after a decode. Timeout is in seconds from then.
	Durable      TerminusDurability
	ExpiryPolicy Symbol
	Timeout      uint32
	// Dynamic asks for a node to be made, DynamicNodeProperties says how (see LifetimePolicyOf).
	Dynamic               bool
	DynamicNodeProperties Map
	// DistributionMode is DistributionMove, DistributionCopy or empty.
	DistributionMode Symbol
	// Filter is the filter set: keys are names that the client chose, values usually *Described.
	Filter Map
	// DefaultOutcome is for deliveries that are settled without a state; Outcomes are those that may be used.
	DefaultOutcome DeliveryState
	Outcomes       []Symbol
	// Capabilities are extensions, such as CapQueue.
	Capabilities []Symbol
}

func (x *Source) appendTo(dst []byte) []byte {
	w := openList(dst, codeSource)
	w.optStr(x.Address)
	w.uintOr(uint32(x.Durable), 0)
	w.symOr(x.ExpiryPolicy, ExpirySessionEnd)
	w.uintOr(x.Timeout, 0)
	w.boolOr(x.Dynamic, false)
	w.mapping(x.DynamicNodeProperties)
	w.symOr(x.DistributionMode, "")
	w.mapping(x.Filter)
	w.state(x.DefaultOutcome)
	w.syms(x.Outcomes)
	w.syms(x.Capabilities)
	return w.close()
}

func (x *Source) decode(r *reader) {
	l := r.openList("source", 11)
	x.Address = r.optStr(&l, "address")
	x.Durable = TerminusDurability(r.uintMax(&l, "durable", 2))
	x.ExpiryPolicy = r.expiry(&l)
	x.Timeout = r.uintOr(&l, "timeout", 0)
	x.Dynamic = r.boolOr(&l, "dynamic", false)
	x.DynamicNodeProperties = r.mapping(&l, "dynamic-node-properties")
	x.DistributionMode = r.sym(&l, "distribution-mode")
	x.Filter = r.mapping(&l, "filter")
	x.DefaultOutcome = r.outcome(&l, "default-outcome")
	x.Outcomes = r.syms(&l, "outcomes")
	x.Capabilities = r.syms(&l, "capabilities")
	r.closeList(&l)
}
